"""Exact matrix products of integers, through floating-point BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.rounding import wrap

# Integers up to 2^24 (2^53) are exact in float32 (float64), and so is any sum that stays below.
_FLOAT32_EXACT = 1 << 24
_FLOAT64_EXACT = 1 << 53
# Below this many terms a slice, float64 BLAS at half the speed beats many float32 slices.
_WORTHWHILE_SLICE = 128


def integer_matmul(
    a: npt.NDArray[Any], b: npt.NDArray[Any], accumulator_bits: int = 32
) -> npt.NDArray[Any]:
    """a [..., m, k] times b [..., k, n] of integers, exact modulo 2^accumulator_bits.

    Returns int32 for up to 32 accumulator bits, else int64: the two's-complement value that an
    accumulator of that width holds. Products are summed by BLAS in float32 (float64 when operands
    are wide, as int16 by int8) over slices of k short enough that no sum can reach 2^24 (2^53).
    Raises ValueError when even a product of two elements cannot be exact in float64.
    """
    bound = _largest_magnitude(a) * _largest_magnitude(b)
    kind, slice_length = exact_slice(bound)
    left, right = a.astype(kind), b.astype(kind)
    k = left.shape[-1]
    if k <= slice_length:
        return _narrow(np.matmul(left, right).astype(np.int64), accumulator_bits)
    total: npt.NDArray[np.int64] | None = None
    for start in range(0, k, slice_length):
        end = start + slice_length
        part = np.matmul(left[..., start:end], right[..., start:end, :]).astype(np.int64)
        total = part if total is None else total + part
    assert total is not None
    return _narrow(total, accumulator_bits)


def sliced_matmul(
    a: npt.NDArray[Any], b: npt.NDArray[Any], slice_length: int, out: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Exact a [m, k] times b [k, n] of integers held in float32 or float64, without copies.

    `slice_length` terms of a sum cannot round (`exact_slice`). Up to that many the result is `out`
    [m, n], of the operands' type; beyond it is float64, and `out` is working space.
    """
    k = a.shape[1]
    if k <= slice_length:
        return np.matmul(a, b, out=out)
    total = np.zeros(out.shape, np.float64)
    slices = -(-k // slice_length)
    for number in range(slices):
        # As even as they can be: BLAS is slow on a thin last one.
        start, end = k * number // slices, k * (number + 1) // slices
        total += np.matmul(a[:, start:end], b[start:end], out=out)
    return total


def exact_slice(bound: int) -> tuple[type[np.floating[Any]], int]:
    """(BLAS type, terms a slice) for products of magnitude up to `bound`.

    Raises ValueError when float64 does not hold even one.
    """
    bound = max(bound, 1)
    if _FLOAT32_EXACT // bound >= _WORTHWHILE_SLICE:
        return np.float32, _FLOAT32_EXACT // bound
    if bound > _FLOAT64_EXACT:
        raise ValueError(f"products up to {bound} do not fit float64's 2^53")
    return np.float64, _FLOAT64_EXACT // bound


def _largest_magnitude(array: npt.NDArray[Any]) -> int:
    return max(int(array.max()), -int(array.min())) if array.size else 0


def _narrow(total: npt.NDArray[np.int64], bits: int) -> npt.NDArray[Any]:
    if bits > 32:
        return wrap(total, bits)
    return wrap(total, bits).astype(np.int32)
