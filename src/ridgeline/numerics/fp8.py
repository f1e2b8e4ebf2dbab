"""fp8 e4m3fn: products and sums that never round, and the one rounding at the end.

Every finite value is a multiple of 2^-9 below 2^9, so a product is a multiple of 2^-18 below 2^18:
an integer below 2^36 in units of 2^-18. Up to 2^15 of them fit 52 bits, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.formats import BF16, FP8_E4M3, FP32, DType
from ridgeline.numerics.matmul import exact_slice
from ridgeline.numerics.rounding import IntArray, bit_length, shift_right_half_even, wrap

UNIT = 2.0**-18
"""What one step of a product or sum is worth."""

ACCUMULATOR_BITS = 52
"""Two's complement, without the flag of NaN."""

EXACT_TERMS = 1 << 15
"""So many products always fit the accumulator."""

_LARGEST_INTEGER = 14 << 14
"""448, the largest value, in units of 2^-9."""


@dataclass(frozen=True, slots=True, eq=False)
class Fp8Sums:
    """Sums in units of 2^-18, each with whether it is NaN; a NaN's value says nothing."""

    units: IntArray
    nan: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Target:
    """A format that sums are rounded to: bits of its significand, 2^(its denormals' step)."""

    dtype: DType
    significand_bits: int
    lowest_step: int
    largest: float


_TARGETS = {
    target.dtype.name: target
    for target in (
        _Target(FP32, 24, -149, float(np.finfo(np.float32).max)),
        _Target(BF16, 8, -133, 2.0**128 - 2.0**120),
        _Target(FP8_E4M3, 4, -9, 448.0),
    )
}


def _integers() -> IntArray:
    code = np.arange(256)
    exponent, fraction = (code >> 3) & 15, code & 7
    magnitude = np.where(exponent == 0, fraction, (8 + fraction) << np.maximum(exponent - 1, 0))
    magnitude[(code & 127) == 127] = 0
    return np.where(code >= 128, -magnitude, magnitude).astype(np.int64)


_INTEGERS = _integers()


def fp8_integers(values: npt.NDArray[Any]) -> Fp8Sums:
    """e4m3fn values, or their bytes as uint8, in units of 2^-9; NaN as 0 with its flag."""
    code = np.ascontiguousarray(values).view(np.uint8)
    return Fp8Sums(_INTEGERS[code], (code & 127) == 127)


def fp8_products(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Fp8Sums:
    """Element by element, exact: units of 2^-18."""
    left, right = fp8_integers(a), fp8_integers(b)
    return Fp8Sums(left.units * right.units, left.nan | right.nan)


def fp8_matmul_exact(
    a: npt.NDArray[Any], b: npt.NDArray[Any], accumulator: Fp8Sums | None = None
) -> Fp8Sums:
    """a [m, k] times b [k, n] of e4m3fn, added to `accumulator` [m, n] (zeros when absent).

    Exact for up to EXACT_TERMS products a sum; beyond, what 52 bits keep of it. A NaN among a sum's
    operands or in its accumulator makes it NaN. The order of the products means nothing.
    """
    left, right = fp8_integers(a), fp8_integers(b)
    # float64 holds 2^53: BLAS is exact for sums of up to 171,196 products.
    _, terms = exact_slice(_LARGEST_INTEGER**2)
    rows, cols = left.units.astype(np.float64), right.units.astype(np.float64)
    units = np.zeros((rows.shape[0], cols.shape[1]), np.int64)
    for start in range(0, rows.shape[1], terms):
        part = np.matmul(rows[:, start : start + terms], cols[start : start + terms])
        units += part.astype(np.int64)
    nan = np.logical_or.outer(np.any(left.nan, axis=1), np.any(right.nan, axis=0))
    if accumulator is not None:
        units, nan = units + accumulator.units, nan | accumulator.nan
    return Fp8Sums(wrap(units, ACCUMULATOR_BITS), nan)


def round_fp8_sums(sums: Fp8Sums, target: DType, *, saturate: bool = True) -> npt.NDArray[Any]:
    """The sums in fp32, bf16 or fp8_e4m3fn, rounded once, half to even; an array of that format.

    fp8 has denormals and no infinity: what rounds beyond 448 becomes 448 of its sign, or NaN
    without `saturate`. A sum of 0 is +0; one that rounds to 0 keeps its sign. Raises KeyError for
    another format.
    """
    into = _TARGETS[target.name]
    magnitude = np.abs(sums.units)
    shift = np.maximum(bit_length(magnitude) - into.significand_bits, into.lowest_step + 18)
    shift = np.maximum(shift, 0)
    rounded = shift_right_half_even(magnitude, shift) << shift
    real = rounded.astype(np.float64) * UNIT
    real = np.where(real > into.largest, into.largest if saturate else np.nan, real)
    real = np.copysign(real, np.where(sums.units < 0, -1.0, 1.0))
    return np.where(sums.nan, np.nan, real).astype(target.numpy)
