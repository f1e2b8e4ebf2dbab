"""The fused multiply-add of the hardware against the one of `numerics`, all 24 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.hdl import Elaboratable, Module, Signal, signed
from amaranth.sim import Simulator

from ridgeline.numerics.rounding import fused_multiply_add
from ridgeline.rtl import multiply_add as fused
from ridgeline.rtl.multiply_add import multiply_add, real_of
from ridgeline.rtl.registers import named

Floats = npt.NDArray[np.float32]


class Alone(Elaboratable):
    """The pipeline with its operands as float32 words."""

    def __init__(self) -> None:
        self.factor = Signal(signed(fused.FACTOR_BITS))
        self.scale = Signal(32)
        self.addend = Signal(32)
        self.negative = Signal()
        self.significand = Signal(fused.SIGNIFICAND_BITS)
        self.exponent = Signal(signed(fused.EXPONENT_BITS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        scale = real_of(m, named(m, self.scale, "scale_word"), "scale")
        addend = real_of(m, named(m, self.addend, "addend_word"), "addend")
        made = multiply_add(m, self.factor, scale, addend, "alone")
        m.d.comb += [
            self.negative.eq(made.negative),
            self.significand.eq(made.significand),
            self.exponent.eq(made.exponent),
        ]
        return m


def vectors(count: int) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Factors, scales and addends: every distance between product and addend, ties, cancellation
    to the last bit and to nothing, zeros, both signs.
    """
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 8, count)
    # A long factor only where nothing is added.
    longest = np.where(kind == 2, fused.FACTOR_BITS, fused.ADDED_FACTOR_BITS)
    bits = rng.integers(1, longest)
    factor = rng.integers(0, 1 << bits) * rng.choice([-1, 1], count)
    scale = np.ldexp(0.5 + rng.random(count) / 2, rng.integers(-30, 30, count)).astype(np.float32)
    scale *= rng.choice(np.asarray([-1, 1], np.float32), count)
    product = factor * scale.astype(np.float64)
    distance = np.ldexp(0.5 + rng.random(count), rng.integers(-60, 60, count))
    addend = (product * distance).astype(np.float32) * rng.choice([-1, 1], count)
    near = -product.astype(np.float32)
    steps = rng.integers(-2, 3, count)
    beside = near.view(np.int32) + np.where(near != 0, steps, 0).astype(np.int32)
    addend = np.where(kind == 0, beside.view(np.float32), addend)
    # A power of two times a number of 25 bits and an addend of few bits: halves of the last place.
    tie = kind == 1
    scale = np.where(tie, np.float32(1 + 2.0**-23), scale)
    factor = np.where(tie, 2 * (factor // 2) + 1, factor)
    addend = np.where(tie, np.ldexp(1.0, rng.integers(-8, 24, count)), addend)
    addend = np.where(kind == 2, 0, addend)
    factor = np.where((kind == 3) & (rng.random(count) < 0.3), 0, factor)
    scale = np.where((kind == 4) & (rng.random(count) < 0.3), 0, scale)
    most = (1 << (longest - 1)) - 1
    factor = np.where(rng.random(count) < 0.02, most * rng.choice([-1, 1], count), factor)
    return factor, scale.astype(np.float32), addend.astype(np.float32)


def computed(factor: npt.NDArray[np.int64], scale: Floats, addend: Floats) -> Floats:
    """What the hardware makes of them, one each cycle."""
    pipeline = Alone()
    count, made = len(factor), list[float]()
    scales, addends = (x.view(np.uint32).tolist() for x in (scale, addend))
    factors = factor.tolist()

    async def bench(ctx: Any) -> None:
        for cycle in range(count + fused.STAGES):
            now = min(cycle, count - 1)
            ctx.set(pipeline.factor, factors[now])
            ctx.set(pipeline.scale, scales[now])
            ctx.set(pipeline.addend, addends[min(max(cycle - fused.ADDEND_STAGE, 0), count - 1)])
            sign = -1 if ctx.get(pipeline.negative) else 1
            value = ctx.get(pipeline.significand) * 2.0 ** ctx.get(pipeline.exponent)
            made.append(sign * value)
            await ctx.tick()

    simulator = Simulator(pipeline)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    exact = np.asarray(made[fused.STAGES :])
    # The conversion rounds nothing: 24 bits.
    assert (exact.astype(np.float32) == exact).all()
    return exact.astype(np.float32)


def test_every_bit() -> None:
    factor, scale, addend = vectors(8000)
    expected = fused_multiply_add(factor.astype(np.float32), scale, addend)
    np.testing.assert_array_equal(computed(factor, scale, addend), expected)
    # Sums that round, sums that cancel, and sums of nothing are among them.
    exact = factor * scale.astype(np.float64) + addend
    assert (exact != expected).sum() > 2000
    assert (np.abs(expected) < np.abs(addend) / 1000).sum() > 200
    assert (expected == 0).sum() > 20


def half_up(guard: Any, sticky: Any, odd: Any) -> Any:
    return guard


def down(guard: Any, sticky: Any, odd: Any) -> Any:
    return guard & ~guard


def nothing_below(guard: Any, sticky: Any, odd: Any) -> Any:
    """Ties wherever the first bit dropped is set."""
    return guard & odd


@pytest.mark.parametrize("broken", [half_up, down, nothing_below])
def test_a_rounding_broken_on_purpose_is_found(
    broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor, scale, addend = vectors(2000)
    monkeypatch.setattr(fused, "rounds_up", broken)
    expected = fused_multiply_add(factor.astype(np.float32), scale, addend)
    assert (computed(factor, scale, addend) != expected).any()
