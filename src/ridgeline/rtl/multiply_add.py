"""Fused multiply-add of an integer and two float32, as a pipeline of integers.

`numerics.fused_multiply_add`, of which QLinearAdd takes two in a row and QLinearMul two that round
as often: one product and one sum, one rounding to 24 bits, half to even.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.requantize import rounds_up

FACTOR_BITS = 19
"""A product of two operands of the array, with its sign."""

STAGES = 12
"""Cycles from the operands to the sum."""

ADDEND_STAGE = 3
"""The addend is looked at so many cycles after the factor and the scale."""

SIGNIFICAND_BITS = 24
ADDED_FACTOR_BITS = 10
"""Of a factor whose product something is added to: one operand of the array, with its sign. So a
sum fits 64 bits, which simulators have a word for."""
_PRODUCT_BITS = FACTOR_BITS - 1 + SIGNIFICAND_BITS
_BELOW = 3
"""Bits below the product's lowest one; what lies lower still only says that there is something."""
_FARTHEST = ADDED_FACTOR_BITS - 1 + SIGNIFICAND_BITS + 1
"""Higher above the product's lowest bit than that, an addend hides all of it but its sign."""
_LOWEST = -(SIGNIFICAND_BITS + _BELOW)
_FRAME = _BELOW + _FARTHEST + SIGNIFICAND_BITS + 1
EXPONENT_BITS = 11


@dataclass(frozen=True, slots=True)
class Real:
    """significand * 2^exponent, minus that if `negative`. The significand has its bit 23 set, or is
    0. No exponent is too large or too small: float32's own, and those of results, have room.
    """

    negative: Bits
    significand: Bits
    exponent: Bits


def real_of(m: Module, word: Bits, name: str) -> Real:
    """The number that a float32 means; what is smaller than 2^-126 is taken for 0."""
    there = named(m, word[23:31].any(), f"{name}_there")
    significand = Mux(there, Cat(word[:23], Const(1, 1)), 0)
    exponent = Signal(signed(EXPONENT_BITS), name=f"{name}_exponent")
    m.d.comb += exponent.eq(word[23:31] - 150)
    return Real(word[31], named(m, significand, f"{name}_significand"), exponent)


def later(m: Module, real: Real, cycles: int, name: str) -> Real:
    """The same number so many cycles later."""
    return Real(
        delay(m, real.negative, cycles, f"{name}_negative"),
        delay(m, real.significand, cycles, f"{name}_significand"),
        delay(m, real.exponent, cycles, f"{name}_exponent"),
    )


def multiply_add(m: Module, factor: Bits, scale: Real, addend: Real, name: str) -> Real:
    """factor * scale + addend, rounded once; `factor` is a signed integer of FACTOR_BITS, of
    ADDED_FACTOR_BITS unless the addend is 0.

    `addend` is looked at ADDEND_STAGE cycles after the others.
    """

    def keep(value: Bits, what: str) -> Signal:
        return register(m, value, f"{name}_{what}")

    negative = keep((factor < 0) ^ scale.negative, "product_negative_1")
    magnitude = keep(Mux(factor < 0, -factor, factor)[: FACTOR_BITS - 1], "magnitude")
    significand = keep(scale.significand, "scale_significand")
    # Both halves in DSP blocks; their sum is a stage of its own.
    half = SIGNIFICAND_BITS // 2
    low = keep(magnitude * significand[:half], "product_low")
    high = keep(magnitude * significand[half:], "product_high")
    product = keep((low + (high << half))[:_PRODUCT_BITS], "product")
    base = delay(m, scale.exponent, ADDEND_STAGE, f"{name}_scale_exponent")
    minus = delay(m, negative, ADDEND_STAGE - 1, f"{name}_product_negative")
    frame = _aligned(m, product, minus, base, addend, name)
    total, minus, exponent = _added(m, frame, name)
    return _rounded(m, total, minus, exponent, name)


def _aligned(
    m: Module, product: Bits, minus: Bits, base: Bits, addend: Real, name: str
) -> dict[str, Any]:
    """Product and addend in one frame of bits, whose lowest is worth 2^exponent. Three stages."""

    def keep(value: Bits, what: str) -> Signal:
        return register(m, value, f"{name}_{what}")

    # Without a product the addend is its own frame; nothing to add may lie anywhere.
    alone = keep(~product.any(), "alone")
    close = keep(~product.any() | ~addend.significand.any(), "close")
    apart = Signal(signed(EXPONENT_BITS + 1), name=f"{name}_apart", reset_less=True)
    m.d.sync += apart.eq(addend.exponent - base)
    product, minus, base = keep(product, "product_2"), keep(minus, "minus_2"), keep(base, "base_2")
    addend = later(m, addend, 1, f"{name}_addend")
    beyond = named(m, ~close & (apart > _FARTHEST), f"{name}_beyond")
    below = named(m, ~close & (apart < _LOWEST), f"{name}_below")
    # To the left so far, or to the right, which is minus that; by at most its own length.
    left, right = ((sign * (apart + _BELOW)).as_signed() for sign in (1, -1))
    to_right = named(m, ~close & (apart < -_BELOW), f"{name}_to_right")
    bounded = Mux(close, _BELOW, Mux(beyond, _FARTHEST + _BELOW, left[:6]))
    left, right = keep(bounded, "left"), keep(Mux(below, -_LOWEST - _BELOW, right[:5]), "right")
    to_right = keep(to_right, "moves_right")
    kept = keep(Mux(beyond, 1, product << _BELOW)[:_FRAME], "kept_product")
    # Beyond, the frame hangs on the addend: its lowest bit is so far below that of the addend.
    lowest = Mux(beyond, addend.exponent - (_FARTHEST + _BELOW), base - _BELOW)
    where = Mux(alone, addend.exponent - _BELOW, lowest)
    exponent = keep(named(m, where.as_signed(), f"{name}_where"), "frame_exponent_1")
    signs = (keep(minus, "product_negative_3"), keep(addend.negative, "addend_negative_3"))
    significand = keep(addend.significand, "addend_kept")
    moved = named(m, Cat(Const(0, SIGNIFICAND_BITS), significand) >> right, f"{name}_moved")
    over = moved[SIGNIFICAND_BITS:]
    placed = named(m, Mux(to_right, over, (significand << left)[:_FRAME]), f"{name}_placed")
    return {
        "product": keep(kept, "frame_product"),
        "addend": keep(placed[:_FRAME], "frame_addend"),
        "sticky": keep(to_right & moved[:SIGNIFICAND_BITS].any(), "frame_sticky"),
        "signs": tuple(keep(s, f"sign_{i}") for i, s in enumerate(signs)),
        "exponent": keep(exponent, "frame_exponent_2"),
    }


def _added(m: Module, frame: dict[str, Any], name: str) -> tuple[Bits, Bits, Bits]:
    """The magnitude of the sum with one more bit for what was dropped, its sign, its exponent. Two
    stages.
    """

    def keep(value: Bits, what: str) -> Signal:
        return register(m, value, f"{name}_{what}")

    minus, addend_minus = frame["signs"]
    differ = named(m, minus ^ addend_minus, f"{name}_differ")
    # product - (addend and a little): the next lower number, and a little.
    other = Mux(differ, ~frame["addend"], frame["addend"])
    extended = named(m, Cat(other, differ), f"{name}_other")
    carry = differ & ~frame["sticky"]
    total = keep((frame["product"] + extended + carry)[: _FRAME + 1], "total")
    dropped, apart = keep(frame["sticky"], "dropped"), keep(differ, "differ_kept")
    sign = keep(minus, "minus")
    exponent = keep(frame["exponent"], "exponent_3")
    turned = named(m, apart & total[-1], f"{name}_turned")
    magnitude = Mux(turned, -total, total)[:_FRAME]
    return (
        keep(Cat(dropped, magnitude), "magnitude_of_sum"),
        keep(sign ^ turned, "sign_of_sum"),
        keep(exponent, "exponent_4"),
    )


def _rounded(m: Module, total: Bits, minus: Bits, exponent: Bits, name: str) -> Real:
    """The sum with its first one at the top, rounded to 24 bits. Four stages."""
    width = len(total)
    value: Bits = total
    zeros: list[Bits] = []
    for step, amount in enumerate((32, 16, 8, 4, 2, 1)):
        empty = named(m, ~value[width - amount :].any(), f"{name}_empty_{amount}")
        moved = Cat(Const(0, amount), value[: width - amount])
        value = named(m, Mux(empty, moved, value), f"{name}_normal_{amount}")
        zeros.insert(0, empty)
        if step % 2:
            value = register(m, value, f"{name}_normal_kept_{amount}")
            zeros = [register(m, z, f"{name}_zeros_{amount}_{i}") for i, z in enumerate(zeros)]
    minus = delay(m, minus, 4, f"{name}_result_negative")
    there = value[-1]
    cut = width - SIGNIFICAND_BITS
    up = rounds_up(value[cut - 1], value[: cut - 1].any(), value[cut])
    whole = named(m, value[cut:] + up, f"{name}_whole")
    carried = whole[SIGNIFICAND_BITS]
    significand = Mux(carried, whole[1:], whole[:SIGNIFICAND_BITS])[:SIGNIFICAND_BITS]
    # The frame's lowest bit is the total's second: one bit was added below. Both exponents are
    # there when it is known whether rounding carried.
    base = delay(m, exponent, 3, f"{name}_exponent_5")
    plain = named(m, (base + (cut - 1) - Cat(*zeros)).as_signed(), f"{name}_plain_exponent")
    more = named(m, (base + cut - Cat(*zeros)).as_signed(), f"{name}_carried_exponent")
    kept = Signal(signed(EXPONENT_BITS), name=f"{name}_exponent", reset_less=True)
    m.d.sync += kept.eq(Mux(carried, more, plain))
    return Real(minus, register(m, Mux(there, significand, 0), f"{name}_significand"), kept)
