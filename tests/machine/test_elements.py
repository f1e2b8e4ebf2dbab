"""The array clocked register by register, against NumPy, the closed forms and the simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from array_tiles import expected_sums, make_array, random_tiles, shape_of
from ridgeline.machine import dataflow, element_registers, elements
from ridgeline.machine.dataflow import Pass, Tile, array_schedule
from ridgeline.machine.description import DATAFLOWS, Array
from ridgeline.machine.elements import (
    STAGES_AROUND_THE_ARRAY,
    ElementRun,
    ElementTile,
    OutputArray,
    StationaryArray,
    run_elements,
)
from ridgeline.machine.instructions import MatMul
from ridgeline.machine.instructions.array import INT16, UINT8
from ridgeline.machine.latencies import LATENCIES
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate_instructions

sides = st.integers(1, 8)


@st.composite
def array_and_tiles(draw: st.DrawFn, dataflow: str | None = None) -> tuple[Array, list[Any]]:
    rows, cols = draw(sides), draw(sides)
    flow = dataflow or draw(st.sampled_from(DATAFLOWS))
    array = make_array(rows, cols, flow, draw(st.integers(1, rows)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    return array, random_tiles(array, rng, draw(st.integers(1, 7)))


def sums_agree(run: ElementRun, tiles: list[ElementTile]) -> bool:
    wanted = expected_sums(tiles)
    return all(
        sums is None if not tile.last else sums is not None and np.array_equal(sums, want)
        for tile, sums, want in zip(tiles, run.sums, wanted, strict=True)
    )


def times_agree(run: ElementRun, array: Array, tiles: list[ElementTile]) -> bool:
    wanted = array_schedule(array, [shape_of(tile) for tile in tiles])
    found = [(p.shift_start, p.stream_start, p.stream_end) for p in run.passes]
    return found == [(p.shift_start, p.stream_start, p.stream_end) for p in wanted]


@settings(max_examples=400)
@given(array_and_tiles())
def test_sums_and_times(case: tuple[Array, list[ElementTile]]) -> None:
    array, tiles = case
    run = run_elements(array, tiles)
    assert sums_agree(run, tiles)
    assert times_agree(run, array, tiles)
    for one in run.passes:
        stays = not tiles[one.tile].last
        assert one.left == (-1 if stays else one.stream_end + array.rows + array.cols)


@pytest.mark.parametrize("flow", DATAFLOWS)
@pytest.mark.parametrize("side", [1, 2, 8])
def test_full_tiles_follow_without_a_bubble(flow: str, side: int) -> None:
    array = make_array(side, side, flow, 1)
    ones = np.ones((side, side), np.int64)
    run = run_elements(array, [ElementTile(ones, ones) for _ in range(5)])
    starts = [p.stream_start for p in run.passes]
    interval = 2 * side - 1 if flow == "output-stationary" else side
    assert np.diff(starts).tolist() == [max(interval, 2)] * 4


def matmul(array: Array, tile: ElementTile) -> MatMul:
    (m, k), n = tile.activations.shape, tile.weights.shape[1]
    return MatMul(
        format=INT16 if tile.planes == 2 else UINT8,
        count_0=m,
        k=k,
        n=n,
        keep_weights=int(tile.keep_weights),
        accumulate=int(tile.accumulate),
        last=int(tile.last),
    )


@settings(max_examples=150)
@given(array_and_tiles())
def test_simulated_events(case: tuple[Array, list[ElementTile]]) -> None:
    """The first instruction is dispatched in cycle 0 and enters in cycle 1; then all is equal."""
    array, tiles = case
    sides = [f"array.rows={array.rows}", f"array.cols={array.cols}"]
    machine = replace(load_machine("tiny-8", sides), array=array)
    events, _ = simulate_instructions(tuple(matmul(array, t) for t in tiles), machine)
    run = run_elements(array, tiles)
    for number, event in enumerate(events):
        passes = [p for p in run.passes if p.tile == number]
        assert event.shifted == passes[0].shift_start + 1
        assert event.start == passes[0].stream_start + 1
        assert event.issued == passes[-1].stream_end + 1
        if tiles[number].last:
            assert event.drained == passes[-1].left + 1 + LATENCIES.array


def test_the_constant_is_the_stages_around_the_array() -> None:
    assert len(STAGES_AROUND_THE_ARRAY) == LATENCIES.array


def test_an_operand_of_ten_bits_is_refused() -> None:
    tile = ElementTile(np.asarray([[256]]), np.asarray([[1]]))
    with pytest.raises(ValueError, match="does not fit 9 bits"):
        run_elements(make_array(1, 1, "weight-stationary"), [tile])


# What follows shows that each comparison can fail.


def cases(flow: str, count: int = 12) -> list[tuple[Array, list[ElementTile]]]:
    rng = np.random.default_rng(7)
    return [
        (array, random_tiles(array, rng, 6))
        for array in (make_array(4, 3, flow, 1 + i % 3) for i in range(count))
    ]


def finds(flow: str) -> tuple[bool, bool]:
    """Whether (sums, times) differ in any case."""
    wrong_sums = wrong_times = False
    for array, tiles in cases(flow):
        try:
            run = run_elements(array, tiles)
        except (AssertionError, IndexError, KeyError):
            wrong_sums = True
            continue
        wrong_sums |= not sums_agree(run, tiles)
        wrong_times |= not times_agree(run, array, tiles)
    return wrong_sums, wrong_times


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_unbroken_models_agree(flow: str) -> None:
    assert finds(flow) == (False, False)


@pytest.mark.parametrize("flow", ["weight-stationary", "input-stationary"])
def test_without_the_swap_delay_sums_differ(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streaming in the very cycle of the shift swaps a shadow that is not written yet."""
    tick = StationaryArray._tick

    def hasty(self: StationaryArray) -> None:
        enters = self.waiting is None and self.entered < len(self.passes)
        one = self.passes[self.entered] if enters else None
        if one is not None and self.may_shift(one) and self.may_stream():
            one.shift_start = self.cycle
            self.shift(one)
            self.entered += 1
            self.waiting = one
        tick(self)

    monkeypatch.setattr(StationaryArray, "_tick", hasty)
    assert finds(flow) == (True, True)


@pytest.mark.parametrize("flow", ["weight-stationary", "input-stationary"])
def test_with_the_plane_overwritten_sums_differ(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift that does not wait for the swap destroys the weights that wait."""
    monkeypatch.setattr(
        StationaryArray,
        "may_shift",
        lambda self, one: not (one.words and self.loaders[self.turn].words),
    )
    assert finds(flow)[0]


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_a_deskew_that_is_one_lane_off_is_found(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init = element_registers.Skew.__init__

    def shifted(self: Any, lanes: int, *, reverse: bool = False, fill: int = 0) -> None:
        init(self, lanes, reverse=reverse, fill=fill)
        if reverse:
            self.delays = np.roll(self.delays, 1)

    monkeypatch.setattr(element_registers.Skew, "__init__", shifted)
    assert finds(flow)[0]


def test_a_drain_one_cycle_shorter_destroys_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """So m - 1 cycles of drain are necessary, and the model shows that they suffice."""
    may_stream = OutputArray.may_stream

    def early(self: OutputArray) -> bool:
        if self.streaming is None or not self.tiles[self.streaming.tile].last:
            return may_stream(self)
        tile = self.tiles[self.streaming.tile]
        depth, m = tile.weights.shape[0], tile.activations.shape[0]
        final = (tile.planes - 1) * max(depth, m)
        return self.place >= final + max(depth + m - 3, m - 1, depth - 1)

    monkeypatch.setattr(OutputArray, "may_stream", early)
    assert finds("output-stationary") == (True, True)


@pytest.mark.parametrize(
    ("flow", "wrong"),
    [
        ("weight-stationary", lambda t: (Pass(0 if t.keep_weights else t.k + 1, t.m * t.planes),)),
        ("weight-stationary", lambda t: (Pass(t.k, t.m * t.planes),)),
        ("input-stationary", lambda t: (Pass(t.k, t.n),) * t.planes),
        ("input-stationary", lambda t: (Pass(t.m, t.n * t.planes),)),
        ("output-stationary", lambda t: (Pass(0, t.k * t.planes + t.m * t.last),)),
        ("output-stationary", lambda t: (Pass(0, t.k * t.planes + (t.m - 1) * t.last),)),
    ],
)
def test_a_wrong_rule_is_found(flow: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = replace(dataflow.DATAFLOW_RULES[flow], passes=wrong)
    monkeypatch.setitem(dataflow.DATAFLOW_RULES, flow, rule)
    found = False
    for array, tiles in cases(flow):
        found |= len(array_schedule(array, [shape_of(t) for t in tiles])) != len(
            run_elements(array, tiles).passes
        ) or not times_agree(run_elements(array, tiles), array, tiles)
    assert found


@pytest.mark.parametrize("flow", ["weight-stationary", "input-stationary", "output-stationary"])
def test_a_high_byte_that_is_not_shifted_is_found(
    flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "HIGH", 0)
    monkeypatch.setattr(
        ElementTile,
        "bytes_of",
        lambda self, plane: self.activations & 255 if plane == 0 else self.activations >> 9,
    )
    assert finds(flow)[0]


def test_tile_of_the_closed_form_has_the_same_shape() -> None:
    tile = ElementTile(np.zeros((3, 2), np.int64), np.zeros((2, 5), np.int64), 2, True, True, False)
    assert shape_of(tile) == Tile(3, 5, 2, 2, True, False)
