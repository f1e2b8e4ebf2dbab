"""Performance counters: what the hardware counts is what is counted from the times of simulate."""

from __future__ import annotations

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

SLOW = "slow memory, two banks, short queues"
MACHINES: dict[str, tuple[str, ...]] = {
    "usual": (),
    SLOW: (
        "device_memory.latency_cycles=31",
        "device_memory.bytes_per_s=400e6",
        "unified_buffer.banks=2",
        "queue_depth=2",
        "unified_buffer.bytes=16384",
    ),
}
PROGRAMS = 120


def by_name(values: tuple[int, ...]) -> dict[str, int]:
    return {name: value for (name, _), value in zip(COUNTERS, values, strict=True)}


def check_sums(found: dict[str, int], cycles: int) -> None:
    assert sum(found[f"array {name}"] for name, _ in ARRAY_CAUSES) == cycles
    for unit in OTHER_UNITS:
        assert sum(found[f"{unit.name.lower()} {name}"] for name, _ in UNIT_CAUSES) == cycles


@pytest.mark.parametrize("name", MACHINES)
def test_random_programs(name: str) -> None:
    machine = square_machine(4, *MACHINES[name])
    cases = random_cases(machine, range(PROGRAMS))
    model = counted_simulator(machine)
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


def test_the_shipped_model(shipped: ShippedModel) -> None:
    """Its convolutions, depthwise and dense layers, poolings and additions."""
    machine = square_machine(4, *MACHINES[SLOW])
    case = whole_model(shipped, machine)
    (result,) = cosimulate_many([case], counted_simulator(machine), len(COUNTERS))
    trace = simulate(case.program)
    wanted = counted(trace)
    check_sums(wanted, trace.cycles)
    assert by_name(result.counters) == {"cycles": trace.cycles, "memory wait": 0, **wanted}
