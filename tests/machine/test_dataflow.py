"""The closed forms of the dataflows: known answers and laws."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_tiles import make_array
from ridgeline.machine.dataflow import DATAFLOW_RULES, Pass, PassTimes, Tile, array_schedule
from ridgeline.machine.description import DATAFLOWS
from ridgeline.machine.instructions import MatMul
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate_instructions

tiles = st.builds(
    Tile,
    m=st.integers(1, 40),
    n=st.integers(1, 8),
    k=st.integers(1, 8),
    planes=st.integers(1, 2),
    keep_weights=st.booleans(),
    last=st.booleans(),
)


@pytest.mark.parametrize(
    ("flow", "tile", "passes"),
    [
        ("weight-stationary", Tile(5, 3, 4), (Pass(4, 5),)),
        ("weight-stationary", Tile(5, 3, 4, planes=2), (Pass(4, 10),)),
        ("weight-stationary", Tile(5, 3, 4, keep_weights=True), (Pass(0, 5),)),
        ("input-stationary", Tile(5, 3, 4), (Pass(5, 3),)),
        ("input-stationary", Tile(5, 3, 4, planes=2), (Pass(5, 3), Pass(5, 3))),
        ("output-stationary", Tile(5, 3, 7), (Pass(0, 11),)),
        ("output-stationary", Tile(5, 3, 7, last=False), (Pass(0, 7),)),
        ("output-stationary", Tile(5, 3, 2, last=False), (Pass(0, 5),)),
        ("output-stationary", Tile(5, 3, 7, planes=2), (Pass(0, 18),)),
        ("output-stationary", Tile(5, 3, 2, planes=2), (Pass(0, 11),)),
    ],
)
def test_passes(flow: str, tile: Tile, passes: tuple[Pass, ...]) -> None:
    assert DATAFLOW_RULES[flow].passes(tile) == passes


def test_most_m() -> None:
    array = make_array(3, 5, "weight-stationary")
    most = {flow: rule.most_m(array) for flow, rule in DATAFLOW_RULES.items()}
    assert most == {"weight-stationary": 64, "input-stationary": 5, "output-stationary": 3}


def test_schedule_hides_the_shift() -> None:
    array = make_array(8, 8, "weight-stationary")
    found = array_schedule(array, [Tile(20, 8, 8), Tile(20, 8, 8), Tile(4, 8, 8), Tile(4, 8, 8)])
    assert found == [
        PassTimes(0, 1, 21),
        PassTimes(8, 21, 41),
        PassTimes(22, 41, 45),
        PassTimes(42, 45, 49),
    ]


def test_schedule_waits_for_the_loader() -> None:
    array = make_array(8, 8, "weight-stationary", loaders=1)
    starts = [t.stream_start for t in array_schedule(array, [Tile(2, 8, 8)] * 4)]
    assert starts == [1, 9, 17, 25]
    array = make_array(8, 8, "weight-stationary", loaders=4)
    starts = [t.stream_start for t in array_schedule(array, [Tile(2, 8, 8)] * 4)]
    assert starts == [1, 3, 5, 7]


def test_a_stream_that_waits_for_its_whole_tile() -> None:
    """Hidden behind a long stream; of a short one the shift, of 8 cycles, shows."""
    array = replace(make_array(8, 8, "weight-stationary"), stream_after_rows=8)
    found = array_schedule(array, [Tile(20, 8, 8), Tile(20, 8, 8), Tile(2, 8, 3), Tile(2, 8, 8)])
    assert found == [
        PassTimes(0, 8, 28),
        PassTimes(9, 28, 48),
        PassTimes(29, 48, 50),
        PassTimes(49, 57, 59),
    ]


@given(
    st.sampled_from(DATAFLOWS),
    st.integers(1, 8),
    st.integers(1, 4),
    st.lists(tiles, min_size=1, max_size=12),
)
def test_simulated_as_the_closed_form_says(
    flow: str, after: int, loaders: int, sequence: list[Tile]
) -> None:
    machine = load_machine(
        "tiny-8",
        [
            f"array.dataflow={flow}",
            f"array.stream_after_rows={after}",
            f"array.weight_rows_per_cycle={loaders}",
            "queue_depth=64",
        ],
    )
    sequence = [replace(t, planes=1, last=True, m=min(t.m, 8)) for t in sequence]
    code = tuple(
        MatMul(count_0=t.m, n=t.n, k=t.k, keep_weights=int(t.keep_weights), last=1)
        for t in sequence
    )
    events, _ = simulate_instructions(code, machine)
    times = array_schedule(machine.array, sequence)
    # The first instruction enters in cycle 1.
    found = [(e.shifted - 1, e.start - 1, e.issued - 1) for e in events]
    assert found == [(t.shift_start, t.stream_start, t.stream_end) for t in times]


@given(st.sampled_from(DATAFLOWS), st.integers(1, 8), st.lists(tiles, min_size=1, max_size=12))
def test_laws(flow: str, loaders: int, sequence: list[Tile]) -> None:
    array = make_array(8, 8, flow, loaders)
    times = array_schedule(array, sequence)
    passes = [one for tile in sequence for one in DATAFLOW_RULES[flow].passes(tile)]
    for one, when in zip(passes, times, strict=True):
        assert when.stream_end - when.stream_start == one.stream_cycles
        assert when.stream_start > when.shift_start
    for before, after in pairwise(times):
        assert after.stream_start >= before.stream_end
        assert after.shift_start > before.stream_start
    # Never below what the streams, or what the loaders need.
    assert times[-1].stream_end >= 1 + sum(one.stream_cycles for one in passes)
    if loaders == 1:
        assert times[-1].stream_start > sum(one.shift_cycles for one in passes[:-1])


@given(st.sampled_from(DATAFLOWS), st.lists(tiles, min_size=1, max_size=12))
def test_more_loaders_are_never_slower(flow: str, sequence: list[Tile]) -> None:
    ends = [
        array_schedule(make_array(8, 8, flow, loaders), sequence)[-1].stream_end
        for loaders in range(1, 9)
    ]
    assert ends == sorted(ends, reverse=True)
