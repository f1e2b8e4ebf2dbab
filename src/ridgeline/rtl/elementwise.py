"""One lane of Elementwise: QLinearAdd and QLinearMul with ONNX Runtime's float32 roundings.

Two fused multiply-adds in a row. add: fma(a, scale_a, fma(b, scale_b, offset)); mul: the product of
the integers by scale_a is rounded, then its sum with the offset. Then to the nearest integer, half
to even, and the limits. See `machine.instructions.Elementwise`, whose bits these are while scales
lie in [2^-64, 2^64].
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.rtl import multiply_add as fused
from ridgeline.rtl.multiply_add import FACTOR_BITS, Real, later, multiply_add, real_of
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.requantize import nearest_integer

FACTOR_STAGES = 1
"""Before the first multiply-add: the product of the two integers."""
SECOND_STAGE = FACTOR_STAGES + fused.STAGES - fused.ADDEND_STAGE
"""When the second multiply-add looks at its factor and scale."""
BOUND_STAGE = SECOND_STAGE + fused.STAGES + 2
"""The limits are looked at so many cycles after the integers."""
STAGES = BOUND_STAGE + 1
"""Cycles from the integers to the stored one."""


class ElementwiseLane(wiring.Component):
    """`a`, `b` with their zero points subtracted if `multiplies` (cycle 0), and the constants, held
    from there on; limits (BOUND_STAGE) -> `stored` (STAGES).
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(signed(9)),
                "b": In(signed(9)),
                "multiplies": In(1),
                "scale_a": In(32),
                "scale_b": In(32),
                "offset": In(32),
                "low": In(signed(17)),
                "high": In(signed(17)),
                "stored": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        multiplies = register(m, self.multiplies, "multiplies_1")
        scales = {
            name: register(m, value, f"{name}_1")
            for name, value in (("a", self.scale_a), ("b", self.scale_b), ("offset", self.offset))
        }
        a, b, offset = (real_of(m, scales[name], name) for name in ("a", "b", "offset"))
        product = Signal(signed(FACTOR_BITS), reset_less=True)
        m.d.sync += product.eq(Mux(self.multiplies, self.a * self.b, self.b))
        first = multiply_add(
            m,
            product,
            self._either(m, multiplies, a, b, "first_scale"),
            self._addend(m, multiplies, offset),
            "first",
        )
        wait = SECOND_STAGE - FACTOR_STAGES
        later_multiplies = delay(m, multiplies, wait, "multiplies_second")
        factor = Signal(signed(FACTOR_BITS), name="second_factor")
        kept = delay(m, self.a, SECOND_STAGE, "a")
        m.d.comb += factor.eq(Mux(later_multiplies, 1, kept))
        scale = self._either(
            m, later_multiplies, later(m, offset, wait, "offset_second"),
            later(m, a, wait, "a_second"), "second_scale",
        )  # fmt: skip
        m.d.comb += self.stored.eq(self._stored(m, multiply_add(m, factor, scale, first, "second")))
        return m

    @staticmethod
    def _either(m: Module, which: Bits, one: Real, other: Real, name: str) -> Real:
        exponent = Signal(signed(fused.EXPONENT_BITS), name=f"{name}_exponent")
        m.d.comb += exponent.eq(Mux(which, one.exponent, other.exponent))
        return Real(
            named(m, Mux(which, one.negative, other.negative), f"{name}_negative"),
            named(m, Mux(which, one.significand, other.significand), f"{name}_significand"),
            exponent,
        )

    @staticmethod
    def _addend(m: Module, multiplies: Bits, offset: Real) -> Real:
        """The offset where the sum needs it; nothing for a product."""
        kept = later(m, offset, fused.ADDEND_STAGE, "first_addend")
        none = delay(m, multiplies, fused.ADDEND_STAGE, "no_addend")
        return Real(kept.negative, Mux(none, Const(0, 24), kept.significand), kept.exponent)

    def _stored(self, m: Module, real: Real) -> Bits:
        shift = named(m, -real.exponent, "shift")
        whole, up = nearest_integer(m, real.significand | Const(0, 25), shift)
        negative = register(m, real.negative, "negative")
        result = named(m, whole + up, "result")
        value = register(m, Mux(negative, -result, result), "value")
        bounded = Mux(value < self.low, self.low, Mux(value > self.high, self.high, value))
        return register(m, bounded[:8], "bounded")
