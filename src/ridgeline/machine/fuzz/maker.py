"""Draws one instruction of each kind with operands that the machine and the program allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz.assembly import DATA_START, HOST_BYTES, PARAMETER_RECORDS
from ridgeline.machine.fuzz.draw import Draw, WindowWalk
from ridgeline.machine.fuzz.vector_maker import VectorMaker
from ridgeline.machine.instructions import (
    INSTRUCTIONS,
    Elementwise,
    HostRead,
    HostWrite,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    Requant,
    Space,
    Store,
    Unit,
    WindowReduce,
)
from ridgeline.machine.instructions.array import INT8, INT16, UINT8
from ridgeline.machine.instructions.transfer import PARAMETER_BYTES
from ridgeline.machine.operands import bank_mask
from ridgeline.machine.overlap import overlap_faults

ALL_KINDS: frozenset[type[Instruction]] = frozenset(INSTRUCTIONS.values())

# How often each kind is drawn, relative to the others.
_SHARES: dict[type[Instruction], int] = {
    HostRead: 2,
    HostWrite: 2,
    Load: 5,
    Store: 5,
    LoadWeights: 6,
    LoadParams: 3,
    MatMul: 12,
    Requant: 8,
    Elementwise: 4,
    WindowReduce: 5,
    Lookup: 3,
}


class Maker(VectorMaker):
    """Draws instructions one by one, keeping what the next must fit to."""

    def __init__(
        self,
        machine: Machine,
        draw: Draw,
        kinds: frozenset[type[Instruction]],
        weights_from_device_only: bool,
    ) -> None:
        super().__init__(machine, draw)
        self.weights_from_device_only = weights_from_device_only
        self.data_start = DATA_START
        self.device_bytes = self.data_start + max(4096, 4 * self.line_bytes * machine.array.rows)
        self.instructions: list[Instruction] = []
        self.issued = [0] * len(Unit)
        self.previous: MatMul | None = None
        self.refilled: set[int] = set()
        makers: dict[type[Instruction], Callable[[], Instruction]] = {
            HostRead: self._host_read,
            HostWrite: self._host_write,
            Load: self._load,
            Store: self._store,
            LoadWeights: self._load_weights,
            LoadParams: self._load_params,
            MatMul: self._matmul,
            Requant: self.requant,
            Elementwise: self.elementwise,
            WindowReduce: self.window_reduce,
            Lookup: self.lookup,
        }
        able: dict[type[Instruction], bool] = {
            Elementwise: bool(self.elementwise_operations),
            WindowReduce: bool(self.window_operations),
            Lookup: "lookup" in machine.vector.operations,
        }
        chosen = [kind for kind in makers if kind in kinds and able.get(kind, True)]
        self.makers = [makers[kind] for kind in chosen]
        shares = np.asarray([_SHARES[kind] for kind in chosen], np.float64)
        self.shares = shares / shares.sum()

    def add(self) -> None:
        """Draw one more instruction, with its banks and perhaps waits that nothing needs."""
        one = self._drawn()
        while overlap_faults(one) or self._reads_open_sums(one):
            one = self._drawn()
        self._append(replace(one, waits=self._random_waits()))

    def close(self) -> None:
        """End a chain of sums that are still inside an output-stationary array."""
        if self._open_chain() is not None:
            self._append(replace(self._with_banks(self._matmul()), last=1))

    def _drawn(self) -> Instruction:
        return self._with_banks(self.makers[self.draw.weighted(self.shares)]())

    def _open_chain(self) -> MatMul | None:
        stays = self.machine.array.dataflow == "output-stationary"
        previous = self.previous
        return previous if stays and previous is not None and not previous.last else None

    def _reads_open_sums(self, one: Instruction) -> bool:
        chain = self._open_chain()
        if chain is None or not isinstance(one, Requant):
            return False
        return one.entry < chain.entry + chain.m and chain.entry < one.entry + one.m

    def _append(self, one: Instruction) -> None:
        self.instructions.append(one)
        self.issued[one.unit] += 1
        if isinstance(one, MatMul):
            self.previous = one
            self.refilled.clear()
        if isinstance(one, LoadWeights):
            self.refilled.add(one.slot)

    def _random_waits(self) -> tuple[int, int, int, int, int, int]:
        waits = [0] * len(Unit)
        if self.draw.chance(0.15):
            unit = self.draw.between(0, len(Unit) - 1)
            if self.issued[unit]:
                waits[unit] = self.draw.between(max(1, self.issued[unit] - 2), self.issued[unit])
        link, load, store, weights, array, vector = waits
        return (link, load, store, weights, array, vector)

    def _with_banks(self, one: Instruction) -> Instruction:
        accesses = one.accesses(self.machine)
        read = bank_mask(accesses.reads.get(Space.BUFFER), self.machine)
        written = bank_mask(accesses.writes.get(Space.BUFFER), self.machine)
        extra = 0
        if self.draw.chance(0.1):
            extra = 1 << self.draw.between(0, self.machine.unified_buffer.banks - 1)
        if isinstance(one, (Elementwise, WindowReduce, Lookup)):
            return replace(one, in_banks=read | extra, out_banks=written)
        if isinstance(one, Requant):
            return replace(one, out_banks=written | extra)
        if isinstance(one, (Load, Store, MatMul)):
            return replace(one, banks=read | written | extra)
        if isinstance(one, LoadWeights) and one.from_buffer:
            return replace(one, banks=read | extra)
        return one

    # Link, load, store and weights units.

    def _link_operands(self) -> dict[str, Any]:
        length = self.draw.between(1, 200)
        return {
            "host_address": self.draw.between(0, HOST_BYTES - length),
            "device_address": self.draw.between(self.data_start, self.device_bytes - length),
            "length_bytes": length,
        }

    def _host_read(self) -> Instruction:
        return HostRead(**self._link_operands())

    def _host_write(self) -> Instruction:
        return HostWrite(**self._link_operands())

    def _transfer_operands(self) -> dict[str, Any]:
        draw = self.draw
        width = self.line_bytes if draw.chance(0.5) else draw.between(1, self.line_bytes)
        device = draw.walk(self.data_start, self.device_bytes - width + 1, draw.byte_strides(width))
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

    def _load(self) -> Instruction:
        return Load(**self._transfer_operands())

    def _store(self) -> Instruction:
        return Store(**self._transfer_operands())

    def _load_weights(self) -> Instruction:
        draw, array = self.draw, self.machine.array
        k, n = self._depth(), self._width()
        free = not self.weights_from_device_only
        transposed = int(free and draw.chance(0.25))
        from_buffer = int(free and draw.chance(0.25))
        rows, width = (n, k) if transposed else (k, n)
        if from_buffer:
            stride = draw.choice((1, 1, 2, 0, -1))
            walk = draw.walk(0, self.machine.unified_buffer.lines, (stride, 0, 0), (rows, 1, 1))
        else:
            stride = draw.choice((width, width, array.cols, width + 3, 0, -width, 1))
            high = self.device_bytes - width + 1
            walk = draw.walk(self.data_start, high, (stride, 0, 0), (rows, 1, 1))
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
        )

    def _load_params(self) -> Instruction:
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

    def _matmul(self) -> Instruction:
        draw, array = self.draw, self.machine.array
        code = draw.choice(self.formats)
        previous = self.previous
        most = min(DATAFLOW_RULES[array.dataflow].most_m(array), 40)
        k, slot = self._depth(), draw.between(0, array.weight_slots - 1)
        keep = previous is not None and previous.slot not in self.refilled and draw.chance(0.3)
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
