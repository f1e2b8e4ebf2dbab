"""Random legal programs on the hardware: the bits of execute, the cycles of simulate."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    LoadWeights,
    MatMul,
    WindowReduce,
)
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.cosim import cosimulate_many
from rtl_cases import (
    bit_differences,
    cycle_differences,
    random_cases,
    square_machine,
    stalled,
)

MACHINES: dict[str, tuple[str, ...]] = {
    "usual": (),
    "fast memory, two banks, short queues": (
        "device_memory.latency_cycles=0",
        "device_memory.burst_bytes=16",
        "unified_buffer.banks=2",
        "queue_depth=2",
        "array.weight_slots=3",
    ),
    "slow memory, one bank, long bursts": (
        "device_memory.latency_cycles=43",
        "device_memory.burst_bytes=32",
        "device_memory.bytes_per_s=1600e6",
        "unified_buffer.banks=1",
        "queue_depth=1",
        "array.weight_slots=2",
        "array.accumulator_entries=50",
        "vector.parameter_slots=1",
    ),
    "fixed point": ("vector.requantize=fixed-point-31",),
}
PROGRAMS = 180


@pytest.mark.parametrize("name", MACHINES)
def test_random_programs(name: str) -> None:
    cases = random_cases(square_machine(4, *MACHINES[name]), range(PROGRAMS))
    for case, result in zip(cases, cosimulate_many(cases), strict=True):
        assert bit_differences(case, result) == []
        assert cycle_differences(case, result) == []
    for case, result in zip(cases, cosimulate_many(stalled(cases)), strict=True):
        assert bit_differences(case, result) == []


FORMS = {
    "Elementwise 0", "Elementwise 1", "Elementwise 2", "WindowReduce 0", "WindowReduce 1",
    "WindowReduce 3", "Lookup", "LoadWeights on chip",
}  # fmt: skip
"""What the vector unit computes, and where weights come from, beside the kinds alone."""


def form(one: Instruction) -> str:
    name = type(one).__name__
    if isinstance(one, LoadWeights):
        return name + " on chip" * one.from_buffer
    return f"{name} {one.operation}" if isinstance(one, (Elementwise, WindowReduce)) else name


def test_cases_reach_the_corners() -> None:
    """Guards the test above: its programs do what it is there for."""
    cases = random_cases(square_machine(4), range(PROGRAMS))
    events = [e for c in cases for s in simulate(c.program).segments for e in s.events]
    obstacles = {event.waited_for for event in events}
    assert {"bank", "port", "unit", "shift", "dispatch"} <= obstacles
    multiplies = [e.instruction for e in events if isinstance(e.instruction, MatMul)]
    assert any(one.keep_weights for one in multiplies)
    assert any(not one.inside().all() for one in multiplies)
    kinds = Counter(form(event.instruction) for event in events)
    assert min(kinds[name] for name in FORMS) >= 20, kinds
    assert len(set(kinds) - FORMS) == 6
    followers = pairwise(multiplies)
    assert any(b.accumulate and a.entry == b.entry and a.m == b.m == 1 for a, b in followers)
