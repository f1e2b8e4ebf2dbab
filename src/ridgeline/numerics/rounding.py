"""Exact rounding of integers and of float32 multiply-adds: the primitives of every other room.

Round half to even throughout, as IEEE 754's default, unless a name says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]

SIGNIFICAND_BITS = 24
_EXPONENT = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)


def bit_length(magnitude: npt.NDArray[np.int64]) -> IntArray:
    """Bits needed for each non-negative integer below 2^63; 0 needs none."""
    _, exponent = np.frexp(magnitude.astype(np.float64))
    length = exponent.astype(np.int64)
    # Beyond 2^53 the conversion may round up to the next power of two: one bit too many.
    too_long = (length > 53) & ((magnitude >> np.maximum(length - 1, 0)) == 0)
    return length - too_long


def shift_right_half_even(magnitude: IntArray, shift: IntArray | int) -> IntArray:
    """round(magnitude / 2^shift), half to even. magnitude in [0, 2^62), shift in [0, 62]."""
    quotient = magnitude >> shift
    twice_rest = (magnitude - (quotient << shift)) << 1
    unit = np.left_shift(np.int64(1), shift)
    up = (twice_rest > unit) | ((twice_rest == unit) & ((quotient & 1) == 1) & (shift > 0))
    return quotient + up


def shift_right_half_up(value: IntArray, shift: IntArray | int) -> IntArray:
    """floor(value / 2^shift + 1/2). |value| below 2^62, shift in [1, 62]."""
    return (value + np.left_shift(np.int64(1), np.asarray(shift) - 1)) >> shift


def saturate(value: npt.NDArray[Any], low: int, high: int) -> npt.NDArray[Any]:
    """The nearest value within [low, high]."""
    return np.clip(value, low, high)


def wrap(value: IntArray, bits: int) -> IntArray:
    """The two's-complement value that `bits` bits keep of each int64 (1 to 64 bits)."""
    spare = 64 - bits
    return (value << spare) >> spare


def fused_multiply_add(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> FloatArray:
    """a * b + c of float32 with a single rounding, as the FMA instruction gives it.

    The product of two float32 is exact in float64. The sum is made in float64 rounded to odd
    (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums"), so that the final
    conversion to float32 is the only rounding. Finite operands, no overflow.
    """
    product = np.asarray(a, np.float32).astype(np.float64) * np.asarray(b, np.float32)
    addend = np.asarray(c, np.float32).astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    if not error.any():
        return total.astype(np.float32)
    even = (np.atleast_1d(total).view(np.int64).reshape(total.shape) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even, np.nextafter(total, toward), total)
    return odd.astype(np.float32)


def flush_denormals(value: FloatArray) -> FloatArray:
    """float32 with every magnitude below 2^-126 replaced by a zero of the same sign."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    return np.where((bits & _EXPONENT) == 0, bits & _SIGN, bits).view(np.float32)
