from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.numerics.requantize import (
    MODES,
    SumRequantizer,
    requant_scale,
    requantize,
    requantize_integer,
    significand_and_exponent,
)
from ridgeline.numerics.rounding import wrap

RANGES = ((0, 255, 3), (-128, 127, -7), (-128, 127, 0), (-32768, 32767, 100), (0, 65535, 65535))


def accumulators_and_scales(rng, count):
    """Magnitudes of every length to 2^62; scales that land in range, tie, or are extreme."""
    bits = rng.integers(1, 63, count)
    magnitude = rng.integers(0, 1 << 62, count) >> (62 - bits)
    accumulator = magnitude * rng.choice([-1, 1], count)
    landing = rng.uniform(0.01, 300, count) / np.maximum(magnitude, 1)
    extreme = np.exp2(rng.uniform(-150, 60, count))
    scale = np.where(rng.random(count) < 0.8, landing, extreme).astype(np.float32)
    power = np.exp2(np.round(np.log2(np.maximum(scale, 1e-44)))).astype(np.float32)
    return accumulator, np.where(rng.random(count) < 0.25, power, scale)


def test_integer_form_equals_float_form_on_millions():
    rng = np.random.default_rng(1)
    for _ in range(4):
        accumulator, scale = accumulators_and_scales(rng, 200_000)
        parts = significand_and_exponent(scale)
        for low, high, zero in RANGES:
            expected = requantize(accumulator, scale, zero, low, high)
            np.testing.assert_array_equal(
                requantize_integer(accumulator, *parts, zero, low, high), expected
            )


def test_integer_form_on_exact_ties():
    halves = np.arange(-1001, 1002, 2)
    for shift in range(1, 40):
        accumulator = halves << (shift - 1)
        scale = np.float32(2.0**-shift)
        expected = requantize(accumulator, scale, 0, -128, 127)
        got = requantize_integer(accumulator, *significand_and_exponent(scale), 0, -128, 127)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(expected, np.clip(np.rint(halves / 2), -128, 127))


@given(
    st.integers(-(1 << 47), (1 << 47) - 1),
    st.floats(0, 2.0**100, width=32),
    st.sampled_from(RANGES),
)
def test_integer_form_property(accumulator, scale, bounds):
    low, high, zero = bounds
    one = np.asarray([accumulator])
    expected = requantize(one, scale, zero, low, high)
    got = requantize_integer(one, *significand_and_exponent(scale), zero, low, high)
    assert got == expected


def test_scale_per_last_axis():
    accumulator = np.asarray([[100, 100], [-7, -7]])
    scale = np.asarray([0.5, 0.25], np.float32)
    expected = [[50, 25], [-4, -2]]
    np.testing.assert_array_equal(requantize(accumulator, scale, 0, -128, 127), expected)
    parts = significand_and_exponent(scale)
    np.testing.assert_array_equal(requantize_integer(accumulator, *parts, 0, -128, 127), expected)


def test_fixed_point_is_the_exact_product_rounded_half_up():
    rng = np.random.default_rng(3)
    accumulator = rng.integers(-(1 << 31), 1 << 31, 4000)
    scale = np.exp2(rng.uniform(-40, 3, 4000)).astype(np.float32)
    scale[:2000] = np.exp2(np.round(np.log2(scale[:2000])))
    got = requantize(accumulator, scale, 3, -(1 << 40), 1 << 40, "fixed-point-31")
    half = Fraction(1, 2)
    expected = [
        (Fraction(int(a)) * Fraction(float(s)) + half).__floor__() + 3
        for a, s in zip(accumulator, scale, strict=True)
    ]
    np.testing.assert_array_equal(got, expected)


def test_fixed_point_takes_32_bit_accumulators():
    with pytest.raises(ValueError, match="mode 'fixed-point-31' takes 32-bit accumulators"):
        requantize(np.asarray([1 << 31]), 1.0, 0, -128, 127, "fixed-point-31")


@pytest.mark.parametrize("scale", [2.0**30, 3e38, np.inf, np.nan])
def test_fixed_point_saturates_where_the_scale_is_huge(scale):
    sums = np.asarray([-(1 << 31), -1, 0, 1, (1 << 31) - 1])
    made = requantize(sums, scale, 5, -128, 127, "fixed-point-31")
    np.testing.assert_array_equal(made, [-128, -128, 5, 127, 127])


def test_sums_in_floating_point_are_requantised_in_the_mode():
    rng = np.random.default_rng(4)
    sums = rng.integers(-(1 << 22), 1 << 22, (500, 8))
    bias, scale = rng.integers(-999, 999, 8), np.exp2(rng.integers(-16, -9, 8)).astype(np.float32)
    for mode in MODES:
        one = SumRequantizer(
            bias, scale, 3, -128, 127, largest_sum=1 << 22, accumulator_bits=32, mode=mode
        )
        expected = requantize(sums + bias, scale, 3, -128, 127, mode)
        np.testing.assert_array_equal(one.requantize(sums.astype(np.float32)), expected)


def test_unknown_mode():
    message = "no requantisation mode 'nearest'. Known: fixed-point-31, onnxruntime"
    with pytest.raises(ValueError, match=message):
        requantize(np.asarray([1]), 1.0, 0, -128, 127, "nearest")


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_bad_scale(scale):
    with pytest.raises(ValueError, match="a scale must be finite and not negative"):
        significand_and_exponent(scale)


@given(st.floats(0, width=32, allow_infinity=False, allow_nan=False))
def test_significand_and_exponent_are_exact(scale):
    significand, exponent = significand_and_exponent(scale)
    assert Fraction(int(significand)) * Fraction(2) ** int(exponent) == Fraction(scale)
    assert significand == 0 or 1 << 23 <= significand < 1 << 24


def test_requant_scale_multiplies_then_divides_in_float32():
    a, w, y = np.float32(0.1), np.asarray([0.3, 0.7], np.float32), np.float32(0.9)
    expected = [np.float32(np.float32(a * w[0]) / y), np.float32(np.float32(a * w[1]) / y)]
    np.testing.assert_array_equal(requant_scale(a, w, y), expected)
    assert requant_scale(a, w, y).dtype == np.float32


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bias_bits", [0, 12, 23, 24, 30, 31])
@pytest.mark.parametrize("sum_bits", [8, 23, 24])
def test_sums_in_floating_point_are_requantised_to_the_same(sum_bits, bias_bits, kind):
    """Beside `requantize`; with large biases the 32-bit accumulator wraps."""
    rng = np.random.default_rng([sum_bits, bias_bits])
    largest = 1 << sum_bits
    sums = rng.integers(-largest, largest, (400, 60), endpoint=True)
    bias = rng.integers(-(1 << bias_bits), 1 << bias_bits, 60)
    scale = (rng.random(60) * 2.0 ** rng.integers(-sum_bits - 4, 4, 60)).astype(np.float32)
    scale[:8] = [0, 1e-45, 1e-38, 0.5, 1, 3e38, 2.0**-31, 0.25]
    for zero_point, low, high in ((0, 0, 255), (-128, -128, 127), (7, 3, 90), (0, -32768, 32767)):
        one = SumRequantizer(
            bias, scale, zero_point, low, high, largest_sum=largest, accumulator_bits=32
        )
        made = one.requantize(sums.astype(kind))
        wrapped = wrap(sums + bias, 32)
        expected = requantize(wrapped, scale, zero_point, low, high)
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made, expected)
