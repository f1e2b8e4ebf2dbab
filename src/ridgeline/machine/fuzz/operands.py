"""Draws the operands of one instruction of each kind that the machine allows."""

from __future__ import annotations

from typing import Any

from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz.assembly import DATA_START, HOST_BYTES, PARAMETER_RECORDS
from ridgeline.machine.fuzz.draw import Draw, WindowWalk
from ridgeline.machine.fuzz.vector_maker import VectorMaker
from ridgeline.machine.instructions import (
    HostRead,
    HostWrite,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Store,
)
from ridgeline.machine.instructions.array import INT8, INT16, UINT8
from ridgeline.machine.instructions.weights import PARAMETER_BYTES


class Operands(VectorMaker):
    """Draws instructions without banks and waits, each on its own."""

    def __init__(self, machine: Machine, draw: Draw) -> None:
        super().__init__(machine, draw)
        self.device_bytes = DATA_START + max(4096, 4 * self.line_bytes * machine.array.rows)

    # Link, load, store and weights units.

    def _link_operands(self) -> dict[str, Any]:
        length = self.draw.between(1, 200)
        return {
            "host_address": self.draw.between(0, HOST_BYTES - length),
            "device_address": self.draw.between(DATA_START, self.device_bytes - length),
            "length_bytes": length,
        }

    def host_read(self) -> HostRead:
        return HostRead(**self._link_operands())

    def host_write(self) -> HostWrite:
        return HostWrite(**self._link_operands())

    def _transfer_operands(self) -> dict[str, Any]:
        draw = self.draw
        width = self.line_bytes if draw.chance(0.5) else draw.between(1, self.line_bytes)
        device = draw.walk(DATA_START, self.device_bytes - width + 1, draw.byte_strides(width))
        lines = draw.walk(0, self.machine.unified_buffer.lines, draw.line_strides(1), device.counts)
        names = ("count", "device_stride", "line_stride")
        levels = zip(device.counts, device.strides, lines.strides, strict=True)
        return {
            "device_address": device.start,
            "line": lines.start,
            "lane": draw.between(0, self.line_bytes - width),
            "element_bytes": width,
            **{
                f"{name}_{level}": value
                for level, values in enumerate(levels)
                for name, value in zip(names, values, strict=True)
            },
        }

    def load(self) -> Load:
        return Load(**self._transfer_operands())

    def store(self) -> Store:
        return Store(**self._transfer_operands())

    def load_weights(self) -> LoadWeights:
        draw, array = self.draw, self.machine.array
        k, n = self._depth(), self._width()
        if draw.chance(0.3):
            n = draw.between(1, min(3, n))
        transposed = int(draw.chance(0.25))
        from_buffer = int(draw.chance(0.25))
        rows, width = (n, k) if transposed else (k, n)
        if from_buffer:
            stride = draw.choice((1, 1, 2, 0, -1))
            walk = draw.walk(0, self.machine.unified_buffer.lines, (stride, 0, 0), (rows, 1, 1))
        else:
            stride = draw.choice((width, width, array.cols, width + 3, 0, -width, 1))
            high = self.device_bytes - width + 1
            walk = draw.walk(DATA_START, high, (stride, 0, 0), (rows, 1, 1))
        signed = draw.between(0, 1)
        return LoadWeights(
            slot=draw.between(0, array.weight_slots - 1),
            from_buffer=from_buffer,
            address=walk.start,
            lane=draw.between(0, self.line_bytes - width) if from_buffer else 0,
            row_stride=walk.strides[0],
            k=k if transposed else walk.counts[0],
            n=walk.counts[0] if transposed else n,
            transposed=transposed,
            signed=signed,
            zero_point=self.zero_point(INT8 if signed else UINT8),
            **self._blocks(),
        )

    def _blocks(self) -> dict[str, Any]:
        """Where the rows of a tile go: mostly all to column 0, else block by block."""
        draw, array = self.draw, self.machine.array
        if draw.chance(0.6):
            return {}
        rows = draw.between(0, array.rows if draw.chance(0.8) else 2 * array.rows)
        return {
            "block_rows": rows,
            "block_row": draw.between(0, rows - 1) if rows else 0,
            "column": draw.between(-array.cols - 1, array.cols + 1) if draw.chance(0.5) else 0,
        }

    def load_params(self) -> LoadParams:
        count = self.draw.between(1, min(self.line_bytes, PARAMETER_RECORDS))
        if self.draw.chance(0.5):
            count = min(self.line_bytes, PARAMETER_RECORDS)
        record = self.draw.between(0, PARAMETER_RECORDS - count)
        return LoadParams(
            slot=self.draw.between(0, self.machine.vector.parameter_slots - 1),
            device_address=record * PARAMETER_BYTES,
            count=count,
        )

    # Array unit.

    def _depth(self) -> int:
        rows = self.machine.array.rows
        return rows if self.draw.chance(0.5) else self.draw.between(1, rows)

    def _width(self) -> int:
        cols = self.machine.array.cols
        return cols if self.draw.chance(0.5) else self.draw.between(1, cols)

    def _window(self, code: int, most: int) -> WindowWalk:
        lines = self.machine.unified_buffer.lines
        return self.draw.window(lines, 2 if code == INT16 else 1, most)

    def matmul(self, previous: MatMul | None, refilled: set[int]) -> MatMul:
        """`refilled`: slots loaded since the MatMul before."""
        draw, array = self.draw, self.machine.array
        code = draw.choice(self.formats)
        most = min(DATAFLOW_RULES[array.dataflow].most_m(array), 40)
        k, slot = self._depth(), draw.between(0, array.weight_slots - 1)
        keep = previous is not None and previous.slot not in refilled and draw.chance(0.3)
        if keep and previous is not None:
            k, slot = previous.k, previous.slot
        window = self._window(code, most)
        stays = array.dataflow == "output-stationary"
        follows = stays and previous is not None and not previous.last
        if follows and previous is not None:
            window = draw.plain_window(self.machine.unified_buffer.lines, code == INT16, previous.m)
        entry = draw.between(0, min(array.accumulator_entries - window.m, 48))
        accumulate = int(draw.chance(0.5))
        if previous is not None and previous.entry + window.m <= array.accumulator_entries:
            entry = previous.entry if follows or draw.chance(0.5) else entry
        return MatMul(
            **window.operands(),
            format=code,
            zero_point=self.zero_point(code),
            lane=array.rows * draw.between(0, self.line_bytes // array.rows - 1),
            k=k,
            n=self._width(),
            slot=slot,
            keep_weights=int(keep),
            entry=entry,
            accumulate=int(follows) if stays else accumulate,
            last=int(draw.chance(0.6)) if stays else 1,
        )
