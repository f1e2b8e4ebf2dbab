"""The lane of QLinearAdd and QLinearMul in Amaranth's simulator, against the instruction's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.sim import Simulator

from ridgeline.machine.instructions import Elementwise
from ridgeline.rtl import requantize
from ridgeline.rtl.elementwise import SECOND_PASS, STAGES, RealLane
from ridgeline.rtl.multiply_add import ADDEND_STAGE
from ridgeline.rtl.requantize import RequantizeLane

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


class Alone(Elaboratable):
    """The lane of real numbers before the last stages of the requantise lane."""

    def __init__(self) -> None:
        self.real, self.rest = RealLane(), RequantizeLane()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.real, m.submodules.rest = real, rest = self.real, self.rest
        m.d.comb += [
            rest.real.eq(1),
            rest.real_negative.eq(real.negative),
            rest.real_significand.eq(real.significand),
            rest.real_point.eq(real.point),
        ]
        return m


LATENCY = STAGES + requantize.STAGES - requantize.REAL_STAGE


def drive(ctx: Any, alone: Alone, given: list[Case], cycle: int) -> None:
    """The pins of one cycle: a pair in every other, its second pass in one between."""

    def pair(delay: int) -> Case:
        return given[min(max((cycle - delay) // 2, 0), len(given) - 1)]

    real = alone.real
    one, a, b = pair(0)
    first, second, added = one, pair(SECOND_PASS)[0], pair(ADDEND_STAGE)[0]
    multiplies = one.operation == MUL
    # The second operand of a pair comes in odd cycles.
    product = (a - one.zero_a) * (b - one.zero_b) if multiplies else b
    again = cycle % 2 == 0
    ctx.set(real.product, product if not again else 0 if multiplies else a)
    ctx.set(real.second, again)
    ctx.set(real.multiplies, multiplies)
    scales = (second.offset, first.scale_a) if multiplies else (second.scale_a, first.scale_b)
    ctx.set(real.scale, word(scales[0 if again else 1]))
    ctx.set(real.addend, 0 if multiplies else word(added.offset))
    bound = pair(STAGES + 2)[0]
    ctx.set(alone.rest.low, bound.low)
    ctx.set(alone.rest.high, bound.high)


def stored(given: list[Case]) -> list[int]:
    """What the lane makes of them, a pair every other cycle."""
    alone = Alone()
    made: list[int] = []

    async def bench(ctx: Any) -> None:
        for cycle in range(2 * len(given) + LATENCY):
            drive(ctx, alone, given, cycle)
            made.append(ctx.get(alone.rest.stored))
            await ctx.tick()

    simulator = Simulator(alone)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return made[LATENCY + 1 :: 2]


def wanted(given: list[Case]) -> list[int]:
    return [int(one.combine(np.asarray([a]), np.asarray([b]))[0]) & 255 for one, a, b in given]


@pytest.mark.parametrize("operation", [ADD, MUL])
def test_lane_alone(operation: int) -> None:
    given = cases(operation, 3000)
    expected = wanted(given)
    pairs = enumerate(zip(stored(given), expected, strict=True))
    assert [number for number, (made, value) in pairs if made != value] == []
    # Not everything is at a limit.
    assert len(set(expected)) > 200


def half_up(guard: Any, sticky: Any, odd: Any) -> Any:
    return guard


def test_a_last_rounding_broken_on_purpose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = cases(ADD, 1500)
    monkeypatch.setattr(requantize, "rounds_up", half_up)
    assert stored(given) != wanted(given)
