"""The walks of many instructions as one table, from which `ordering` reads what touches what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Space
from ridgeline.machine.instructions.state import GRANULE_BYTES
from ridgeline.machine.instructions.walk import Walk

Integers = npt.NDArray[np.int64]

SPACES = (
    Space.HOST,
    Space.DEVICE,
    Space.BUFFER,
    Space.ACCUMULATORS,
    Space.SLOTS,
    Space.PARAMETERS,
)
"""The spaces by their number in the table."""

LEVELS = 5
SPACE, WRITES, FORWARDED, BYTES, PLANES, BASE = range(6)
COUNTS, STRIDES, X, Y, WIDTH = 6, 11, 16, 20, 24
"""Columns of the table; counts and strides have five each, x and y four (see `Axis`)."""


@dataclass(frozen=True, slots=True, eq=False)
class WalkTable:
    """Walks [walks, WIDTH]; those of instruction i are `counts[i]` lines from `first[i]` on.

    `most_places`: no instruction touches more places, counted with repeats.
    """

    lines: Integers
    first: Integers
    counts: Integers
    most_places: int


def most_places(lines: Integers, each: int) -> int:
    """Places that one instruction touches at most, counted with repeats; each has `each` lines."""
    elements = np.prod(lines[:, COUNTS : COUNTS + LEVELS], axis=1)
    spans = -(-lines[:, BYTES] // GRANULE_BYTES) + 1
    touched = elements * np.where(lines[:, BYTES] > 0, spans, lines[:, PLANES])
    return int(touched.reshape(-1, each).sum(axis=1).max(initial=0)) if each else 0


def walk_lines(walks: Sequence[Walk], rows: int) -> Integers:
    """The walks of `rows` rows of operands, whose walks these are: [rows * walks, WIDTH]."""
    block = np.zeros((rows, len(walks), WIDTH), np.int64)
    for number, walk in enumerate(walks):
        _fill(block[:, number], walk)
    return block.reshape(-1, WIDTH)


def _fill(block: Integers, walk: Walk) -> None:
    """Write a walk, whose operands may be columns, to its lines."""
    block[:, SPACE] = SPACES.index(walk.space)
    block[:, WRITES], block[:, FORWARDED] = walk.writes, walk.forwarded
    block[:, BYTES], block[:, PLANES] = walk.element_bytes, walk.planes
    block[:, BASE] = walk.base
    block[:, COUNTS : COUNTS + LEVELS] = 1
    several: list[tuple[int, tuple[Any, ...]]] = [(COUNTS, walk.counts), (STRIDES, walk.strides)]
    for start, values in (*several, (X, walk.x), (Y, walk.y)):
        for level, value in enumerate(values):
            block[:, start + level] = value


def space_sizes(machine: Machine, host_bytes: int, device_bytes: int) -> dict[str, int]:
    """How many places each space has."""
    return {
        Space.HOST: host_bytes // GRANULE_BYTES + 1,
        Space.DEVICE: device_bytes // GRANULE_BYTES + 1,
        Space.BUFFER: machine.unified_buffer.lines,
        Space.ACCUMULATORS: machine.array.accumulator_entries,
        Space.SLOTS: machine.array.weight_slots,
        Space.PARAMETERS: machine.vector.parameter_slots,
    }
