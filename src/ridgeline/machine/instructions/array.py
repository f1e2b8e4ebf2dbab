"""The array unit's instruction: activation rows from the unified buffer times a weight slot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.machine.dataflow import DATAFLOW_RULES, Pass, Tile
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.nests import Counted
from ridgeline.machine.instructions.state import Places, Space, State, nested
from ridgeline.machine.instructions.walk import Axis, Walk
from ridgeline.machine.instructions.word import Instruction, Timing, Unit, bits
from ridgeline.machine.latencies import LATENCIES

UINT8, INT8, INT16 = 0, 1, 2
"""Codes of a `format` field: the element format of lines in the unified buffer."""

FORMAT_NAMES = ("uint8", "int8", "int16")


def planes(format_code: int) -> int:
    """Lines of one vector: int16 lies as a line of low bytes, then a line of high bytes."""
    return 1 + (format_code == INT16)


def read_vectors(
    buffer: npt.NDArray[np.uint8], lines: Places, lanes: slice, format_code: int
) -> npt.NDArray[np.int32]:
    """Integers [len(lines), lanes] of the vectors that begin at `lines`."""
    low = buffer[lines, lanes]
    if format_code == UINT8:
        return low.astype(np.int32)
    if format_code == INT8:
        return low.view(np.int8).astype(np.int32)
    high = buffer[lines + 1, lanes].view(np.int8).astype(np.int32)
    return high * 256 + low


def write_vectors(
    buffer: npt.NDArray[np.uint8],
    lines: Places,
    lanes: slice,
    format_code: int,
    values: npt.NDArray[Any],
) -> None:
    """Store integers [len(lines), lanes]; lanes outside keep their bytes."""
    words = values.astype(np.int32)
    buffer[lines, lanes] = (words & 255).astype(np.uint8)
    if format_code == INT16:
        buffer[lines + 1, lanes] = ((words >> 8) & 255).astype(np.uint8)


def wrap(values: npt.NDArray[np.int64], accumulator_bits: int) -> npt.NDArray[np.int64]:
    """Two's-complement wrap of int64 to the accumulator's width."""
    half = np.int64(1) << np.int64(accumulator_bits - 1)
    return ((values + half) & ((half << 1) - 1)) - half


def within(origin: int, step: int, limit: int, count: int) -> int:
    """How many of origin + i * step, for i below count, lie in [0, limit); step is 0 or more."""
    if step == 0:
        return count if 0 <= origin < limit else 0
    first = max(0, -(origin // step))
    return max(0, min(count, -((origin - limit) // step)) - first)


# Without slots, so that an instruction can have both this and the output fields of vector.py.
@dataclass(frozen=True)
class WindowFields(Counted, Instruction):
    """A three-level walk x, y, image over vectors, whose x and y may leave the tensor.

    Vector (i0, i1, i2) begins at line + i0*stride_0 + i1*stride_1 + i2*stride_2. It lies outside,
    and reads as zero after the zero point, where x_origin + i0*x_step is not in [0, x_limit) or
    y_origin + i1*y_step is not in [0, y_limit).
    """

    format: int = bits(2, "element format: 0 uint8, 1 int8, 2 int16 (two lines a vector)")
    zero_point: int = bits(9, "subtracted from every activation", signed=True)
    line: int = bits(22, "line of the vector at index 0, possibly outside", signed=True)
    lane: int = bits(12, "first byte of the vector within its line")
    count_0: int = bits(16, "vectors along x", default=1)
    count_1: int = bits(16, "repeats along y", default=1)
    count_2: int = bits(16, "repeats along images", default=1)
    stride_0: int = bits(21, "lines between vectors along x", signed=True)
    stride_1: int = bits(21, "lines along y", signed=True)
    stride_2: int = bits(21, "lines along images", signed=True)
    x_origin: int = bits(17, "x of index 0", signed=True)
    x_step: int = bits(8, "x per index")
    x_limit: int = bits(
        16, "first x outside; with x_step 0 and x_origin 0 any value above 0", default=1
    )
    y_origin: int = bits(17, "y of index 0", signed=True)
    y_step: int = bits(8, "y per index")
    y_limit: int = bits(16, "first y outside", default=1)

    def lines(self) -> Places:
        """Line of each vector, inside or not."""
        strides = (self.stride_0, self.stride_1, self.stride_2)
        return nested(self.line, self.counts, strides)

    def inside(self) -> npt.NDArray[np.bool_]:
        """Which vectors lie inside the tensor, flattened like `lines`."""
        x = self.x_origin + np.arange(self.count_0) * self.x_step
        y = self.y_origin + np.arange(self.count_1) * self.y_step
        ok_x, ok_y = (x >= 0) & (x < self.x_limit), (y >= 0) & (y < self.y_limit)
        plane = (ok_y[:, None] & ok_x[None, :]).reshape(-1)
        return np.tile(plane, self.count_2) if self.count_2 > 1 else plane

    def count_inside(self, x_moved: int = 0, y_moved: int = 0) -> int:
        """How many vectors lie inside the tensor once the walk is moved by so much."""
        across = within(self.x_origin + x_moved, self.x_step, self.x_limit, self.count_0)
        down = within(self.y_origin + y_moved, self.y_step, self.y_limit, self.count_1)
        return across * down * self.count_2

    @property
    def x_axis(self) -> Axis:
        return (self.x_origin, self.x_step, self.x_limit, 0)

    @property
    def y_axis(self) -> Axis:
        return (self.y_origin, self.y_step, self.y_limit, 0)


@dataclass(frozen=True, slots=True)
class MatMul(WindowFields):
    """m activation vectors (k lanes each, zero point subtracted) times a slot, into accumulators.

    Row r of the product goes to accumulator entry `entry` + r, overwriting it or adding to it, in
    every column; sums wrap at the accumulator's width.
    """

    k: int = bits(10, "lanes used of each vector", default=1)
    n: int = bits(10, "columns of the slot that hold weights (for the count of MACs)", default=1)
    weights: int = bits(
        20, "weights of the tile that are real, 0 for k * n (for the count of MACs)"
    )
    slot: int = bits(8, "weight slot")
    keep_weights: int = bits(1, "the array holds this slot already: no shift")
    entry: int = bits(17, "first accumulator entry")
    accumulate: int = bits(1, "add to the entries instead of overwriting them")
    last: int = bits(1, "the last pass over k: sums leave an output-stationary array", default=1)
    banks: int = bits(16, "mask of the unified-buffer banks held for reading")

    opcode: ClassVar[int] = 7
    unit: ClassVar[Unit] = Unit.ARRAY

    @property
    def read_banks(self) -> int:
        return self.banks

    @property
    def macs(self) -> int:
        """Multiply-accumulates with real weights, the image's padding included."""
        return self.m * (self.weights or self.k * self.n)

    @property
    def tile(self) -> Tile:
        return Tile(
            self.m, self.n, self.k, planes(self.format), bool(self.keep_weights), bool(self.last)
        )

    def passes(self, machine: Machine) -> tuple[Pass, ...]:
        """The passes of this instruction under the machine's dataflow."""
        return DATAFLOW_RULES[machine.array.dataflow].passes(self.tile)

    def apply(self, state: State) -> None:
        lanes = slice(self.lane, self.lane + self.k)
        inside = self.inside()
        lines = self.lines()
        lines[~inside] = 0
        rows = read_vectors(state.buffer, lines, lanes, self.format) - self.zero_point
        rows[~inside] = 0
        products = self._product(rows, state.slots[self.slot, : self.k])
        entries = slice(self.entry, self.entry + self.m)
        if self.accumulate:
            products = products + state.accumulators[entries]
        state.accumulators[entries] = wrap(products, state.machine.array.accumulator_bits)

    def _product(
        self, rows: npt.NDArray[np.int32], weights: npt.NDArray[np.int16]
    ) -> npt.NDArray[np.int64]:
        """Exact product. |row byte| <= 255 and |weight| <= 255, so 256 terms stay below 2^24."""
        total = np.zeros((rows.shape[0], weights.shape[1]), np.int64)
        # A slot is 0 beyond its tile: those columns need no work.
        filled = np.flatnonzero(weights.any(axis=0))
        if not filled.size:
            return total
        columns = int(filled[-1]) + 1
        parts = [(rows, 1)] if self.format != INT16 else [(rows & 255, 1), (rows >> 8, 256)]
        for part, factor in parts:
            for start in range(0, self.k, 256):
                left = part[:, start : start + 256].astype(np.float32)
                right = weights[start : start + 256, :columns].astype(np.float32)
                total[:, :columns] += (left @ right).astype(np.int64) * factor
        return total

    def timing(self, machine: Machine) -> Timing:
        """issue = the passes' streams; latency = rows + cols + the array's pipeline.

        Shifts are hidden behind the MatMul before; `simulate` adds what is not.
        """
        array = machine.array
        issue = sum(one.stream_cycles for one in self.passes(machine))
        return Timing(issue, array.rows + array.cols + LATENCIES.array)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.m, self.n, self.k, self.format, self.keep_weights, self.last)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        strides = (self.stride_0, self.stride_1, self.stride_2)
        entries, sums = self.m, Space.ACCUMULATORS
        return (
            Walk(
                Space.BUFFER,
                self.line,
                self.counts,
                strides,
                planes=planes(self.format),
                x=self.x_axis,
                y=self.y_axis,
            ),
            Walk(Space.SLOTS, self.slot),
            Walk(sums, self.entry, (entries * self.accumulate,), forwarded=True),
            Walk(sums, self.entry, (entries,), writes=True),
        )

    def activity(self, machine: Machine) -> Activity:
        """The dataflow says what moves in the array; vectors outside the tensor are not read."""
        array, tile = machine.array, self.tile
        sizes = (tile.m, tile.n, tile.k, tile.planes, tile.keep_weights, tile.last)
        shape = (array.dataflow, array.rows, array.cols, array.accumulator_bits)
        return _activity(shape, sizes, self.macs, bool(self.accumulate), self.count_inside())


@lru_cache(maxsize=65536)
def _activity(
    shape: tuple[str, int, int, int],
    sizes: tuple[int, int, int, int, bool, bool],
    macs: int,
    accumulate: bool,
    inside: int,
) -> Activity:
    """Of a MatMul; programs repeat few of them, many times."""
    dataflow, rows, cols, accumulator_bits = shape
    tile = Tile(*sizes)
    traffic = DATAFLOW_RULES[dataflow].traffic(tile, rows, cols)
    sum_bytes = accumulator_bits // 8
    vector_bytes = cols * sum_bytes
    read = traffic.vectors_back + (traffic.vectors_added_to if accumulate else 0)
    return Activity(
        macs=macs,
        mac_format=FORMAT_NAMES[INT16] if tile.planes == 2 else FORMAT_NAMES[INT8],
        array_register_bytes=traffic.operand_writes + traffic.sum_writes * sum_bytes,
        accumulator_read_bytes=read * vector_bytes,
        accumulator_write_bytes=traffic.vectors_out * vector_bytes,
        buffer_reads=inside * tile.planes,
        slot_read_bytes=traffic.slot_reads,
    )
