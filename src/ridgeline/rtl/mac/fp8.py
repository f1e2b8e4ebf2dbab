"""fp8 e4m3fn as integers: products in units of 2^-18, sums exact, a flag that remembers NaN."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from ridgeline.numerics.fp8 import ACCUMULATOR_BITS
from ridgeline.rtl.registers import Bits, named, register
from ridgeline.rtl.shape import index_bits

PRODUCT_BITS = 37
"""196 * 2^28 with its sign."""

_NOTHING = 1 << 8


@dataclass(frozen=True, slots=True)
class Fp8:
    """A weight is the stored byte; an activation is one too, below a bit that says "nothing".

    Products and sums are two's complement, below a bit that says "NaN".
    """

    name: str = "fp8_e4m3fn"
    activation_bits: int = 9
    weight_bits: int = 8
    accumulator_bits: int = ACCUMULATOR_BITS + 1
    product_cycles: int = 2
    sum_cycles: int = 1
    nothing: int = _NOTHING
    start: int = 0

    def sum_bits(self, rows: int) -> int:
        return min(PRODUCT_BITS + index_bits(rows), ACCUMULATOR_BITS) + 1

    def multiply(self, m: Module, activation: Bits, weight: Bits, name: str) -> Bits:
        there = ~activation[8]
        left = _significand(m, activation, there, f"{name}_activation")
        right = _significand(m, weight, Const(1), f"{name}_weight")
        # The sign goes with the few bits of a factor, so that no long word is ever negated.
        negative = named(m, activation[7] ^ weight[7], f"{name}_negative")
        factor = Signal(signed(5), name=f"{name}_factor")
        m.d.comb += factor.eq(Mux(negative, -left, left))
        product = register(m, (factor * right)[:9].as_signed(), f"{name}_small")
        steps = register(m, _steps(activation) + _steps(weight), f"{name}_steps")
        is_nan = there & (activation[:7].all() | weight[:7].all())
        nan = self.sticky(register(m, is_nan, f"{name}_nan"))
        moved = Signal(signed(PRODUCT_BITS), name=f"{name}_moved")
        m.d.comb += moved.eq(product << steps)
        return register(m, Cat(moved, nan), f"{name}_product")

    def add(self, m: Module, total: Bits, product: Bits, name: str) -> Bits:
        whole = (total[:-1].as_signed() + product[:-1].as_signed())[: len(total) - 1]
        nan = self.sticky(total[-1]) | product[-1]
        return register(m, Cat(whole, nan), f"{name}_sum")

    def sticky(self, nan: Bits) -> Bits:
        """The flag of NaN, handed on."""
        return nan


def _significand(m: Module, code: Bits, there: Bits, name: str) -> Signal:
    """Four bits: denormals have no leading one."""
    return named(m, Cat(code[:3], code[3:7].any()) & there.replicate(4), f"{name}_significand")


def _steps(code: Bits) -> Bits:
    """By how much the significand is shifted: 0 for denormals and for the exponent above them."""
    return Mux(code[3:7].any(), code[3:7] - 1, 0)[:4]
