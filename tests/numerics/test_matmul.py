from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.numerics.matmul import (
    exact_slice,
    integer_matmul,
    sliced_matmul,
)
from ridgeline.numerics.rounding import wrap


@pytest.mark.parametrize("k", [1, 7, 513, 514, 515, 1024, 1025, 5000])
@pytest.mark.parametrize(("a_low", "a_high", "b_low", "b_high"), [
    (-128, 127, -128, 127), (-255, 255, -128, 127), (0, 255, 0, 255), (-255, 255, -255, 255),
    (-32768, 32767, -128, 127), (-65535, 65535, -255, 255), (-32768, 32767, -32768, 32767),
])  # fmt: skip
def test_random_and_extreme_operands_are_exact(k, a_low, a_high, b_low, b_high):
    rng = np.random.default_rng(k)
    a = rng.integers(a_low, a_high + 1, (3, k))
    b = rng.integers(b_low, b_high + 1, (k, 4))
    a[1], b[:, 1] = a_high, b_high
    a[2], b[:, 2] = a_low, b_low
    expected = a @ b
    got = integer_matmul(a.astype(np.int32), b.astype(np.int32), 48)
    np.testing.assert_array_equal(got, wrap(expected, 48))
    narrow = integer_matmul(a, b, 32)
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, wrap(expected, 32))


@pytest.mark.parametrize("k", [1, 514, 515, 1024, 1028, 1029, 5000])
@pytest.mark.parametrize(("largest_a", "largest_b"), [(255, 128), (128, 128), (32768, 128)])
def test_slices_hold_the_largest_sums(k, largest_a, largest_b):
    rng = np.random.default_rng(k)
    a = rng.choice([-largest_a, largest_a], (3, k))
    b = rng.choice([-largest_b, largest_b], (k, 4))
    # All of one sign, less one: a sum one beyond 2^24 has no float32 of its own.
    a[1], b[:, 1] = largest_a, largest_b
    a[1, 0] -= 1
    kind, length = exact_slice(largest_a * largest_b)
    wide = np.zeros((3, k + 5), kind)
    left = wide[:, 2 : k + 2]
    left[...] = a
    out = np.empty((3, 4), kind)
    got = sliced_matmul(left, b.astype(kind), length, out)
    np.testing.assert_array_equal(got.astype(np.int64), a @ b)
    assert (got is out) == (k <= length)


@given(st.integers(0, 2**32), st.integers(8, 48), st.integers(1, 40))
def test_wraps_to_the_accumulators_width(seed, bits, k):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-32768, 32768, (2, k)), rng.integers(-128, 128, (k, 3))
    np.testing.assert_array_equal(integer_matmul(a, b, bits), wrap(a @ b, bits))


def test_batches_and_empty_operands():
    a = np.ones((2, 3, 4, 0), np.int8)
    assert integer_matmul(a, np.ones((0, 5), np.int8)).shape == (2, 3, 4, 5)
    assert not integer_matmul(a, np.ones((0, 5), np.int8)).any()


def test_too_wide_operands():
    wide = np.full((1, 1), 1 << 40)
    with pytest.raises(ValueError, match="do not fit float64's 2\\^53"):
        integer_matmul(wide, wide)
