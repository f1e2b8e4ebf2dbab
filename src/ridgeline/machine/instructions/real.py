"""The vector unit on real numbers: what ONNX Runtime computes in float32 between DequantizeLinear
and QuantizeLinear, for operators that have no integer kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.array import read_vectors
from ridgeline.machine.instructions.nests import TwoOperands
from ridgeline.machine.instructions.state import Places, Space, State
from ridgeline.machine.instructions.vector import OutputFields
from ridgeline.machine.instructions.walk import Walk
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.instructions.word import Activity, Timing, bits
from ridgeline.machine.latencies import LATENCIES
from ridgeline.numerics.quantize import stored_integers

Floats = npt.NDArray[np.float32]

SLOPE, SUBTRACT, MAXIMUM, MINIMUM = 0, 1, 2, 3
REAL_OPERATIONS = ("slope", "subtract", "maximum", "minimum")


@dataclass(frozen=True, slots=True)
class RealElementwise(TwoOperands, OutputFields):
    """One or two walks over 8-bit vectors as real numbers, combined into a third.

    x = float32(scale_a * (a - zero_a)), y = float32(scale_b * (b - zero_b)); r is x - y, or the
    larger or smaller of the two; for slope x, or where x < 0 float32(x * factor of the channel),
    which is its parameter's scale, negative where its bias is. Stored: float32(r / scale), rounded
    half to even, plus out_zero_point, within [low, high]; NaN becomes low.
    """

    operation: int = bits(3, "0 slope, 1 subtract, 2 maximum, 3 minimum")
    format: int = bits(2, "element format read: 0 uint8, 1 int8")
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
    zero_a: int = bits(9, "zero point of a", signed=True)
    zero_b: int = bits(9, "zero point of b", signed=True)
    scale_a: float = bits(32, "float32, scale of a", default=1.0)
    scale_b: float = bits(32, "float32, scale of b", default=1.0)
    scale: float = bits(32, "float32, scale of what is stored", default=1.0)
    slot: int = bits(4, "parameter slot with the factors (slope)")
    in_banks: int = bits(16, "mask of the unified-buffer banks held for reading")

    opcode: ClassVar[int] = 12

    @property
    def read_banks(self) -> int:
        return self.in_banks

    @property
    def operands(self) -> int:
        """Walks that it reads."""
        return 1 if self.operation == SLOPE else 2

    def apply(self, state: State) -> None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            result = self._combined(state)
        scale = np.asarray(self.scale, np.float32)
        stored = stored_integers(result, scale, self.out_zero_point, self.low, self.high)
        self._write(state, self.counts, stored)

    def _combined(self, state: State) -> Floats:
        x = self._real(state, self.a_lines(), self.zero_a, self.scale_a)
        if self.operation == SLOPE:
            return np.where(x < 0, x * self._factors(state), x)
        y = self._real(state, self.b_lines(), self.zero_b, self.scale_b)
        combine = {SUBTRACT: np.subtract, MAXIMUM: np.maximum, MINIMUM: np.minimum}
        return combine[self.operation](x, y)

    def _real(self, state: State, lines: Places, zero: int, scale: float) -> Floats:
        lanes = slice(self.lane, self.lane + self.channels)
        stored = read_vectors(state.buffer, lines, lanes, self.format)
        return (stored - zero).astype(np.float32) * np.float32(scale)

    def _factors(self, state: State) -> Floats:
        signs = np.where(state.bias[self.slot, : self.channels] < 0, -1, 1).astype(np.float32)
        return signs * state.scale[self.slot, : self.channels]

    def timing(self, machine: Machine) -> Timing:
        """issue = vectors * ceil(channels / lanes) * operands read through one port."""
        groups = -(-self.channels // machine.vector.lanes)
        return Timing(self.m * groups * self.operands, LATENCIES.vector_real)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.m, self.channels, self.operation)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        a_strides = (self.a_stride_0, self.a_stride_1, self.a_stride_2)
        b_strides = (self.b_stride_0, self.b_stride_1, self.b_stride_2)
        slope = 1 * (self.operation == SLOPE)
        counts = (self.count_0 * (1 - slope), self.count_1, self.count_2)
        return (
            Walk(Space.PARAMETERS, self.slot, (slope,)),
            Walk(Space.BUFFER, self.a_line, self.counts, a_strides),
            Walk(Space.BUFFER, self.b_line, counts, b_strides),
            self._written(self.counts),
        )

    def activity(self, machine: Machine) -> Activity:
        groups = -(-self.channels // machine.vector.lanes)
        return Activity(
            buffer_reads=self.m * self.operands * groups,
            buffer_writes=self._line_writes(machine, self.m),
            slot_read_bytes=self.channels * PARAMETER_BYTES if self.operation == SLOPE else 0,
            vector_operations=self.m * self.operands * self.channels,
        )
