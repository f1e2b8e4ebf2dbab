"""The byte memories that instructions act on, and the sets of places that they touch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

GRANULE_BYTES = 64
"""Host and device memory are tracked for races in granules of this many bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All memories of a machine.

    host, device [bytes] uint8; buffer [lines, line_bytes] uint8; accumulators [entries, cols]
    int64 (wrapped to the machine's accumulator bits); slots [weight slots, rows, cols] int16
    (zero points subtracted); bias [parameter slots, line_bytes] int32; scale the same, float32.
    """

    machine: Machine
    host: Bytes
    device: Bytes
    buffer: Bytes
    accumulators: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int16]
    bias: npt.NDArray[np.int32]
    scale: npt.NDArray[np.float32]

    @staticmethod
    def blank(machine: Machine, host_bytes: int, device_bytes: int) -> State:
        """Zeroed memories; host and device memory of the sizes that a program uses."""
        array, lines = machine.array, machine.unified_buffer
        slots = machine.vector.parameter_slots
        return State(
            machine,
            np.zeros(host_bytes, np.uint8),
            np.zeros(device_bytes, np.uint8),
            np.zeros((lines.lines, lines.line_bytes), np.uint8),
            np.zeros((array.accumulator_entries, array.cols), np.int64),
            np.zeros((array.weight_slots, array.rows, array.cols), np.int16),
            np.zeros((slots, lines.line_bytes), np.int32),
            np.zeros((slots, lines.line_bytes), np.float32),
        )


class Space:
    """Names of the address spaces of `Accesses`."""

    HOST = "host"
    DEVICE = "device"
    BUFFER = "buffer"
    ACCUMULATORS = "accumulators"
    SLOTS = "slots"
    PARAMETERS = "parameters"


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """Places read and written, by space: granules, lines, entries or slot numbers.

    Reads happen while an instruction issues, writes until it drains. `forwarded` spaces are read
    at the write stage of the same pipeline, so that back-to-back use by one unit is in order.
    """

    reads: dict[str, Places] = field(default_factory=dict[str, Any])
    writes: dict[str, Places] = field(default_factory=dict[str, Any])
    forwarded: frozenset[str] = frozenset()


def granules(addresses: Places, element_bytes: int) -> Places:
    """Distinct granules touched by elements of `element_bytes` at byte `addresses`."""
    if addresses.size == 1:
        start = int(addresses[0])
        end = start + element_bytes - 1
        return np.arange(start // GRANULE_BYTES, end // GRANULE_BYTES + 1, dtype=np.int64)
    first = addresses // GRANULE_BYTES
    last = (addresses + element_bytes - 1) // GRANULE_BYTES
    spans = int((last - first).max(initial=0)) + 1
    return np.unique(np.concatenate([np.minimum(first + i, last) for i in range(spans)]))


def nested(base: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> Places:
    """Addresses base + sum(index * stride), level 0 fastest, flattened."""
    total = np.asarray([base], np.int64)
    for count, stride in zip(counts, strides, strict=True):
        total = (np.arange(count, dtype=np.int64)[:, None] * stride + total[None, :]).reshape(-1)
    return total
