"""bf16 × bf16 + fp32: `numerics.bf16_multiply_add`, denormals flushed, no fusion."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from ridgeline.rtl.mac import float32
from ridgeline.rtl.registers import Bits, named, register

_BIAS = 127
_NOTHING = 1 << 16


@dataclass(frozen=True, slots=True)
class Bf16:
    """A weight is the stored word; an activation is one too, below a bit that says "nothing".

    A product is a float32 without its lower 8 bits, which are 0; what adds nothing is -0.
    """

    name: str = "bf16"
    activation_bits: int = 17
    weight_bits: int = 16
    accumulator_bits: int = 32
    product_cycles: int = 2
    sum_cycles: int = float32.CYCLES
    nothing: int = _NOTHING
    start: int = 0

    def sum_bits(self, rows: int) -> int:
        return 32

    def multiply(self, m: Module, activation: Bits, weight: Bits, name: str) -> Bits:
        absent = activation[16]
        zeros, infinite, nans = zip(*(_kind(x) for x in (activation, weight)), strict=True)
        nan = nans[0] | nans[1] | (zeros[0] & infinite[1]) | (zeros[1] & infinite[0])
        left = named(m, Cat(activation[:7], Const(1, 1)), f"{name}_left")
        right = named(m, Cat(weight[:7], Const(1, 1)), f"{name}_right")
        product = register(m, left * right, f"{name}_significand")
        exponents = register(m, activation[7:15] + weight[7:15], f"{name}_exponents")
        negative = register(m, activation[15] ^ weight[15] | absent, f"{name}_negative")
        is_nan = register(m, nan & ~absent, f"{name}_nan")
        is_zero = register(m, zeros[0] | zeros[1] | absent, f"{name}_zero")
        is_infinite = register(m, infinite[0] | infinite[1], f"{name}_infinite")
        exponent = Signal(signed(10), name=f"{name}_exponent")
        m.d.comb += exponent.eq(exponents + product[15] - _BIAS)
        fraction = Mux(product[15], product[:15], Cat(Const(0, 1), product[:14]))
        # An infinity times a zero is NaN already; times what is very small it is still infinite.
        above = named(m, is_infinite | (exponent >= float32.INFINITE), f"{name}_above")
        empty = named(m, is_zero | (float32.flushes(exponent) & ~is_infinite), f"{name}_empty")
        finite = Mux(empty, 0, Mux(above, float32.INFINITE << 15, Cat(fraction, exponent[:8])))
        magnitude = Mux(is_nan, float32.NAN >> 8, finite)
        return register(m, Cat(magnitude[:23], negative), f"{name}_product")

    def add(self, m: Module, total: Bits, product: Bits, name: str) -> Bits:
        wide = Cat(Const(0, 8), product) if len(product) == 24 else product
        return float32.add(m, total, named(m, wide, f"{name}_addend"), name)


def _kind(word: Bits) -> tuple[Bits, Bits, Bits]:
    """Whether a bfloat16 is a zero or smaller than 2^-126, infinite, NaN."""
    top, fraction = word[7:15].all(), word[:7].any()
    return ~word[7:15].any(), top & ~fraction, top & fraction
