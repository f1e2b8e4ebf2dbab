"""Small products by brute force: every order of loops, split and place that one may think of.

The programs are written here, instruction by instruction, with nothing of the compiler's but the
packed constants and the sort by start; what the compiler chose is compared with the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from compile_cases import DATAFLOWS, graph_of, small_machine
from ridgeline.compiler import compile
from ridgeline.compiler.lower_matmul import most_rows
from ridgeline.compiler.schedule import prefetch
from ridgeline.ir import Node
from ridgeline.machine.code import Code
from ridgeline.machine.execute import execute
from ridgeline.machine.fuzz import random_inputs
from ridgeline.machine.instructions import (
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Requant,
    Store,
)
from ridgeline.machine.order import touched_banks
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.simulate import simulate
from single_node import activation, constant, node_of

LINE = 4
"""Bytes of a line, and rows and columns of the array."""
SHAPES = ((4, 4, 4), (8, 8, 8), (12, 8, 20), (24, 16, 8), (40, 4, 24), (6, 32, 16))
"""(rows, inputs, outputs)."""
MOST_EXCESS = 0.02
"""Cycles over the optimum, as a share of it, that the compiler's choice may have."""


def _node(m: int, k: int, n: int) -> Node:
    rng = np.random.default_rng([m, k, n])
    x = activation("x", (m, k), "uint8", 0.1, 3)
    w = constant(
        "w", rng.integers(-128, 128, (k, n)).astype(np.int8), rng.uniform(0.01, 0.03, n), axis=1
    )
    return node_of("MatMul", (x, w), ("uint8", 0.5, 100))


@dataclass(frozen=True)
class _Way:
    """How a product is done."""

    rows: int
    columns_first: bool
    snake: bool
    loads: int
    stores: int
    apart: bool
    """The output lies in another bank than the input."""


def _ways(m: int, most: int) -> Iterator[_Way]:
    heights = sorted({-(-m // parts) for parts in range(1, m + 1)})
    flags = (False, True)
    parts = [p for p in (1, 2, 3, 4, 8) if p <= m]
    heights = [h for h in heights if h <= most]
    yield from (_Way(*one) for one in product(heights, flags, flags, parts, parts, flags))


class _Writer:
    """One product on one machine, with the constants of the compiled program."""

    def __init__(self, program: Program, shape: tuple[int, int, int]) -> None:
        self.program, self.machine = program, program.machine
        self.m, k, n = shape
        self.depth, self.width = k // LINE, n // LINE
        self.tiles = sorted({i.address for i in _of(program, LoadWeights)})
        self.params = sorted({i.device_address for i in _of(program, LoadParams)})
        self.product, self.requant = _of(program, MatMul)[0], _of(program, Requant)[0]
        self.made: list[Instruction] = []

    def program_for(self, way: _Way) -> Program:
        """The program that works in this way."""
        self.made, self.entry = [], 0
        self.slots: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        lines = self.machine.unified_buffer.lines_per_bank
        self.out = lines if way.apart else self.m * self.depth
        self._move(Load, self.program.device_inputs[0].address, 0, self.depth, way.loads)
        self._multiply(way)
        address = self.program.device_outputs[0].address
        self._move(Store, address, self.out, self.width, way.stores)
        code = Code.of(self.made)
        code = code.with_banks(*touched_banks(code, self.machine))
        ordered = prefetch(code, self.machine, self.program.host_bytes, self.program.device_bytes)
        return replace(self.program, segments=(DeviceSegment(ordered),))

    def _move(
        self, kind: type[Load] | type[Store], address: int, line: int, blocks: int, parts: int
    ) -> None:
        step = -(-self.m // parts)
        for first in range(0, self.m, step):
            count = (min(first + step, self.m) - first) * blocks
            place = {
                "device_address": address + first * blocks * LINE,
                "line": line + first * blocks,
            }
            strides = {"device_stride_0": LINE, "line_stride_0": 1}
            self.made.append(kind(element_bytes=LINE, count_0=count, **place, **strides))

    def _multiply(self, way: _Way) -> None:
        parts, columns = range(0, self.m, way.rows), range(self.width)
        outer, inner = (columns, parts) if way.columns_first else (parts, columns)
        for number, (a, b) in enumerate(product(outer, inner)):
            column, first = (a, b) if way.columns_first else (b, a)
            backwards = way.snake and number % 2 == 1
            self._sum(column, first, min(way.rows, self.m - first), backwards)

    def _sum(self, column: int, first: int, rows: int, backwards: bool) -> None:
        if self.entry + rows > self.machine.array.accumulator_entries:
            self.entry = 0
        along = range(self.depth)[::-1] if backwards else range(self.depth)
        held = -1
        for number, block in enumerate(along):
            slot = self._slot(self.tiles[column * self.depth + block])
            self.made.append(
                replace(
                    self.product,
                    waits=(0,) * 6,
                    line=first * self.depth + block,
                    **_counts(rows),
                    stride_2=self.depth,
                    slot=slot,
                    keep_weights=int(slot == held),
                    entry=self.entry,
                    accumulate=int(number > 0),
                    last=int(number == self.depth - 1),
                )
            )
            held = slot
        out = {"out_line": self.out + first * self.width + column, "entry": self.entry}
        self.made.append(
            replace(
                self.requant,
                waits=(0,) * 6,
                slot=self._parameters(column),
                out_stride_2=self.width,
                **_counts(rows),
                **out,
            )
        )
        self.entry += rows

    def _slot(self, address: int) -> int:
        """The slot of a tile, which is loaded over the one used longest ago unless it is there."""
        if address in self.slots:
            self.slots[address] = self.slots.pop(address)
            return self.slots[address]
        slot = len(self.slots)
        if slot == self.machine.array.weight_slots:
            slot = self.slots.pop(next(iter(self.slots)))
        self.slots[address] = slot
        self.made.append(LoadWeights(slot=slot, address=address, row_stride=LINE, k=LINE, n=LINE))
        return slot

    def _parameters(self, column: int) -> int:
        slot = column % self.machine.vector.parameter_slots
        if self.kept.get(slot) != column:
            self.kept[slot] = column
            address = self.params[column]
            self.made.append(LoadParams(slot=slot, device_address=address, count=LINE))
        return slot


def _of(program: Program, kind: type[Any]) -> list[Any]:
    return [one for one in program.instructions if isinstance(one, kind)]


def _counts(rows: int) -> dict[str, int]:
    return {"count_0": 1, "count_1": 1, "count_2": rows}


@pytest.mark.parametrize("flow", DATAFLOWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_other_way_is_faster(shape: tuple[int, int, int], flow: str) -> None:
    machine = small_machine(flow)
    program = compile(graph_of(_node(*shape)), machine, host_link=False)
    inputs = random_inputs(program, np.random.default_rng(1))
    expected = execute(program, inputs)["y"]
    writer = _Writer(program, shape)
    fewest = None
    for way in _ways(shape[0], most_rows(machine)):
        other = writer.program_for(way)
        cycles = simulate(other).cycles
        if fewest is None or cycles < fewest[0]:
            fewest = (cycles, way)
            np.testing.assert_array_equal(execute(other, inputs)["y"], expected)
    assert fewest is not None
    import sys

    print(shape, flow, simulate(program).cycles, fewest, file=sys.stderr)
