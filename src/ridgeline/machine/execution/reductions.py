"""Window reductions tap by tap on views of the vectors read, with the instruction's own formulas.

The lines that a window covers become float32 once, zero point subtracted; every tap is a view of
those, and a block of the outputs that it reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.execution.constants import Parameters
from ridgeline.machine.execution.scratch import Scratch
from ridgeline.machine.execution.walks import Lines
from ridgeline.machine.execution.windows import Shape, Window, window_of
from ridgeline.machine.instructions import WindowReduce
from ridgeline.machine.instructions.array import INT8, INT16
from ridgeline.machine.instructions.state import State
from ridgeline.machine.instructions.vector import DEPTHWISE, FLOAT_AVERAGE, MAX, SUM_AVERAGE
from ridgeline.machine.operands import FORMAT_RANGES
from ridgeline.numerics.requantize import SumRequantizer, requantize

Floats = npt.NDArray[np.float32]

_LARGEST = 511
"""The largest magnitude of a byte less a 9-bit zero point."""
_EXACT = 1 << 24
"""Sums up to this are exact in float32."""
_SPARSE = 2
"""Lines covered for each vector read, above which every tap's vectors become float32 by themselves.
"""


def tap_windows(one: WindowReduce, buffer_shape: Shape) -> list[Window]:
    """The window of each tap. Raises LeavesMemory."""
    moves = [
        (
            x * one.tap_stride_0 + y * one.tap_stride_1,
            x * one.tap_step_0,
            y * one.tap_step_1,
        )
        for y in range(one.taps_1)
        for x in range(one.taps_0)
    ]
    return [
        window_of(one, one.channels, buffer_shape, move, number)
        for number, move in enumerate(moves)
    ]


def reach(windows: list[Window]) -> tuple[int, int]:
    """First and last line that any of the windows reads; (0, -1) when none reads any."""
    inside = [w.inside for w in windows if w.inside is not None]
    if not inside:
        return 0, -1
    return min(i.first for i in inside), max(i.last for i in inside)


class Reduction:
    """One WindowReduce whose sums float32 holds exactly, or a maximum of one format."""

    def __init__(
        self,
        one: WindowReduce,
        taps: list[Window],
        target: Lines,
        parameters: Parameters | None,
        machine: Machine,
    ) -> None:
        self.one = one
        self.taps = taps
        self.target = target
        self.first, self.last = reach(taps)
        self.requantizer = None
        if parameters is not None and one.operation == DEPTHWISE:
            self.requantizer = SumRequantizer(
                parameters.bias[: one.channels].astype(np.int64),
                parameters.scale[: one.channels],
                one.out_zero_point,
                one.low,
                one.high,
                largest_sum=one.taps * _LARGEST * _LARGEST,
                accumulator_bits=machine.array.accumulator_bits,
                mode=machine.vector.requantize,
            )

    @staticmethod
    def takes(one: WindowReduce, parameters: Parameters | None) -> bool:
        """Whether this class performs the instruction."""
        if one.operation == MAX:
            low, high = FORMAT_RANGES[one.format]
            return one.format == one.out_format and low <= one.low <= one.high <= high
        largest = one.taps * _LARGEST * (_LARGEST if one.operation == DEPTHWISE else 1)
        known = one.operation != DEPTHWISE or parameters is not None
        return known and one.format != INT16 and largest <= _EXACT

    def run(self, state: State, scratch: Scratch) -> None:
        reduce = {
            MAX: self._max,
            SUM_AVERAGE: self._sum_average,
            FLOAT_AVERAGE: self._float_average,
            DEPTHWISE: self._depthwise,
        }
        stored = reduce[self.one.operation](state, scratch)
        kind = (np.uint8, np.int8, np.int16)[self.one.out_format]
        self.target.write(state.buffer, stored.astype(kind))

    def _max(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        one = self.one
        kind = (np.uint8, np.int8, np.int16)[one.format]
        best = scratch.array("sums", (one.m, one.channels), kind)
        best.fill(np.iinfo(kind).min)
        for tap in self.taps:
            if tap.inside is not None:
                part = tap.part(best)
                np.maximum(part, tap.inside.read(state.buffer), out=part)
        return np.clip(best, one.low, one.high)

    def _tap_values(self, state: State, scratch: Scratch) -> Iterator[tuple[Window, Floats]]:
        """Each tap that is inside somewhere, with its vectors there, zero point subtracted:
        [count_2, count_1, count_0, channels].
        """
        vectors = sum(tap.inside.m for tap in self.taps if tap.inside is not None)
        dense = self.last - self.first < _SPARSE * vectors
        source = self._source(state, scratch) if dense else None
        for tap in self.taps:
            if tap.inside is None:
                continue
            if source is not None:
                yield tap, self._view(source, tap.inside)
            else:
                values = tap.inside.read(state.buffer).astype(np.float32)
                yield tap, values - np.float32(self.one.zero_point)

    def _source(self, state: State, scratch: Scratch) -> Floats:
        """Every line covered, zero point subtracted, [lines, channels]."""
        one = self.one
        lanes = slice(one.lane, one.lane + one.channels)
        stored = state.buffer[self.first : self.last + 1, lanes]
        source = scratch.array("left", stored.shape, np.float32)
        source[...] = stored.view(np.int8) if one.format == INT8 else stored
        if one.zero_point:
            source -= np.float32(one.zero_point)
        return source

    def _view(self, source: Floats, inside: Lines) -> Floats:
        """The vectors of a walk, [count_2, count_1, count_0, channels]."""
        line = source.strides[0]
        counts, strides = inside.counts, inside.strides
        return np.ndarray(
            (counts[2], counts[1], counts[0], inside.width),
            np.float32,
            source.base,
            (inside.line - self.first) * line,
            (strides[2] * line, strides[1] * line, strides[0] * line, source.itemsize),
        )

    def _sum(self, state: State, scratch: Scratch, scale: np.float32 | None = None) -> Floats:
        """The taps' values, each times `scale`, added in order."""
        total = scratch.array("sums", (self.one.m, self.one.channels), np.float32)
        total.fill(0)
        for tap, values in self._tap_values(state, scratch):
            part = tap.part(total)
            part += values if scale is None else values * scale
        return total

    def _sum_average(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        one = self.one
        total = self._sum(state, scratch)
        scale = np.float32(one.scale_a)
        mode = state.machine.vector.requantize
        return requantize(total, scale, one.out_zero_point, one.low, one.high, mode)

    def _float_average(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        one = self.one
        total = self._sum(state, scratch, np.float32(one.scale_a))
        taps = np.zeros((one.m, 1), np.float32)
        for tap in self.taps:
            part = taps if one.count_outside else tap.part(taps)
            part += np.float32(1)
        return one.rounded_average(total, taps)

    def _depthwise(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        one = self.one
        raw = state.buffer[
            one.weight_line : one.weight_line + one.taps, one.lane : one.lane + one.channels
        ]
        weights = (raw.view(np.int8) if one.weight_signed else raw).astype(np.float32)
        weights -= np.float32(one.weight_zero_point)
        total = scratch.array("sums", (one.m, one.channels), np.float32)
        total.fill(0)
        products = scratch.array("products", (one.m, one.channels), np.float32)
        for tap, values in self._tap_values(state, scratch):
            part = tap.part(total)
            part += np.multiply(values, weights[tap.number], out=tap.part(products))
        assert self.requantizer is not None
        return self.requantizer.requantize(total)
