"""fp8 e4m3fn against ml_dtypes, Python's integers and fractions."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ridgeline.numerics.formats import BF16, FP8_E4M3, FP16, FP32
from ridgeline.numerics.fp8 import (
    ACCUMULATOR_BITS,
    EXACT_TERMS,
    UNIT,
    Fp8Sums,
    fp8_integers,
    fp8_matmul_exact,
    fp8_products,
    round_fp8_sums,
)

E4M3 = ml_dtypes.float8_e4m3fn
CODES = np.arange(256, dtype=np.uint8)
REAL = CODES.view(E4M3).astype(np.float64)


def random_codes(rng, shape, nan_share=0.0):
    codes = rng.integers(0, 256, shape, np.uint8)
    codes[(codes & 127) == 127] ^= 1
    return np.where(rng.random(shape) < nan_share, np.uint8(127), codes)


def test_every_value_is_that_of_ml_dtypes():
    whole = fp8_integers(CODES)
    np.testing.assert_array_equal(whole.nan, np.isnan(REAL))
    np.testing.assert_array_equal(whole.units * 2.0**-9, np.where(whole.nan, 0, REAL))


def test_every_product_of_two():
    got = fp8_products(CODES[:, None], CODES[None, :])
    exact = REAL[:, None] * REAL[None, :]
    np.testing.assert_array_equal(got.nan, np.isnan(exact))
    np.testing.assert_array_equal((got.units * UNIT)[~got.nan], exact[~got.nan])
    assert abs(got.units).max() < 1 << 36


@pytest.mark.parametrize("k", [0, 1, 9, 500, EXACT_TERMS])
def test_sums_are_those_of_pythons_integers(k):
    rng = np.random.default_rng(k)
    a, b = random_codes(rng, (3, k), 0.2 / max(k, 1)), random_codes(rng, (k, 4), 0.2 / max(k, 1))
    if k:
        a[0], b[:, 0] = 126, 126
        a[1], b[:, 1] = 126, 254
    got = fp8_matmul_exact(a.view(E4M3), b.view(E4M3))
    for i, j in np.ndindex(3, 4):
        pair = np.isnan(REAL[a[i]] * REAL[b[:, j]])
        assert got.nan[i, j] == pair.any()
        if not pair.any():
            terms = zip(REAL[a[i]].tolist(), REAL[b[:, j]].tolist(), strict=True)
            assert got.units[i, j] == sum(int(x * 512) * int(y * 512) for x, y in terms)
    limit = 1 << (ACCUMULATOR_BITS - 1)
    assert abs(got.units).max() < limit


def test_any_order_and_any_tiles():
    rng = np.random.default_rng(2)
    a, b = random_codes(rng, (5, 300)), random_codes(rng, (300, 6))
    whole = fp8_matmul_exact(a, b)
    order = rng.permutation(300)
    parts = fp8_matmul_exact(a[:, order[:77]], b[order[:77]])
    parts = fp8_matmul_exact(a[:, order[77:]], b[order[77:]], parts)
    np.testing.assert_array_equal(parts.units, whole.units)


def test_beyond_the_accumulator_52_bits_are_kept():
    terms = 200_000
    largest = np.full((1, terms), 126, np.uint8)
    got = fp8_matmul_exact(largest, largest.T)
    exact = terms * (14 << 14) ** 2
    assert exact >= 1 << (ACCUMULATOR_BITS - 1)
    assert (exact - int(got.units[0, 0])) % (1 << ACCUMULATOR_BITS) == 0


def test_nan_stays():
    nan = fp8_products(np.asarray([[127]], np.uint8), np.asarray([[0]], np.uint8))
    more = fp8_matmul_exact(np.zeros((1, 3), np.uint8), np.zeros((3, 1), np.uint8), nan)
    assert more.nan.all()
    assert np.isnan(round_fp8_sums(more, FP32)).all()


def sums_to_round(rng, count):
    """Sums of every size, halves of every last place and their neighbours."""
    bits = rng.integers(0, ACCUMULATOR_BITS - 1, count)
    units = rng.integers(0, 1 << bits, endpoint=True)
    cut = np.maximum(bits - rng.choice([4, 8, 24], count), 1)
    halves = (units >> cut << cut) + (np.int64(1) << (cut - 1)) + rng.integers(-1, 2, count)
    units = np.where(rng.random(count) < 0.5, halves, units)
    return np.where(rng.random(count) < 0.5, -units, units)


TARGETS = [
    (FP32, 24, -149, None),
    (BF16, 8, -133, None),
    (FP8_E4M3, 4, -9, 448),
]


@pytest.mark.parametrize(("target", "significand_bits", "lowest_step", "largest"), TARGETS)
def test_one_rounding(target, significand_bits, lowest_step, largest):
    units = sums_to_round(np.random.default_rng(7), 20_000)
    sums = Fp8Sums(units, np.zeros(units.shape, np.bool_))
    got = round_fp8_sums(sums, target)
    assert got.dtype == target.numpy
    wild = round_fp8_sums(sums, target, saturate=False)
    for unit, value, other in zip(units.tolist(), got.tolist(), wild.tolist(), strict=True):
        magnitude = Fraction(abs(unit), 1 << 18)
        length = abs(unit).bit_length() - 18
        step = Fraction(2) ** max(length - significand_bits, lowest_step)
        expected = round(magnitude / step) * step
        if largest is not None and expected > largest:
            assert abs(value) == largest
            assert np.isnan(other)
            continue
        assert Fraction(abs(value)) == expected
        assert other == value
        assert np.signbit(value) == (unit < 0)


def test_float32_is_that_of_the_processor():
    units = sums_to_round(np.random.default_rng(8), 100_000)
    got = round_fp8_sums(Fp8Sums(units, np.zeros(units.shape, np.bool_)), FP32)
    np.testing.assert_array_equal(got, (units * UNIT).astype(np.float32))


def test_fp8_is_that_of_ml_dtypes():
    """Where float32 holds the sum, so that ml_dtypes rounds it once."""
    rng = np.random.default_rng(9)
    units = rng.integers(-(1 << 23), 1 << 23, 100_000)
    got = round_fp8_sums(Fp8Sums(units, np.zeros(units.shape, np.bool_)), FP8_E4M3)
    expected = (units * UNIT).astype(np.float32).astype(E4M3)
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))


def test_another_format_is_refused():
    with pytest.raises(KeyError, match="fp16"):
        round_fp8_sums(fp8_products(CODES, CODES), FP16)
