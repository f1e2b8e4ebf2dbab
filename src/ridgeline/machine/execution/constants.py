"""What a program's weights and parameters are before it runs: constants that nothing overwrites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.machine.execution.walks import span
from ridgeline.machine.instructions import HostRead, LoadParams, LoadWeights, Store
from ridgeline.machine.instructions.state import Bytes
from ridgeline.machine.instructions.weights import PARAMETER_BYTES, read_parameters
from ridgeline.machine.program import Program


@dataclass(slots=True, eq=False)
class Tile:
    """A tile of constant weights: what brings it, and a number that tells tiles apart.

    Never changed, but not frozen: a frozen one takes three times as long to make.
    """

    number: int
    load: LoadWeights
    largest: int
    """No weight, zero point subtracted, is larger in magnitude."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Bias and scale of the lanes from 0 on."""

    bias: npt.NDArray[np.int32]
    scale: npt.NDArray[np.float32]


class Constants:
    """The bytes that device memory starts with, and which of them stay as they are."""

    def __init__(self, program: Program) -> None:
        self.memory: Bytes = program.constants
        self.written = [
            s for s in _written_spans(program) if s[0] < self.memory.size and s[1] > s[0]
        ]
        """Spans [start, end) among the constants that something writes."""
        self._tiles: dict[int, Tile] = {}
        self._made = 0
        self._parameters: dict[tuple[int, int], Parameters] = {}

    def stays(self, start: int, end: int) -> bool:
        """Whether device memory [start, end) holds its constants for as long as it runs."""
        if start < 0 or end > self.memory.size:
            return False
        written = self.written
        return not written or not any(first < end and start < last for first, last in written)

    def tile(self, one: LoadWeights) -> Tile | None:
        """What LoadWeights brings, or None when that is known only as it runs."""
        if one.from_buffer:
            return None
        # By address alone: it is cheap, and two forms of tile at one address are just told apart.
        known = self._tiles.get(one.address)
        if known is not None and _same_tile(known.load, one):
            return known
        rows, width = (one.n, one.k) if one.transposed else (one.k, one.n)
        reach = (rows - 1) * one.row_stride
        start, end = one.address + min(reach, 0), one.address + max(reach, 0) + width
        if not self.stays(start, end):
            return None
        least, most = (-128, 127) if one.signed else (0, 255)
        largest = max(abs(least - one.zero_point), abs(most - one.zero_point))
        self._made += 1
        tile = Tile(self._made, one, largest)
        self._tiles[one.address] = tile
        return tile

    def parameters(self, one: LoadParams) -> Parameters | None:
        """What LoadParams brings, or None when that is known only as it runs."""
        key = (one.device_address, one.count)
        known = self._parameters.get(key)
        if known is None:
            start, end = one.device_address, one.device_address + one.count * PARAMETER_BYTES
            if not self.stays(start, end):
                return None
            known = Parameters(*read_parameters(self.memory, *key))
            self._parameters[key] = known
        return known


def _same_tile(a: LoadWeights, b: LoadWeights) -> bool:
    """Whether two loads from one address bring the same tile."""
    return (
        a.row_stride == b.row_stride
        and (a.k, a.n, a.transposed) == (b.k, b.n, b.transposed)
        and (a.signed, a.zero_point) == (b.signed, b.zero_point)
        and (a.block_rows, a.block_row, a.column) == (b.block_rows, b.block_row, b.column)
    )


def _written_spans(program: Program) -> list[tuple[int, int]]:
    """Spans of device memory that inputs and instructions write."""
    spans = [(t.address, t.address + t.bytes) for t in program.device_inputs]
    for one in program.instructions:
        if isinstance(one, HostRead):
            spans.append((one.device_address, one.device_address + one.length_bytes))
        elif isinstance(one, Store):
            low, high = span(one.device_address, one.counts, one.device_strides)
            spans.append((low, high + one.element_bytes))
    return spans
