"""bf16 × bf16 + fp32 against fractions, against loops over scalars, and on its edges."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from mac_vectors import bf16_vectors
from ridgeline.numerics.bf16 import NAN_BITS, add_flushed, bf16_matmul_ordered, bf16_multiply_add


def fraction_of(bits, fraction_bits):
    """What a binary number with 8 bits of exponent means: a Fraction, or "inf", "nan"; its sign."""
    exponent = bits >> fraction_bits & 255
    fraction = bits & ((1 << fraction_bits) - 1)
    sign = -1 if bits >> (8 + fraction_bits) else 1
    if exponent == 255:
        return sign, "nan" if fraction else "inf"
    if exponent == 0:
        return sign, Fraction(0)
    whole = (1 << fraction_bits) + fraction
    return sign, whole * Fraction(2) ** (exponent - 127 - fraction_bits)


def float32_of(sign, magnitude):
    """Bits of the float32 nearest to a magnitude, flushed: rounding by whole numbers alone."""
    if magnitude == 0:
        return (sign < 0) << 31
    exponent = 0
    while magnitude >= 2:
        magnitude, exponent = magnitude / 2, exponent + 1
    while magnitude < 1:
        magnitude, exponent = magnitude * 2, exponent - 1
    whole = round(magnitude * 2**23)
    if whole == 2**24:
        whole, exponent = 2**23, exponent + 1
    if exponent > 127:
        return (sign < 0) << 31 | 0x7F800000
    if exponent < -126:
        return (sign < 0) << 31
    return (sign < 0) << 31 | (exponent + 127) << 23 | (whole - 2**23)


def product_of(a, b):
    (sign_a, left), (sign_b, right) = fraction_of(a, 7), fraction_of(b, 7)
    sign = sign_a * sign_b
    if "nan" in (left, right) or ("inf" in (left, right) and 0 in (left, right)):
        return int(NAN_BITS)
    if "inf" in (left, right):
        return (sign < 0) << 31 | 0x7F800000
    return float32_of(sign, left * right)


def sum_of(x, y):
    (sign_x, left), (sign_y, right) = fraction_of(x, 23), fraction_of(y, 23)
    if "nan" in (left, right) or (left == right == "inf" and sign_x != sign_y):
        return int(NAN_BITS)
    if left == "inf" or right == "inf":
        return (x if left == "inf" else y) & 0xFF800000
    total = sign_x * left + sign_y * right
    both_negative = sign_x < 0 and sign_y < 0
    return float32_of(-1 if total < 0 or (total == 0 and both_negative) else 1, abs(total))


def test_a_step_is_that_of_fractions():
    a, b, total = bf16_vectors(20_000, seed=1)
    got = bf16_multiply_add(a, b, total).view(np.uint32)
    words = (a.view(np.uint16), b.view(np.uint16), total.view(np.uint32))
    for row, (x, y, addend) in enumerate(zip(*(w.tolist() for w in words), strict=True)):
        assert got[row] == sum_of(addend, product_of(x, y)), (hex(x), hex(y), hex(addend))


def test_a_sum_is_that_of_fractions():
    _, _, x = bf16_vectors(5_000, seed=2)
    _, _, y = bf16_vectors(5_000, seed=3)
    got = add_flushed(x, y).view(np.uint32)
    for row, (left, right) in enumerate(zip(x.view(np.uint32), y.view(np.uint32), strict=True)):
        assert got[row] == sum_of(int(left), int(right))


def one_by_one(a, b, tile_rows, start):
    """bf16_matmul_ordered as loops over scalars."""
    smallest = np.float32(2.0**-126)

    def flush(value):
        return value if abs(value) >= smallest else np.copysign(np.float32(0), value)

    made = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i, j in np.ndindex(*made.shape):
        total = None if start is None else start[i, j]
        for first in range(0, a.shape[1], tile_rows):
            tile = np.float32(0)
            for step in range(first, min(first + tile_rows, a.shape[1])):
                product = flush(flush(np.float32(a[i, step])) * flush(np.float32(b[step, j])))
                tile = flush(tile + product)
            total = tile if total is None else flush(total + tile)
        made[i, j] = total
    return made


@pytest.mark.parametrize("tile_rows", [1, 4, 7, 40])
@pytest.mark.parametrize("exponents", [(-3, 3), (-55, -49), (-70, -50), (-130, 20)])
def test_order_of_products_and_of_tiles(exponents, tile_rows):
    rng = np.random.default_rng(4)

    def operand(shape):
        return (rng.normal(size=shape) * np.exp2(rng.integers(*exponents, shape))).astype(
            ml_dtypes.bfloat16
        )

    a, b = operand((4, 33)), operand((33, 5))
    start = rng.normal(size=(4, 5)).astype(np.float32) * np.float32(2.0 ** exponents[0])
    for accumulator in (None, start):
        with np.errstate(under="ignore"):
            expected = one_by_one(a, b, tile_rows, accumulator)
        got = bf16_matmul_ordered(a, b, tile_rows, accumulator)
        np.testing.assert_array_equal(got.view(np.int32), expected.view(np.int32))


def test_sums_at_the_edge_of_what_is_flushed():
    """Operands whose products are multiples of 2^-126, and of half that."""
    for lowest in (-56, -57):
        values = np.ldexp([1.0, 1 + 2.0**-7, 1.5], [lowest, lowest, lowest + 3])
        a = np.asarray([values, -values, values[::-1]]).astype(ml_dtypes.bfloat16)
        b = np.asarray([values, -values[::-1], values * 2]).astype(ml_dtypes.bfloat16)
        expected = one_by_one(a, b, 3, None)
        got = bf16_matmul_ordered(a, b, 3)
        np.testing.assert_array_equal(got.view(np.int32), expected.view(np.int32))


def test_order_matters():
    a = np.asarray([[1, 2.0**-24, 2.0**-24]], ml_dtypes.bfloat16)
    ones = np.ones((3, 1), ml_dtypes.bfloat16)
    assert bf16_matmul_ordered(a, ones, 3) == 1
    assert bf16_matmul_ordered(a[:, ::-1], ones, 3) > 1
    # Tiles matter as well: the two small ones meet before they meet the large one.
    assert bf16_matmul_ordered(a, ones, 1) == 1
    assert bf16_matmul_ordered(a[:, ::-1], ones, 2) > 1
    assert bf16_matmul_ordered(np.roll(a, 1), ones, 2) == 1


def test_nothing_to_sum():
    empty = np.zeros((2, 0), ml_dtypes.bfloat16)
    assert not bf16_matmul_ordered(empty, empty.T, 4).any()


def test_nan_is_one_nan_and_negative_zero_stays():
    infinite = np.asarray([[np.inf, -np.inf]], ml_dtypes.bfloat16)
    got = bf16_matmul_ordered(infinite, np.ones((2, 1), ml_dtypes.bfloat16), 2)
    assert got.view(np.uint32) == NAN_BITS
    tiny = np.full((1, 1), -(2.0**-70), ml_dtypes.bfloat16)
    first = bf16_multiply_add(tiny, -tiny, np.float32([-0.0]))
    assert first.view(np.uint32) == 1 << 31
