"""Performance counters: what the hardware counts is what is counted from the times of simulate."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus_cases import whole_model
from conftest import ShippedModel
from ridgeline.machine.counters import ARRAY_CAUSES, CAUSES, OTHER_UNITS, UNIT_CAUSES, counted
from ridgeline.machine.ledger import ledger
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.bus.counted import counted_simulator
from ridgeline.rtl.bus.register_map import COUNTERS
from ridgeline.rtl.cosim import cosimulate_many
from rtl_cases import random_cases, square_machine, stalled

MACHINE = square_machine(
    4,
    "device_memory.latency_cycles=31",
    "device_memory.bytes_per_s=400e6",
    "unified_buffer.banks=2",
    "unified_buffer.bytes=16384",
    "queue_depth=2",
)
"""Slow memory, few banks and short queues: every cause comes about."""

PROGRAMS = 150


@pytest.fixture(scope="module")
def model() -> Path:
    return counted_simulator(MACHINE)


def by_name(values: tuple[int, ...]) -> dict[str, int]:
    return {name: value for (name, _), value in zip(COUNTERS, values, strict=True)}


def check_sums(found: dict[str, int], cycles: int) -> None:
    assert sum(found[f"array {name}"] for name, _ in ARRAY_CAUSES) == cycles
    for unit in OTHER_UNITS:
        assert sum(found[f"{unit.name.lower()} {name}"] for name, _ in UNIT_CAUSES) == cycles


def test_random_programs(model: Path) -> None:
    cases = random_cases(MACHINE, range(PROGRAMS))
    reached: set[str] = set()
    for case, result in zip(cases, cosimulate_many(cases, model, len(COUNTERS)), strict=True):
        trace = simulate(case.program)
        wanted = counted(trace)
        check_sums(wanted, trace.cycles)
        found = by_name(result.counters)
        assert found == {"cycles": trace.cycles, "memory wait": 0, **wanted}
        assert found["array active"] == ledger(trace).active_cycles
        reached |= {cause for cause, cycles in wanted.items() if cycles}
    assert reached == {cause for cause, _ in CAUSES}
    waited = 0
    for result in cosimulate_many(stalled(cases), model, len(COUNTERS)):
        found = by_name(result.counters)
        # From the first instruction, which may be late, so fewer than from the reset.
        assert found["cycles"] <= result.cycles
        check_sums(found, found["cycles"])
        waited += found["memory wait"]
    assert waited


def test_the_shipped_model(shipped: ShippedModel, model: Path) -> None:
    """Its convolutions, depthwise and dense layers, poolings and additions."""
    case = whole_model(shipped, MACHINE)
    (result,) = cosimulate_many([case], model, len(COUNTERS))
    trace = simulate(case.program)
    wanted = counted(trace)
    check_sums(wanted, trace.cycles)
    assert by_name(result.counters) == {"cycles": trace.cycles, "memory wait": 0, **wanted}
