from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.numerics.rounding import (
    bit_length,
    flush_denormals,
    fused_multiply_add,
    shift_right_half_even,
    shift_right_half_up,
    wrap,
)


@given(st.integers(0, (1 << 63) - 1))
def test_bit_length(value):
    assert bit_length(np.asarray([value])) == value.bit_length()


def test_bit_length_around_powers_of_two():
    values = [max(0, (1 << b) + d) for b in range(63) for d in (-1, 0, 1)]
    expected = [v.bit_length() for v in values]
    np.testing.assert_array_equal(bit_length(np.asarray(values)), expected)


@given(st.integers(0, (1 << 62) - 1), st.integers(0, 62))
def test_shift_right_half_even(value, shift):
    expected = round(Fraction(value, 1 << shift))
    assert shift_right_half_even(np.asarray([value]), shift) == expected


@given(st.integers(-(1 << 61), 1 << 61), st.integers(1, 62))
def test_shift_right_half_up(value, shift):
    expected = (Fraction(value, 1 << shift) + Fraction(1, 2)).__floor__()
    assert shift_right_half_up(np.asarray([value]), shift) == expected


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 64))
def test_wrap(value, bits):
    expected = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    assert wrap(np.asarray([value]), bits) == expected


def nearest_float32(exact: Fraction) -> np.float32:
    """The float32 nearest to a rational, half to even, found among the neighbours of a guess."""
    guess = np.float32(float(exact))
    near = [np.nextafter(guess, np.float32(d)) for d in (-np.inf, np.inf)]

    def rank(candidate: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(candidate)) - exact), int(candidate.view(np.int32)) & 1

    return min([guess, *near], key=rank)


SMALL = st.floats(-(2.0**40), 2.0**40, width=32).filter(lambda v: v == 0 or abs(v) > 2.0**-40)


@given(SMALL, SMALL, SMALL)
def test_fused_multiply_add(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert fused_multiply_add(a, b, c) == nearest_float32(exact)


def test_fused_multiply_add_where_rounding_twice_goes_wrong():
    """c is a tie of float32 and the product is below float64's last bit of it."""
    c = np.float32(1 + 2**-23)
    # (1 + 2^-23)(1 - 2^-23) 2^-24 is 2^-24 but for a part that float64 drops beside c.
    a, b = np.float32(1 + 2**-23), np.float32((1 - 2**-23) * 2**-24)
    for sign in (1, -1):
        exact = Fraction(float(a)) * Fraction(float(b)) * sign + Fraction(float(c))
        assert fused_multiply_add(a, sign * b, c) == nearest_float32(exact)
    naive = (a.astype(np.float64) * b + c).astype(np.float32)
    assert naive != fused_multiply_add(a, b, c)


def test_flush_denormals_keeps_signs():
    tiny = np.float32(2.0**-126)
    values = np.asarray([tiny, tiny / 2, -tiny / 2, -tiny, 0.0, -0.0, 1.0], np.float32)
    flushed = flush_denormals(values)
    np.testing.assert_array_equal(flushed, np.asarray([tiny, 0, 0, -tiny, 0, 0, 1], np.float32))
    np.testing.assert_array_equal(np.signbit(flushed), np.signbit(values))
