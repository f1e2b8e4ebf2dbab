"""One lane of requantisation as a pipeline, in the machine's way (`numerics.requantize.MODES`).

"onnxruntime": an int32 sum times a float32 scale with float32's two roundings, then the rounding to
an integer, all half to even (`requantize_integer`). "fixed-point-31": the exact product, rounded
once, half up, without what normalises and rounds to 24 bits. Only integers are involved.
"""

from __future__ import annotations

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.numerics.requantize import DEFAULT_MODE
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.shape import SUM_BITS

STAGES = 12
"""Cycles from the accumulator's value to the stored integer."""

SCALE_STAGE = 5
"""The scale is looked at so many cycles after the accumulator's value, with the bias."""

REAL_STAGE = 9
"""What takes the place of the product by the scale is looked at then."""

BOUND_STAGE = 10
"""The zero point is looked at then, the limits one cycle later."""

POINT_BITS = 7
"""Of where an integer's point lies in a product: see `point_of`."""

FACTOR_BITS = 12
"""Of the halves in which significands are multiplied: whole DSP blocks, and short sums behind."""

_SATURATED = 1 << 19
"""Beyond every limit, which have 17 bits."""


class RequantizeLane(wiring.Component):
    """bits of `accumulator` and `bias` (cycle 0), `scale` (cycle 5), limits -> `stored` (12).

    With `real` (cycle 9) the number `real_significand` with its point at `real_point` (`point_of`)
    goes the rest of the way.
    """

    def __init__(self, mode: str = DEFAULT_MODE, stored_bits: int = 8) -> None:
        if mode not in _WAYS:
            raise ValueError(f"no lane requantises in mode '{mode}'")
        self.mode = mode
        super().__init__(
            {
                "accumulator": In(signed(SUM_BITS)),
                "bias": In(signed(SUM_BITS)),
                "scale": In(32),
                "real": In(1),
                "real_negative": In(1),
                "real_significand": In(24),
                "real_point": In(POINT_BITS),
                "zero_point": In(signed(stored_bits + 1)),
                "low": In(signed(17)),
                "high": In(signed(17)),
                "stored": Out(stored_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = register(m, (self.accumulator + self.bias)[:SUM_BITS], "total")
        negative = total[-1]
        magnitude = register(m, Mux(negative, -total, total)[:SUM_BITS], "magnitude")
        sign = delay(m, negative, REAL_STAGE - 1, "sign")
        whole, up = _WAYS[self.mode](self, m, magnitude, sign)
        minus = register(m, Mux(self.real, self.real_negative, sign), "minus")
        # zero point - (whole + up) = zero point + ~whole + not up: one sum with a carry.
        upwards: Bits = Cat(whole, 0)
        turned = named(m, Mux(minus, ~upwards, upwards).as_signed(), "turned")
        total_and_carry = Cat(1, turned).as_signed() + Cat(up ^ minus, self.zero_point).as_signed()
        stored = register(m, total_and_carry[1:].as_signed(), "offset")
        bounded = Mux(stored < self.low, self.low, Mux(stored > self.high, self.high, stored))
        m.d.comb += self.stored.eq(register(m, bounded[: len(self.stored)], "bounded"))
        return m

    def in_float32(self, m: Module, magnitude: Bits, sign: Bits) -> tuple[Bits, Bits]:
        """The nearest integer to float32's product, and whether to add one; from cycle 2 to 10."""
        kept, zeros = self._normalise(m, magnitude)
        carry = rounds_up(kept[7], kept[:7].any(), kept[8])
        fraction = register(m, kept[8:] + carry, "fraction")
        product, exponent = self._multiply(m, fraction, zeros)
        rounded, point = self._round_product(m, product, exponent)
        return nearest_integer(
            m,
            named(m, Mux(self.real, self.real_significand, rounded), "value"),
            named(m, Mux(self.real, self.real_point, point), "value_point"),
        )

    def in_fixed_point(self, m: Module, magnitude: Bits, sign: Bits) -> tuple[Bits, Bits]:
        """The integer below the exact product, and whether to add one; from cycle 2 to 10."""
        whole, up = self._fixed_point(m, magnitude, sign)
        real_whole, real_up = nearest_integer(m, self.real_significand, self.real_point)
        real = register(m, self.real, "real_later")
        return (
            named(m, Mux(real, real_whole, whole), "whole_chosen"),
            named(m, Mux(real, real_up, up), "up_chosen"),
        )

    def _fixed_point(self, m: Module, magnitude: Bits, sign: Bits) -> tuple[Bits, Bits]:
        value = delay(m, magnitude, SCALE_STAGE - 2, "factor")
        significand = Cat(self.scale[:23], Const(1, 1))
        shift = register(m, (150 - self.scale[23:31]).as_signed(), "shift")
        amount = Mux(shift > 57, 57, shift[:6])
        # A product is 0 or at least 2^23, so below 5 places it is beyond every limit.
        beyond = register(m, shift < 5, "beyond_1")
        product = register(m, (value * significand)[:56], "product")
        product = register(m, product, "product_2")
        amount = register(m, amount, "amount_1")
        # First by eights, to 8 bits below the point and whether anything lies below those.
        places = named(m, Cat(Const(0, 3), amount[3:]), "eights")
        wide = named(m, named(m, Cat(Const(0, 64), product), "below") >> places, "by_eights")
        coarse = register(m, wide[56:], "coarse")
        sticky = register(m, wide[:56].any(), "coarse_sticky")
        few = register(m, amount[:3], "amount_2")
        beyond = register(m, beyond & product.any(), "beyond_2")
        fine = named(m, Cat(Const(0, 7), coarse) >> few, "by_ones")
        whole = register(m, fine[15:35], "whole_below")
        up = register(m, fine[14], "half")
        more = register(m, sticky | fine[:14].any(), "more_than_half")
        beyond = register(m, beyond | fine[34:].any(), "beyond_3")
        # Half up: away from 0 unless the sum is negative and exactly half.
        carry = rounds_half_up(up, more, sign) & ~beyond
        return (
            register(m, Mux(beyond, _SATURATED, whole), "whole_fixed"),
            register(m, carry, "whole_fixed_up"),
        )

    @staticmethod
    def _normalise(m: Module, magnitude: Bits) -> tuple[Bits, Bits]:
        """The magnitude shifted left until its top bit is set, in two stages; and by how much."""
        zeros: list[Bits] = []
        value = magnitude
        for step, amount in enumerate((16, 8, 4, 2, 1)):
            empty = named(m, ~value[SUM_BITS - amount :].any(), f"empty_{amount}")
            value = named(
                m,
                Mux(empty, Cat(Const(0, amount), value[: SUM_BITS - amount]), value),
                f"shifted_{amount}",
            )
            zeros.insert(0, empty)
            if step in (1, 4):
                value = register(m, value, f"normal_{amount}")
                zeros = [register(m, z, f"zeros_{amount}_{i}") for i, z in enumerate(zeros)]
        return value, Cat(*zeros)

    def _multiply(self, m: Module, fraction: Bits, zeros: Bits) -> tuple[Bits, Bits]:
        """The 48-bit product, two stages deep, and the right shift that it would need whole."""
        significand = Cat(self.scale[:23], Const(1, 1))
        parts = {
            (i, j): register(m, x * y, f"product_{i}_{j}")
            for i, x in enumerate((fraction[:FACTOR_BITS], fraction[FACTOR_BITS:]))
            for j, y in enumerate((significand[:FACTOR_BITS], significand[FACTOR_BITS:]))
        }
        middle = named(m, parts[0, 1] + parts[1, 0], "product_middle")
        outer = Cat(parts[0, 0], parts[1, 1])
        product = named(m, (outer + (middle << FACTOR_BITS))[:48], "product_whole")
        # value = fraction * 2^(8 - zeros), scale = significand * 2^(field - 150)
        shift = 142 + register(m, zeros, "zeros") - self.scale[23:31]
        exponent = register(m, shift.as_signed()[:10].as_signed(), "shift_whole")
        return (
            register(m, product, "product"),
            register(m, exponent, "shift_whole_2"),
        )

    def _round_product(self, m: Module, product: Bits, exponent: Bits) -> tuple[Bits, Bits]:
        """The product rounded to 24 bits (25 when it carries), and where its point lies."""
        long = product[47]
        upper = Mux(long, product[24:48], product[23:47])
        guard = Mux(long, product[23], product[22])
        sticky = product[:22].any() | (long & product[22])
        kept = register(m, upper, "kept")
        up = register(m, rounds_up(guard, sticky, upper[0]), "kept_up")
        left = register(m, exponent - 23 - long, "shift_left_over")
        return register(m, kept + up, "rounded"), register(m, point_of(m, left), "point")


def rounds_half_up(guard: Bits, sticky: Bits, negative: Bits) -> Bits:
    """Of a magnitude: `guard` is the first bit dropped, `sticky` whether any after it is set."""
    return guard & (sticky | ~negative)


def rounds_up(guard: Bits, sticky: Bits, odd: Bits) -> Bits:
    """Half to even: `guard` is the first bit dropped, `sticky` whether any after it is set."""
    return guard & (sticky | odd)


def point_of(m: Module, shift: Bits) -> Bits:
    """How far to shift (5 bits, 31 for nothing left), whether nothing is left, whether the shift is
    below 5.
    """
    nothing = named(m, shift > 25, "point_nothing")
    return Cat(Mux(nothing, 31, shift[:5]), nothing, shift < 5)


def nearest_integer(m: Module, rounded: Bits, point: Bits) -> tuple[Bits, Bits]:
    """rounded / 2^shift as an integer and whether to add one, a cycle later; `rounded` has 25 bits
    and is 0 or at least 2^23. Far beyond the limits where the shift is below 5.
    """
    amount, nothing, is_low = point[:5], point[5], point[6]
    huge = named(m, is_low & rounded[23:].any(), "huge")
    # One bit below the point, and whether anything lies below that.
    wide = named(m, Cat(Const(0, 25), rounded) >> amount, "shifted_wide")
    whole, below = wide[25:45], wide[:25]
    rest = [below[low : min(low + 4, 24)].any() for low in range(0, 24, 4)]
    kept = register(m, Mux(huge, _SATURATED, whole), "whole")
    guard = register(m, below[24] & ~huge & ~nothing, "guard")
    # The last step of the rounding waits a cycle: `any` of so many bits is a stage of its own.
    return kept, rounds_up(guard, register(m, Cat(*rest), "rest").any(), kept[0])


_Way = Callable[[RequantizeLane, Module, Bits, Bits], tuple[Bits, Bits]]

_WAYS: dict[str, _Way] = {
    "onnxruntime": RequantizeLane.in_float32,
    "fixed-point-31": RequantizeLane.in_fixed_point,
}
"""How a lane comes from a magnitude to an integer, for each of `numerics.requantize.MODES`."""
