"""Draws the vector unit's instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz.draw import Draw
from ridgeline.machine.instructions import (
    Elementwise,
    Lookup,
    MatMul,
    RealElementwise,
    Requant,
    WindowReduce,
)
from ridgeline.machine.instructions.array import INT8, INT16, UINT8
from ridgeline.machine.instructions.lookup import table_lines
from ridgeline.machine.instructions.real import REAL_OPERATIONS, SLOPE
from ridgeline.machine.instructions.vector import (
    DEPTHWISE,
    ELEMENTWISE_OPERATIONS,
    FLOAT_AVERAGE,
    RESCALE,
    WINDOW_OPERATIONS,
)
from ridgeline.machine.operands import FORMAT_RANGES


class VectorMaker:
    """Draws each kind of vector instruction with operands that the machine allows."""

    def __init__(self, machine: Machine, draw: Draw) -> None:
        self.machine = machine
        self.draw = draw
        self.line_bytes = machine.unified_buffer.line_bytes
        self.formats = [UINT8, INT8]
        if "int16" in machine.array.macs_per_pe_per_cycle:
            self.formats.append(INT16)
        able = machine.vector.operations
        self.elementwise_operations = [
            i for i, name in enumerate(ELEMENTWISE_OPERATIONS) if name in able
        ]
        self.real_operations = [i for i, name in enumerate(REAL_OPERATIONS) if name in able]
        self.window_operations = [i for i, name in enumerate(WINDOW_OPERATIONS) if name in able]

    def zero_point(self, code: int) -> int:
        """One of an element format, often 0."""
        low, high = (-256, 255) if code == INT16 else FORMAT_RANGES[code]
        return 0 if self.draw.chance(0.3) else self.draw.between(low, high)

    def _output(
        self, counts: tuple[int, int, int], most_channels: int, formats: list[int] | None = None
    ) -> dict[str, Any]:
        draw = self.draw
        code = draw.choice(formats or self.formats)
        height = 2 if code == INT16 else 1
        lines = self.machine.unified_buffer.lines - (height - 1)
        walk = draw.walk(0, lines, draw.line_strides(height), counts, height=height)
        channels = most_channels if draw.chance(0.5) else draw.between(1, most_channels)
        low, high = FORMAT_RANGES[code]
        if draw.chance(0.4):
            low, high = sorted((draw.between(low, high), draw.between(low, high)))
        return {
            "out_format": code,
            "out_line": walk.start,
            "out_lane": draw.between(0, self.line_bytes - channels),
            "out_stride_0": walk.strides[0],
            "out_stride_1": walk.strides[1],
            "out_stride_2": walk.strides[2],
            "out_zero_point": self.zero_point(code),
            "low": low,
            "high": high,
            "channels": channels,
        }

    def _input_lane(self, channels: int) -> int:
        return self.draw.between(0, self.line_bytes - channels)

    def _scale(self) -> float:
        return float(np.float32(2.0 ** self.draw.rng.uniform(-9, 1)))

    def requant(self, previous: MatMul | None) -> Requant:
        """Of any entries, often of just those that the MatMul before made."""
        draw, array = self.draw, self.machine.array
        most = min(40, array.accumulator_entries, self.machine.unified_buffer.lines // 4)
        if previous is not None and previous.m <= most and draw.chance(0.5):
            counts, entry = previous.counts, previous.entry
        else:
            counts = draw.counts(most)
            m = counts[0] * counts[1] * counts[2]
            entry = draw.between(0, min(array.accumulator_entries - m, 48))
        return Requant(
            **self._output(counts, array.cols),
            entry=entry,
            count_0=counts[0],
            count_1=counts[1],
            count_2=counts[2],
            slot=draw.between(0, self.machine.vector.parameter_slots - 1),
        )

    def elementwise(self) -> Elementwise:
        """An Elementwise of an operation that the machine has."""
        draw = self.draw
        counts = draw.counts(min(24, self.machine.unified_buffer.lines // 4))
        output = self._output(counts, self.line_bytes)
        operation, code = draw.choice(self.elementwise_operations), draw.choice(self.formats)
        height = 2 if code == INT16 else 1
        walks = self._operands(counts, height, one=operation == RESCALE)
        return Elementwise(
            **output,
            **walks,
            operation=operation,
            format=code,
            lane=self._input_lane(output["channels"]),
            zero_a=self.zero_point(code),
            zero_b=self.zero_point(code),
            scale_a=self._scale(),
            scale_b=1.0 if operation == RESCALE and draw.chance(0.5) else self._scale(),
            offset=float(np.float32(draw.rng.uniform(-99, 99))),
        )

    def _operands(self, counts: tuple[int, int, int], height: int, *, one: bool) -> dict[str, Any]:
        """Counts, and the walks of a and b over vectors of so many lines; b is unused for `one`."""
        draw = self.draw
        lines = self.machine.unified_buffer.lines - (height - 1)
        made: dict[str, Any] = {f"count_{level}": count for level, count in enumerate(counts)}
        for name in "ab":
            walk = draw.walk(0, lines, draw.line_strides(height), counts, height=height)
            made[f"{name}_line"] = 0 if one and name == "b" else walk.start
            made |= {f"{name}_stride_{level}": walk.strides[level] for level in range(3)}
        return made

    def window_reduce(self) -> WindowReduce:
        """A WindowReduce of an operation that the machine has."""
        draw = self.draw
        operation, code = draw.choice(self.window_operations), draw.choice(self.formats)
        lines = self.machine.unified_buffer.lines
        window = draw.window(lines, 2 if code == INT16 else 1, min(16, lines // 8), taps=True)
        output = self._output(window.counts, self.line_bytes)
        taps = window.taps[0] * window.taps[1]
        weights_signed = draw.between(0, 1)
        one = WindowReduce(
            **output,
            **window.operands(),
            **window.tap_operands(),
            operation=operation,
            format=code,
            zero_point=self.zero_point(code),
            lane=self._input_lane(output["channels"]),
            count_outside=draw.between(0, 1),
            weight_line=draw.between(0, lines - taps),
            weight_signed=weights_signed,
            weight_zero_point=self.zero_point(INT8 if weights_signed else UINT8),
            slot=draw.between(0, self.machine.vector.parameter_slots - 1),
            scale_a=self._scale(),
            scale_b=self._scale(),
        )
        counted = sum(one.tap_inside(tap).astype(np.int64) for tap in range(taps))
        if operation == FLOAT_AVERAGE and np.any(counted == 0):
            return replace(one, count_outside=1)  # else it would divide by no taps at all
        return one if operation == DEPTHWISE else replace(one, slot=0)

    def lookup(self) -> Lookup:
        """A Lookup whose table is whatever its lines hold."""
        draw, lines = self.draw, self.machine.unified_buffer.lines
        counts = draw.counts(min(24, lines // 4))
        output = self._output(counts, self.line_bytes, [UINT8, INT8])
        walk = draw.walk(0, lines, draw.line_strides(1), counts)
        return Lookup(
            **output,
            format=draw.choice((UINT8, INT8)),
            count_0=counts[0],
            count_1=counts[1],
            count_2=counts[2],
            line=walk.start,
            lane=self._input_lane(output["channels"]),
            stride_0=walk.strides[0],
            stride_1=walk.strides[1],
            stride_2=walk.strides[2],
            table_line=draw.between(0, lines - table_lines(self.machine)),
        )

    def real_elementwise(self) -> RealElementwise:
        """A RealElementwise of an operation that the machine has."""
        draw = self.draw
        counts = draw.counts(min(24, self.machine.unified_buffer.lines // 4))
        output = self._output(counts, self.line_bytes, [UINT8, INT8])
        operation, code = draw.choice(self.real_operations), draw.choice((UINT8, INT8))
        return RealElementwise(
            **output,
            **self._operands(counts, 1, one=operation == SLOPE),
            operation=operation,
            format=code,
            lane=self._input_lane(output["channels"]),
            zero_a=self.zero_point(code),
            zero_b=self.zero_point(code),
            scale_a=self._scale(),
            scale_b=self._scale(),
            scale=self._scale(),
            slot=draw.between(0, self.machine.vector.parameter_slots - 1),
        )
