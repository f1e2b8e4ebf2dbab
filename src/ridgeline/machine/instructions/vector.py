"""The vector unit's instructions: out of the accumulators, and from unified buffer to itself.

They compute what ONNX Runtime computes, in its order of float32 operations; the formulas are those
of docs/numerics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.array import (
    INT8,
    INT16,
    WindowFields,
    planes,
    read_vectors,
    wrap,
    write_vectors,
)
from ridgeline.machine.instructions.nests import Counted, TwoOperands
from ridgeline.machine.instructions.state import Places, Space, State, nested
from ridgeline.machine.instructions.walk import Walk
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.instructions.word import Instruction, Timing, Unit, bits
from ridgeline.machine.latencies import LATENCIES
from ridgeline.numerics.quantize import stored_integers
from ridgeline.numerics.requantize import DEFAULT_MODE, requantize
from ridgeline.numerics.rounding import fused_multiply_add

Integers = npt.NDArray[np.int64]

ADD, MUL, RESCALE = 0, 1, 2
MAX, SUM_AVERAGE, FLOAT_AVERAGE, DEPTHWISE = 0, 1, 2, 3

MOST_DEPTHWISE_TAPS = 256
"""The weight lines of a depthwise WindowReduce lie in a memory of the vector unit so deep."""

ELEMENTWISE_OPERATIONS = ("add", "mul", "rescale")
WINDOW_OPERATIONS = ("max_pool", "average_pool", "average_pool", "depthwise")


def _lane_groups(machine: Machine, channels: int) -> int:
    return -(-channels // machine.vector.lanes)


# Without slots, so that an instruction can have both these fields and those of a window.
@dataclass(frozen=True)
class OutputFields(Instruction):
    """Where a vector instruction writes: a three-level walk over lines, and the output's format."""

    out_format: int = bits(2, "element format written: 0 uint8, 1 int8, 2 int16")
    out_line: int = bits(20, "first line written")
    out_lane: int = bits(12, "byte within the line at which vectors begin")
    out_stride_0: int = bits(21, "lines between vectors, level 0", signed=True)
    out_stride_1: int = bits(21, "lines, level 1", signed=True)
    out_stride_2: int = bits(21, "lines, level 2", signed=True)
    out_zero_point: int = bits(9, "added after rounding", signed=True)
    low: int = bits(17, "smallest value stored", signed=True)
    high: int = bits(17, "largest value stored", signed=True)
    channels: int = bits(13, "lanes computed and written", default=1)
    out_banks: int = bits(16, "mask of the unified-buffer banks held for writing")

    unit: ClassVar[Unit] = Unit.VECTOR

    @property
    def write_banks(self) -> int:
        return self.out_banks

    def out_lines(self, counts: tuple[int, int, int]) -> Places:
        """Line of each vector written, in order."""
        strides = (self.out_stride_0, self.out_stride_1, self.out_stride_2)
        return nested(self.out_line, counts, strides)

    def _write(self, state: State, counts: tuple[int, int, int], values: Integers) -> None:
        lanes = slice(self.out_lane, self.out_lane + self.channels)
        write_vectors(state.buffer, self.out_lines(counts), lanes, self.out_format, values)

    def _line_writes(self, machine: Machine, vectors: int) -> int:
        return vectors * planes(self.out_format) * _lane_groups(machine, self.channels)

    def _written(self, counts: tuple[int, int, int]) -> Walk:
        strides = (self.out_stride_0, self.out_stride_1, self.out_stride_2)
        lines = planes(self.out_format)
        return Walk(Space.BUFFER, self.out_line, counts, strides, writes=True, planes=lines)


@dataclass(frozen=True, slots=True)
class Requant(Counted, OutputFields):
    """Accumulators to stored integers: bias and float32 scale per channel, clamp, zero point.

    Entries `entry`, `entry` + 1, ... in order go to the walk of output lines.
    """

    entry: int = bits(17, "first accumulator entry")
    count_0: int = bits(16, "entries along level 0", default=1)
    count_1: int = bits(16, "repeats, level 1", default=1)
    count_2: int = bits(16, "repeats, level 2", default=1)
    slot: int = bits(4, "parameter slot with bias and scale")

    opcode: ClassVar[int] = 8

    def apply(self, state: State) -> None:
        total = state.accumulators[self.entry : self.entry + self.m, : self.channels]
        total = total + state.bias[self.slot, : self.channels]
        total = wrap(total, state.machine.array.accumulator_bits)
        scale = state.scale[self.slot, : self.channels]
        mode = state.machine.vector.requantize
        stored = requantize(total, scale, self.out_zero_point, self.low, self.high, mode)
        self._write(state, self.counts, stored)

    def timing(self, machine: Machine) -> Timing:
        """issue = entries * ceil(channels / lanes) * planes; one vector pipeline of latency."""
        groups = _lane_groups(machine, self.channels)
        return Timing(self.m * groups * planes(self.out_format), LATENCIES.vector)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.m, self.channels, self.out_format)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        return (
            Walk(Space.ACCUMULATORS, self.entry, (self.m,)),
            Walk(Space.PARAMETERS, self.slot),
            self._written(self.counts),
        )

    def activity(self, machine: Machine) -> Activity:
        return Activity(
            accumulator_read_bytes=self.m * self.channels * machine.array.accumulator_bits // 8,
            buffer_writes=self._line_writes(machine, self.m),
            slot_read_bytes=self.channels * PARAMETER_BYTES,
            vector_operations=self.m * self.channels,
        )


@dataclass(frozen=True, slots=True)
class Elementwise(TwoOperands, OutputFields):
    """Two walks over vectors combined into a third: add, multiply, or one rescaled.

    add: round(fma(a, scale_a, fma(b, scale_b, offset))); mul: round(float32(offset +
    float32((a - zero_a)(b - zero_b)) * scale_a)); both clamped to [low, high] before rounding, the
    zero point inside. rescale: round(float32((a - zero_a) * scale_a) / scale_b) + out_zero_point.
    """

    operation: int = bits(2, "0 add, 1 mul, 2 rescale")
    format: int = bits(2, "element format read")
    count_0: int = bits(16, "vectors, level 0", default=1)
    count_1: int = bits(16, "repeats, level 1", default=1)
    count_2: int = bits(16, "repeats, level 2", default=1)
    a_line: int = bits(20, "first line of a")
    a_stride_0: int = bits(21, "lines, level 0", signed=True)
    a_stride_1: int = bits(21, "lines, level 1", signed=True)
    a_stride_2: int = bits(21, "lines, level 2", signed=True)
    b_line: int = bits(20, "first line of b")
    b_stride_0: int = bits(21, "lines, level 0", signed=True)
    b_stride_1: int = bits(21, "lines, level 1", signed=True)
    b_stride_2: int = bits(21, "lines, level 2", signed=True)
    lane: int = bits(12, "byte within the lines at which a and b begin")
    zero_a: int = bits(9, "zero point of a (mul, rescale)", signed=True)
    zero_b: int = bits(9, "zero point of b (mul)", signed=True)
    scale_a: float = bits(32, "float32, see above", default=1.0)
    scale_b: float = bits(32, "float32, see above", default=1.0)
    offset: float = bits(32, "float32, see above", default=0.0)
    in_banks: int = bits(16, "mask of the unified-buffer banks held for reading")

    opcode: ClassVar[int] = 9

    @property
    def read_banks(self) -> int:
        return self.in_banks

    def apply(self, state: State) -> None:
        lanes = slice(self.lane, self.lane + self.channels)
        a = read_vectors(state.buffer, self.a_lines(), lanes, self.format)
        b = a
        if self.operation != RESCALE:
            b = read_vectors(state.buffer, self.b_lines(), lanes, self.format)
        stored = self.combine(a, b, state.machine.vector.requantize)
        self._write(state, self.counts, stored)

    def combine(
        self, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32], mode: str = DEFAULT_MODE
    ) -> Integers:
        """The integers stored for stored integers a and b, whose shapes broadcast; a rescale takes
        a alone, and one that does not divide is requantised in the machine's `mode`.
        """
        if self.operation == RESCALE and self.scale_b == 1 and mode != DEFAULT_MODE:
            scale = np.float32(self.scale_a)
            return requantize(
                a - self.zero_a, scale, self.out_zero_point, self.low, self.high, mode
            )
        if self.operation == RESCALE:
            with np.errstate(over="ignore", under="ignore"):
                real = (a - self.zero_a).astype(np.float32) * np.float32(self.scale_a)
            scale = np.asarray(self.scale_b, np.float32)
            return stored_integers(real, scale, self.out_zero_point, self.low, self.high)
        real = self._add(a, b) if self.operation == ADD else self._mul(a, b)
        bounded = np.clip(real, np.float32(self.low), np.float32(self.high))
        return np.rint(bounded).astype(np.int64)

    def _add(self, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        partial = fused_multiply_add(b, np.float32(self.scale_b), np.float32(self.offset))
        return fused_multiply_add(a, np.float32(self.scale_a), partial)

    def _mul(self, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        left = a.astype(np.int64) - self.zero_a
        product = (left * (b - self.zero_b)).astype(np.float32)
        return np.float32(self.offset) + product * np.float32(self.scale_a)

    def timing(self, machine: Machine) -> Timing:
        """issue = vectors * ceil(channels / lanes) * planes * operands read through one port."""
        operands = 1 if self.operation == RESCALE else 2
        groups = _lane_groups(machine, self.channels)
        wide = max(planes(self.format) * operands, planes(self.out_format))
        deep = LATENCIES.vector_from_buffer if operands == 1 else LATENCIES.vector_real
        return Timing(self.m * groups * wide, deep)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.m, self.channels, self.operation, self.format, self.out_format)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        a_strides = (self.a_stride_0, self.a_stride_1, self.a_stride_2)
        b_strides = (self.b_stride_0, self.b_stride_1, self.b_stride_2)
        lines, two = planes(self.format), 1 * (self.operation != RESCALE)
        counts = (self.count_0 * two, self.count_1, self.count_2)
        return (
            Walk(Space.BUFFER, self.a_line, self.counts, a_strides, planes=lines),
            Walk(Space.BUFFER, self.b_line, counts, b_strides, planes=lines),
            self._written(self.counts),
        )

    def activity(self, machine: Machine) -> Activity:
        operands = 1 if self.operation == RESCALE else 2
        groups = _lane_groups(machine, self.channels)
        return Activity(
            buffer_reads=self.m * operands * planes(self.format) * groups,
            buffer_writes=self._line_writes(machine, self.m),
            vector_operations=self.m * operands * self.channels,
        )


@dataclass(frozen=True, slots=True)
class WindowReduce(WindowFields, OutputFields):
    """For each output vector, taps of a window reduced channel by channel.

    Tap (j0, j1) of output (i0, i1, i2) is the vector of the walk moved by j0*tap_stride_0 +
    j1*tap_stride_1 lines and j0*tap_step_0, j1*tap_step_1 in x and y; taps outside count nothing.
    max: the largest stored value. sum average: the sum of (x - zero point) requantised by scale_a.
    float average: float32 sum, in tap order, of float32(scale_a * (x - zero point)), divided by the
    taps counted, divided by scale_b, plus the zero point, rounded once. depthwise: products with
    the weight line of the tap (weight_line + tap number) summed, then bias, scale per channel; at
    most 256 taps.
    """

    operation: int = bits(2, "0 max, 1 sum average, 2 float average, 3 depthwise")
    taps_0: int = bits(8, "taps along x", default=1)
    taps_1: int = bits(8, "taps along y", default=1)
    tap_stride_0: int = bits(21, "lines between taps along x", signed=True)
    tap_stride_1: int = bits(21, "lines between taps along y", signed=True)
    tap_step_0: int = bits(8, "x per tap")
    tap_step_1: int = bits(8, "y per tap")
    count_outside: int = bits(1, "float average: taps outside count in the divisor")
    weight_line: int = bits(20, "line of the first tap's weights (depthwise)")
    weight_signed: int = bits(1, "weights are int8, not uint8", default=1)
    weight_zero_point: int = bits(9, "subtracted from every weight", signed=True)
    slot: int = bits(4, "parameter slot with bias and scale (depthwise)")
    scale_a: float = bits(32, "float32, see above", default=1.0)
    scale_b: float = bits(32, "float32, see above", default=1.0)
    in_banks: int = bits(16, "mask of the unified-buffer banks held for reading")

    opcode: ClassVar[int] = 10
    unit: ClassVar[Unit] = Unit.VECTOR

    @property
    def read_banks(self) -> int:
        return self.in_banks

    @property
    def taps(self) -> int:
        return self.taps_0 * self.taps_1

    def tap_inside(self, tap: int) -> npt.NDArray[np.bool_]:
        """Which outputs have tap number `tap` inside the tensor."""
        x = self.x_origin + np.arange(self.count_0) * self.x_step
        y = self.y_origin + np.arange(self.count_1) * self.y_step
        x = x + tap % self.taps_0 * self.tap_step_0
        y = y + tap // self.taps_0 * self.tap_step_1
        ok_x, ok_y = (x >= 0) & (x < self.x_limit), (y >= 0) & (y < self.y_limit)
        return np.tile((ok_y[:, None] & ok_x[None, :]).reshape(-1), self.count_2)

    def tap_lines(self, tap: int) -> Places:
        """Line of tap number `tap` for every output."""
        x, y = tap % self.taps_0, tap // self.taps_0
        return self.lines() + (x * self.tap_stride_0 + y * self.tap_stride_1)

    def _tap(self, state: State, tap: int) -> npt.NDArray[np.int32]:
        """Values minus zero point of a tap, 0 where it lies outside."""
        inside = self.tap_inside(tap)
        lines = self.tap_lines(tap)
        lines[~inside] = 0
        lanes = slice(self.lane, self.lane + self.channels)
        values = read_vectors(state.buffer, lines, lanes, self.format) - self.zero_point
        values[~inside] = 0
        return values

    def apply(self, state: State) -> None:
        reduce = (self._max, self._sum_average, self._float_average, self._depthwise)
        self._write(state, self.counts, reduce[self.operation](state))

    def _max(self, state: State) -> Integers:
        floor = np.int64(-(1 << 20))
        best = np.full((self.m, self.channels), floor)
        for tap in range(self.taps):
            inside = self.tap_inside(tap)[:, None]
            best = np.maximum(best, np.where(inside, self._tap(state, tap), floor))
        return np.clip(best + self.zero_point, self.low, self.high)

    def _sum(self, state: State) -> Integers:
        total = np.zeros((self.m, self.channels), np.int64)
        for tap in range(self.taps):
            total += self._tap(state, tap)
        return total

    def _sum_average(self, state: State) -> Integers:
        scale, mode = np.float32(self.scale_a), state.machine.vector.requantize
        return requantize(self._sum(state), scale, self.out_zero_point, self.low, self.high, mode)

    def _float_average(self, state: State) -> Integers:
        total = np.zeros((self.m, self.channels), np.float32)
        taps = np.zeros((self.m, 1), np.float32)
        for tap in range(self.taps):
            total += np.float32(self.scale_a) * self._tap(state, tap).astype(np.float32)
            taps += np.float32(1) if self.count_outside else self.tap_inside(tap)[:, None]
        return self.rounded_average(total, taps)

    def rounded_average(
        self, total: npt.NDArray[np.float32], taps: npt.NDArray[np.float32]
    ) -> Integers:
        """The integers stored for float32 sums [m, channels] over `taps` [m, 1] taps."""
        real = total / taps / np.float32(self.scale_b) + np.float32(self.out_zero_point)
        bounded = np.clip(real, np.float32(self.low), np.float32(self.high))
        return np.rint(bounded).astype(np.int64)

    def _depthwise(self, state: State) -> Integers:
        total = np.zeros((self.m, self.channels), np.int64)
        lanes = slice(self.lane, self.lane + self.channels)
        for tap in range(self.taps):
            raw = state.buffer[self.weight_line + tap, lanes]
            weights = raw.view(np.int8) if self.weight_signed else raw
            total += self._tap(state, tap) * (weights.astype(np.int64) - self.weight_zero_point)
        width = state.machine.array.accumulator_bits
        total = wrap(total + state.bias[self.slot, : self.channels], width)
        scale = state.scale[self.slot, : self.channels]
        mode = state.machine.vector.requantize
        return requantize(total, scale, self.out_zero_point, self.low, self.high, mode)

    def timing(self, machine: Machine) -> Timing:
        """issue = outputs * max(taps * planes read, planes written) * ceil(channels / lanes), and
        the weight lines once.
        """
        groups = _lane_groups(machine, self.channels)
        wide = max(self.taps * planes(self.format), planes(self.out_format))
        walk = self.m * groups * wide
        weights = self.taps * groups if self.operation == DEPTHWISE else 0
        return Timing(walk + weights, LATENCIES.vector_from_buffer)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        formats = (self.format, self.out_format)
        return (self.m, self.taps, self.channels, self.operation, *formats)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        strides = (self.stride_0, self.stride_1, self.stride_2)
        depthwise = 1 * (self.operation == DEPTHWISE)
        return (
            Walk(Space.PARAMETERS, self.slot, (depthwise,)),
            Walk(
                Space.BUFFER,
                self.line,
                (*self.counts, self.taps_0, self.taps_1),
                (*strides, self.tap_stride_0, self.tap_stride_1),
                planes=planes(self.format),
                x=(self.x_origin, self.x_step, self.x_limit, self.tap_step_0),
                y=(self.y_origin, self.y_step, self.y_limit, self.tap_step_1),
            ),
            Walk(Space.BUFFER, self.weight_line, (self.taps * depthwise,)),
            self._written(self.counts),
        )

    def activity(self, machine: Machine) -> Activity:
        """Taps outside the tensor are neither read nor worked on."""
        groups = _lane_groups(machine, self.channels)
        inside = sum(
            self.count_inside(x * self.tap_step_0, y * self.tap_step_1)
            for y in range(self.taps_1)
            for x in range(self.taps_0)
        )
        weights = self.taps if self.operation == DEPTHWISE else 0
        return Activity(
            buffer_reads=(inside * planes(self.format) + weights) * groups,
            buffer_writes=self._line_writes(machine, self.m),
            slot_read_bytes=self.channels * PARAMETER_BYTES if weights else 0,
            vector_operations=inside * self.channels,
        )


def format_code(name: str) -> int:
    """The code of an element format's name: uint8, int8 or int16."""
    return {"uint8": 0, "int8": INT8, "int16": INT16}[name]
