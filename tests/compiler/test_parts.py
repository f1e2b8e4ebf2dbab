"""The compiler's parts by themselves: boxes, transfers, allocation, prefetch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compile_cases import graph_of, small_machine
from numeric_cases import convolution
from ridgeline.compiler import compile
from ridgeline.compiler.layout import Box, Layout, Region, transfer
from ridgeline.compiler.lines import Lines, Request
from ridgeline.compiler.plan import Window, split_box
from ridgeline.compiler.schedule import prefetch
from ridgeline.machine.code import Code
from ridgeline.machine.instructions import Load, State, Store
from ridgeline.machine.order import synchronise

SIZES = st.integers(1, 9)


def rows_of(box: Box) -> set[tuple[int, int, int]]:
    return {
        (n, y, x)
        for n in range(box.n0, box.n1)
        for y in range(box.y0, box.y1)
        for x in range(box.x0, box.x1)
    }


@given(SIZES, SIZES, SIZES, st.integers(1, 100))
def test_split_covers_every_row_once(n: int, h: int, w: int, most: int) -> None:
    whole = Box(0, n, 2, 2 + h, 1, 1 + w)
    parts = split_box(whole, most)
    assert all(part.rows <= most for part in parts)
    assert sum(part.rows for part in parts) == whole.rows
    assert set().union(*map(rows_of, parts)) == rows_of(whole)


@given(SIZES, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3))
def test_input_box_holds_every_tap(h: int, kernel: int, stride: int, dil: int, pad: int) -> None:
    layout = Layout(1, h, 1, 4, 1, "int8", 4)
    window = Window((kernel, 1), (stride, 1), (dil, 1), (pad, 0))
    outputs = (h + 2 * pad - (kernel - 1) * dil - 1) // stride + 1
    for first in range(max(outputs, 0)):
        box = window.input_box(Box(0, 1, first, first + 1, 0, 1), layout)
        needed = [first * stride - pad + k * dil for k in range(kernel)]
        assert all(box.y0 <= y < box.y1 for y in needed if 0 <= y < h)
        assert 0 <= box.y0 < box.y1 <= h


@given(SIZES, SIZES, SIZES, st.integers(1, 21), st.sampled_from(["int8", "int16"]), st.data())
def test_a_box_survives_the_way_on_chip_and_back(
    n: int, h: int, w: int, c: int, format: str, data: Any
) -> None:
    machine = small_machine("weight-stationary", "unified_buffer.bytes=131072")
    layout = Layout(n, h, w, c, 1, format, machine.unified_buffer.line_bytes)
    edges = [sorted(data.draw(st.tuples(st.integers(0, s), st.integers(0, s)))) for s in (n, h, w)]
    box = Box(
        *(v for first, end in edges for v in (min(first, end - 1) if end else 0, max(end, 1)))
    )
    state = State.blank(machine, 64, 2 * layout.bytes)
    rng = np.random.default_rng(0)
    state.device[: layout.bytes] = rng.integers(1, 256, layout.bytes)
    region = Region(layout, box, 3)
    for one in transfer(Load, region, box, 0, 0):
        one.encode()
        one.apply(state)
    for one in transfer(Store, region, box, layout.bytes, 0):
        one.encode()
        one.apply(state)
    shape = (n, h, w, layout.row_bytes)
    before = state.device[: layout.bytes].reshape(shape)
    after = state.device[layout.bytes :].reshape(shape)
    inside = (slice(box.n0, box.n1), slice(box.y0, box.y1), slice(box.x0, box.x1))
    np.testing.assert_array_equal(after[inside], before[inside])
    assert np.count_nonzero(after) == before[inside].size


@given(
    st.lists(st.tuples(st.integers(1, 600), st.integers(0, 6), st.integers(0, 3)), max_size=14),
    st.booleans(),
)
def test_no_two_live_regions_overlap(wanted: list[tuple[int, int, int]], spread: bool) -> None:
    machine = small_machine()
    pool = Lines(machine, spread)
    placed: list[tuple[int, Request]] = []
    for number, (lines, first, length) in enumerate(wanted):
        request = Request(("tensor", number, 0), lines, first, first + length)
        line = pool.fit(request)
        if line is None:
            continue
        assert line + lines <= machine.unified_buffer.lines
        for other_line, other in placed:
            together = other.first <= request.last and request.first <= other.last
            apart = line + lines <= other_line or other_line + other.lines <= line
            assert apart or not together
        placed.append((line, request))


def test_prefetch_keeps_the_meaning_and_moves_loads_up() -> None:
    program = compile(graph_of(convolution("plain", "uint8", "s8", 7)), small_machine())
    bare = [replace(i, waits=(0,) * 6) for i in program.instructions]
    machine = program.machine
    sizes = (program.host_bytes, program.device_bytes)
    ordered = prefetch(Code.of(bare), machine, *sizes).instructions()
    again = [replace(i, waits=(0,) * 6) for i in ordered]
    assert sorted(map(str, again)) == sorted(map(str, bare))
    # The waits that were derived before sorting are those that the new order needs.
    assert ordered == synchronise(again, machine, *sizes)
    results: list[Any] = []
    for instructions in (program.instructions, ordered):
        state = State.blank(machine, program.host_bytes, program.device_bytes)
        state.device[: program.constants.size] = program.constants
        state.host[:] = np.random.default_rng(1).integers(0, 256, state.host.size)
        for one in instructions:
            one.apply(state)
        results.append(state.host.copy())
    np.testing.assert_array_equal(results[0], results[1])
