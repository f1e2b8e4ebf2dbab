"""From a Trace to a Report: sums, bounds and bytes, on random programs and on the shipped model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ridgeline import api
from ridgeline.machine.instructions import Load, LoadWeights, MatMul
from ridgeline.machine.ledger import ENTRIES
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Layer, Program
from ridgeline.machine.simulate import simulate
from ridgeline.machine.steady import steady_cycles
from ridgeline.machine.tabulate import bytes_moved, report
from ridgeline.results.columns import LEDGER_ENTRIES

LAYER = Layer("layer", "MatMul", "array", 4 * 8 * 8, 0, 64, 32, 32, (4, 8))


def _program(layer: int) -> Program:
    """One load of four lines, one weight tile, one MatMul, for tiny-8."""
    instructions = (
        Load(element_bytes=8, count_0=4, device_stride_0=8, line_stride_0=1, banks=1, layer=layer),
        LoadWeights(k=8, n=8, row_stride=8, address=64, layer=layer),
        MatMul(
            count_0=4, stride_0=1, k=8, n=8, x_limit=4, x_step=1, banks=1, layer=layer,
            waits=(0, 1, 0, 1, 0, 0),
        ),
    )  # fmt: skip
    return Program(
        name="small",
        machine=load_machine("tiny-8"),
        segments=(DeviceSegment(instructions),),
        layers=(LAYER,),
        constants=np.zeros(128, np.uint8),
        device_bytes=128,
        host_bytes=0,
        inputs=(),
        outputs=(),
    )


def test_the_ledger_and_the_columns_have_the_same_entries() -> None:
    assert tuple(LEDGER_ENTRIES) == ENTRIES


def test_a_layer_by_hand() -> None:
    program = _program(0)
    trace = simulate(program)
    made = report(program, trace)
    (row,) = made.rows
    assert row.cycles == trace.cycles
    assert row.ideal_array_cycles == 4  # 4 vectors x 8 x 8 MACs on 64 elements
    assert row.device_memory_bytes == 4 * 8 + 8 * 8
    assert row.ideal_memory_cycles == 12  # 8 bytes a cycle
    assert dict(row.busy_cycles) == {"memory": 12, "compute": 4}
    assert row.bound == "memory"
    assert row.utilisation == pytest.approx(4 / trace.cycles)
    assert made.batch == 1
    assert made.machine.peak_macs_per_cycle == 64


def test_what_belongs_to_no_layer_has_a_row_of_its_own() -> None:
    program = _program(-1)
    trace = simulate(program)
    made = report(program, trace)
    assert [row.name for row in made.rows] == ["layer", "(no layer)"]
    assert sum(row.cycles for row in made.rows) == trace.cycles
    assert made.rows[1].device_memory_bytes == 96


def test_weights_from_the_buffer_move_no_memory() -> None:
    assert bytes_moved(LoadWeights(k=8, n=8)) == 64
    assert bytes_moved(LoadWeights(k=8, n=8, from_buffer=1)) == 0


def test_an_infinite_or_unknown_error_is_left_out() -> None:
    program = _program(0)
    trace = simulate(program)
    for given, shown in (({"layer": 30.0}, 30.0), ({"layer": float("inf")}, None), ({}, None)):
        assert report(program, trace, sqnr_db=given).rows[0].sqnr_db == shown


@pytest.fixture(scope="module")
def made(shipped: Any) -> tuple[Any, Any]:
    """The shipped model on tiny-16, two images: trace and report."""
    graph = api.read_onnx(shipped.model, batch=2)
    with np.load(shipped.calibration) as samples:
        program = api.compile(api.quantize(graph, dict(samples)), api.load_machine("tiny-16"))
    trace = api.simulate(program)
    return trace, api.report(program, trace)


def test_rows_sum_to_the_run(made: tuple[Any, Any]) -> None:
    trace, report = made
    assert sum(row.cycles for row in report.rows) == pytest.approx(trace.cycles)
    assert report.batch == 2
    for row in report.rows:
        assert sum(row.ledger.values()) == pytest.approx(row.cycles)
        assert min(row.ledger.values(), default=0) >= 0
        assert 0 <= row.utilisation <= 1


def test_no_resource_is_busy_for_longer_than_the_run(made: tuple[Any, Any]) -> None:
    trace, report = made
    for cycles in report.total.busy_cycles.values():
        assert cycles <= trace.cycles


def test_the_useful_entry_is_the_ideal_array_time(made: tuple[Any, Any]) -> None:
    for row in made[1].rows:
        assert row.ledger.get("useful", 0) == pytest.approx(row.ideal_array_cycles)


def test_runs_that_follow_each_other(made: tuple[Any, Any]) -> None:
    trace, report = made
    interval = steady_cycles(trace.program)
    assert interval <= trace.device_cycles
    for limit, cycles in report.total.busy_cycles.items():
        assert interval >= cycles, limit


def test_all_multiply_accumulates_are_counted(made: tuple[Any, Any]) -> None:
    total = made[1].total
    assert total.macs == 2 * 425_088
    assert replace(total, macs=1).operations == 2
