"""Elementwise instructions on 8-bit operands, read from a table of all pairs of stored bytes; and
those that have a table themselves.

An elementwise result depends on two bytes and constants of the instruction, so 65,536 results,
computed by the instruction's own formula, are all that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.execution.scratch import Scratch
from ridgeline.machine.execution.walks import Lines
from ridgeline.machine.instructions import Elementwise, Lookup
from ridgeline.machine.instructions.array import INT8, INT16
from ridgeline.machine.instructions.state import Bytes, State
from ridgeline.machine.instructions.vector import RESCALE

Key = tuple[Any, ...]


def table_key(one: Elementwise) -> Key | None:
    """What the table of an instruction depends on; None where operands are wider than 8 bits."""
    if INT16 in (one.format, one.out_format):
        return None
    return (
        *(one.operation, one.format, one.out_format, one.zero_a, one.zero_b),
        *(one.scale_a, one.scale_b, one.offset, one.out_zero_point, one.low, one.high),
    )


def table_of(one: Elementwise, mode: str) -> Bytes:
    """The stored byte for bytes a and b, at 256 * a + b; for a rescale at a.

    `mode` is the machine's way to requantise.
    """
    byte = np.arange(256, dtype=np.uint8)
    every = (byte.view(np.int8) if one.format == INT8 else byte).astype(np.int32)
    if one.operation == RESCALE:
        stored = one.combine(every, every, mode)
    else:
        stored = one.combine(every[:, None], every[None, :], mode)
    return (stored & 255).astype(np.uint8).reshape(-1)


class Combination:
    """Elementwise instructions with one table and one number of channels, done together."""

    def __init__(self, table: Bytes, one: Elementwise) -> None:
        self.table = table
        self.single = one.operation == RESCALE
        self.channels = one.channels
        self.first: list[Lines] = []
        self.second: list[Lines] = []
        self.m = 0

    def add(self, a: Lines, b: Lines | None) -> int:
        """Take one more instruction; the row of its first vector in the result."""
        row = self.m
        _append(self.first, a)
        if b is not None:
            _append(self.second, b)
        self.m += a.m
        return row

    def compute(self, state: State, scratch: Scratch) -> Bytes:
        """The stored bytes [m, channels] of all instructions in turn."""
        shape = (self.m, self.channels)
        index = scratch.array("index", shape, np.intp)
        self._copy(state, self.first, index)
        if not self.single:
            second = scratch.array("second", shape, np.uint8)
            self._copy(state, self.second, second)
            np.left_shift(index, 8, out=index)
            np.bitwise_or(index, second, out=index)
        return self.table.take(index)

    @staticmethod
    def _copy(state: State, walks: Sequence[Lines], target: npt.NDArray[Any]) -> None:
        row = 0
        for walk in walks:
            bytes_read = walk.plane(state.buffer)
            target[row : row + walk.m].reshape(bytes_read.shape)[...] = bytes_read
            row += walk.m


def _append(walks: list[Lines], walk: Lines) -> None:
    """Add a walk, as more of the last one where the two are one walk."""
    longer = walks[-1].followed_by(walk) if walks else None
    if longer is None:
        walks.append(walk)
    else:
        walks[-1] = longer


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """A Lookup: bytes replaced by those of a table in the unified buffer."""

    one: Lookup
    read: Lines
    target: Lines

    def run(self, state: State, scratch: Scratch) -> None:
        entries = (self.one.entries(state) & 255).astype(np.uint8)
        made = entries.take(self.read.plane(state.buffer))
        self.target.write(state.buffer, made.reshape(self.read.m, self.read.width))
