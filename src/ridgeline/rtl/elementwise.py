"""One lane of real numbers: QLinearAdd and QLinearMul with ONNX Runtime's float32 roundings.

One fused multiply-add, which every pair of operands passes twice: operands come through one port,
so a pair every other cycle, and the second pass falls into the cycles between. add: fma(b, scale_b,
offset), then fma(a, scale_a, that); mul: the product of the integers by scale_a, then its sum with
the offset. See `machine.instructions.Elementwise`, whose bits these are while scales lie in
[2^-64, 2^64].
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.rtl import multiply_add as fused
from ridgeline.rtl.multiply_add import FACTOR_BITS, SIGNIFICAND_BITS, Real, multiply_add, real_of
from ridgeline.rtl.registers import delay, named, register
from ridgeline.rtl.requantize import POINT_BITS, point_of

SECOND_PASS = fused.STAGES - fused.ADDEND_STAGE
"""Cycles from a pair's first pass to its second, which is an odd number."""

STAGES = SECOND_PASS + fused.STAGES + 1
"""Cycles from a pair to its result, the last for its point."""

OPERAND_BITS = 9


class RealLane(wiring.Component):
    """`product` (cycle 0): b of an add, whose a came the cycle before; a * b of a mul. `multiplies`
    and `scale`, a float32, are those of the pass in cycle 0, `second` says which one that is;
    `addend`, a float32 or 0, those of a first pass in cycle 2. The result comes in cycle STAGES.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "product": In(signed(FACTOR_BITS)),
                "second": In(1),
                "multiplies": In(1),
                "scale": In(32),
                "addend": In(32),
                "negative": Out(1),
                "significand": Out(SIGNIFICAND_BITS),
                "point": Out(POINT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        other = delay(m, self.product[:OPERAND_BITS].as_signed(), SECOND_PASS + 1, "other")
        again = named(m, Mux(self.multiplies, 1, other), "again")
        factor = named(m, Mux(self.second, again, self.product), "factor")
        adds = delay(m, self.second, fused.ADDEND_STAGE, "adds")
        addend = real_of(m, self.addend, "addend")
        # A pass's result is the addend of the one that follows it, and that comes just in time.
        exponent = Signal(signed(fused.EXPONENT_BITS), name="result_exponent")
        negative, significand = Signal(), Signal(SIGNIFICAND_BITS)
        chosen = Real(
            named(m, Mux(adds, negative, addend.negative), "added_negative"),
            named(m, Mux(adds, significand, addend.significand), "added_significand"),
            named(m, Mux(adds, exponent, addend.exponent), "added_exponent"),
        )
        scale = real_of(m, self.scale, "scale")
        made = multiply_add(m, factor, scale, chosen, "sum")
        m.d.comb += [
            negative.eq(made.negative),
            significand.eq(made.significand),
            exponent.eq(made.exponent),
            self.negative.eq(register(m, negative, "last_negative")),
            self.significand.eq(register(m, significand, "last_significand")),
            self.point.eq(register(m, point_of(m, -exponent), "last_point")),
        ]
        return m
