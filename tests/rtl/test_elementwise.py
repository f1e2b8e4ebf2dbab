"""The lane of QLinearAdd and QLinearMul in Amaranth's simulator, against the instruction's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from ridgeline.machine.instructions import Elementwise
from ridgeline.rtl import requantize
from ridgeline.rtl.elementwise import BOUND_STAGE, STAGES, ElementwiseLane

ADD, MUL = 0, 1
Case = tuple[Elementwise, int, int]


def cases(operation: int, count: int) -> list[Case]:
    """Instructions with a pair of integers: edges of the limits, ties and cancellation, random."""
    rng = np.random.default_rng(operation)
    found: list[Case] = []
    for number in range(count):
        signed = bool(rng.integers(0, 2))
        low, high = (-128, 127) if signed else (0, 255)
        a, b = (int(v) for v in rng.integers(low, high + 1, 2))
        zero_a, zero_b, zero = (int(v) for v in rng.integers(low, high + 1, 3))
        near = 2.0 ** float(rng.integers(-3, 4) if number % 3 else rng.integers(-40, 40))
        scale_a, scale_b = (np.float32(near * (0.5 + rng.random())) for _ in range(2))
        if number % 5 == 0:
            # Powers of two make ties; equal ones with unlike signs cancel.
            scale_a = scale_b = np.float32(2.0 ** float(rng.integers(-3, 2)))
        offset = np.float32(zero) - (scale_a * np.float32(zero_a) + scale_b * np.float32(zero_b))
        if operation == MUL:
            scale_a = np.float32(scale_a / 64)
            offset = np.float32(zero)
        found.append(
            (
                Elementwise(
                    operation=operation, format=int(signed), scale_a=float(scale_a),
                    scale_b=float(scale_b), offset=float(offset), zero_a=zero_a, zero_b=zero_b,
                    low=low, high=high,
                ),
                a,
                b,
            )
        )  # fmt: skip
    return found


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def stored(given: list[Case], operation: int) -> list[int]:
    """What the lane makes of them, a pair a cycle."""
    lane = ElementwiseLane()
    made: list[int] = []

    async def bench(ctx: Any) -> None:
        for cycle in range(len(given) + STAGES):
            one, a, b = given[min(cycle, len(given) - 1)]
            bound = given[min(max(cycle - BOUND_STAGE, 0), len(given) - 1)][0]
            ctx.set(lane.multiplies, operation)
            ctx.set(lane.a, a - one.zero_a if operation == MUL else a)
            ctx.set(lane.b, b - one.zero_b if operation == MUL else b)
            ctx.set(lane.scale_a, word(one.scale_a))
            ctx.set(lane.scale_b, word(one.scale_b))
            ctx.set(lane.offset, word(one.offset))
            ctx.set(lane.low, bound.low)
            ctx.set(lane.high, bound.high)
            made.append(ctx.get(lane.stored))
            await ctx.tick()

    simulator = Simulator(lane)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return made[STAGES:]


def wanted(given: list[Case]) -> list[int]:
    return [int(one.combine(np.asarray([a]), np.asarray([b]))[0]) & 255 for one, a, b in given]


@pytest.mark.parametrize("operation", [ADD, MUL])
def test_lane_alone(operation: int) -> None:
    given = cases(operation, 6000)
    expected = wanted(given)
    pairs = enumerate(zip(stored(given, operation), expected, strict=True))
    assert [number for number, (made, value) in pairs if made != value] == []
    # Not everything is at a limit.
    assert len(set(expected)) > 200


def half_up(guard: Any, sticky: Any, odd: Any) -> Any:
    return guard


def test_a_last_rounding_broken_on_purpose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = cases(ADD, 3000)
    monkeypatch.setattr(requantize, "rounds_up", half_up)
    assert stored(given, ADD) != wanted(given)
