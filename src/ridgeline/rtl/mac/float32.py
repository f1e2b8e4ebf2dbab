"""float32 addition with denormals flushed, as a pipeline: `numerics.add_flushed`."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from ridgeline.rtl.registers import Bits, named, register

CYCLES = 5
"""Order by magnitude; align; add; normalise; round."""

NAN = 0x7FC00000
INFINITE = 0xFF
_BELOW = 3
"""Bits kept below the larger operand's last: guard, round, and whether anything lies lower."""
_FRAME = 24 + _BELOW


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum on its way: `word` below the sign and exponent of the larger operand."""

    negative: Bits
    both_negative: Bits
    nan: Bits
    exponent: Bits


def add(m: Module, x: Bits, y: Bits, name: str) -> Bits:
    """x + y of float32 words, CYCLES later. Operands below 2^-126 are zeros."""
    larger, smaller, distance, differ, state = _ordered(m, x, y, name)
    shifted = register(m, align(m, smaller, distance, name), f"{name}_aligned")
    kept = register(m, larger, f"{name}_larger_2")
    minus = register(m, differ, f"{name}_differ_2")
    state = _later(m, state, 2, name)
    other = Mux(minus, ~shifted, shifted)
    frame = named(m, Cat(Const(0, _BELOW), kept), f"{name}_frame")
    # The carry below both: one adder, whatever a tool makes of three operands.
    left = named(m, Cat(minus, frame, Const(0, 1)), f"{name}_left")
    right = named(m, Cat(minus, other, minus), f"{name}_right")
    total = register(m, (left + right)[1 : _FRAME + 2], f"{name}_total")
    state = _later(m, _later(m, state, 3, name), 4, name)
    value, zeros = _normalised(m, total, name)
    return _rounded(m, value, zeros, state, name)


def _later(m: Module, state: _Sum, stage: int, name: str) -> _Sum:
    return _Sum(
        register(m, state.negative, f"{name}_negative_{stage}"),
        register(m, state.both_negative, f"{name}_both_negative_{stage}"),
        register(m, state.nan, f"{name}_nan_{stage}"),
        register(m, state.exponent, f"{name}_exponent_{stage}"),
    )


def _ordered(m: Module, x: Bits, y: Bits, name: str) -> tuple[Bits, Bits, Bits, Bits, _Sum]:
    """The significands of the larger and of the smaller magnitude, the distance of their exponents,
    whether their signs differ, and what the result will need. One stage.
    """
    turned = named(m, y[:31] > x[:31], f"{name}_turned")
    high = named(m, Mux(turned, y[:31], x[:31]), f"{name}_high")
    low = named(m, Mux(turned, x[:31], y[:31]), f"{name}_low")
    # Both ways at once: the comparison is as slow as a subtraction.
    ahead = named(m, (x[23:31] - y[23:31])[:8], f"{name}_ahead")
    behind = named(m, (y[23:31] - x[23:31])[:8], f"{name}_behind")
    differ = named(m, x[31] ^ y[31], f"{name}_differ")
    infinite = [named(m, w[23:31].all(), f"{name}_{n}_top") for n, w in (("x", x), ("y", y))]
    is_nan = [top & w[:23].any() for top, w in zip(infinite, (x, y), strict=True)]
    nan = is_nan[0] | is_nan[1] | (infinite[0] & infinite[1] & differ)
    state = _Sum(
        register(m, Mux(turned, y[31], x[31]), f"{name}_negative_1"),
        register(m, x[31] & y[31], f"{name}_both_negative_1"),
        register(m, nan, f"{name}_nan_1"),
        register(m, high[23:], f"{name}_exponent_1"),
    )
    return (
        register(m, flushed(high), f"{name}_larger"),
        register(m, flushed(low), f"{name}_smaller"),
        register(m, Mux(turned, behind, ahead), f"{name}_distance"),
        register(m, differ, f"{name}_differ_1"),
        state,
    )


def flushed(word: Bits) -> Bits:
    """The significand of a float32 without its sign; of what is smaller than 2^-126, 0."""
    there = word[23:31].any()
    return Cat(word[:23] & there.replicate(23), there)


def align(m: Module, smaller: Bits, distance: Bits, name: str) -> Bits:
    """The smaller significand in the frame of the larger; its last bit is set if any lay lower."""
    value: Bits = named(m, Cat(Const(0, _BELOW), smaller), f"{name}_unaligned")
    lost: list[Bits] = []
    for step in range(5):
        amount, moves = 1 << step, distance[step]
        lost.append(moves & value[:amount].any())
        moved = Mux(moves, value[amount:], value)
        value = named(m, moved[:_FRAME], f"{name}_align_{amount}")
    far = named(m, distance[5:].any(), f"{name}_far")
    # Far below: only that there is something. Significands of zeros are 0.
    low = Mux(far, smaller[-1], sticky(Cat(*lost).any()) | value[0])
    return Cat(low, value[1:] & (~far).replicate(_FRAME - 1))


def sticky(lost: Bits) -> Bits:
    """Whether anything was shifted out below the frame."""
    return lost


def round_up(guard: Bits, rest: Bits, odd: Bits) -> Bits:
    """Half to even."""
    return guard & (rest | odd)


def flushes(exponent: Bits) -> Bits:
    """Whether a sum with this exponent, biased, is smaller than 2^-126. There no sum is inexact."""
    return exponent <= 0


def _normalised(m: Module, total: Bits, name: str) -> tuple[Bits, Bits]:
    """The sum with its first one at the top, and by how many bits it was moved. One stage."""
    width = _FRAME + 1
    value: Bits = total
    zeros: list[Bits] = []
    for amount in (16, 8, 4, 2, 1):
        empty = named(m, ~value[width - amount :].any(), f"{name}_empty_{amount}")
        moved = Cat(Const(0, amount), value[: width - amount])
        value = named(m, Mux(empty, moved, value), f"{name}_normal_{amount}")
        zeros.insert(0, empty)
    return register(m, value, f"{name}_normal"), register(m, Cat(*zeros), f"{name}_zeros")


def _rounded(m: Module, value: Bits, zeros: Bits, state: _Sum, name: str) -> Bits:
    """24 bits of it, with what is special put in. One stage."""
    below = _BELOW + 1
    up = round_up(value[below - 1], value[: below - 1].any(), value[below])
    whole = named(m, value[below:] + up, f"{name}_whole")
    # The exponent with and without the carry, beside the rounding that makes it.
    carried = whole[24]
    exponent = named(m, state.exponent + 1 - zeros, f"{name}_exponent_of_sum")
    above = named(m, state.exponent + 2 - zeros, f"{name}_exponent_above")
    too_large = Mux(carried, above >= INFINITE, exponent >= INFINITE)
    infinite = named(m, state.exponent.all() | too_large, f"{name}_infinite")
    something = value[-1]
    empty = named(m, ~infinite & (flushes(exponent) | ~something), f"{name}_nothing_left")
    ordinary = named(m, Cat(whole[:23], Mux(carried, above, exponent)[:8]), f"{name}_ordinary")
    magnitude = Mux(infinite, INFINITE << 23, Mux(empty, 0, ordinary))[:31]
    negative = Mux(something | infinite, state.negative, state.both_negative)
    out = Signal(32, name=f"{name}_sum", reset_less=True)
    m.d.sync += out.eq(Mux(state.nan, NAN, Cat(magnitude, negative)))
    return out
