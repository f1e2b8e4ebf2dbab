"""bf16 × bf16 + fp32, denormals flushed: one rounding a product, one a sum, in a stated order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.rounding import FloatArray, flush_denormals

NAN_BITS = np.uint32(0x7FC00000)
"""Every NaN that is a result."""

SMALLEST_EXPONENT = -126
"""What is smaller than 2 to its power is flushed."""

_EXPONENT = np.uint32(0x7F800000)


def _canonical(value: FloatArray) -> FloatArray:
    """Every NaN as NAN_BITS."""
    return np.where(np.isnan(value), NAN_BITS.view(np.float32), value)


def _operand(value: npt.NDArray[Any]) -> FloatArray:
    return flush_denormals(np.asarray(value).astype(np.float32))


def _multiply_add(left: FloatArray, right: FloatArray, total: FloatArray) -> FloatArray:
    """Of operands that are flushed."""
    return flush_denormals(total + flush_denormals(left * right))


def bf16_multiply_add(
    a: npt.NDArray[Any], b: npt.NDArray[Any], total: npt.NDArray[Any]
) -> FloatArray:
    """total + a * b element by element: a, b of bfloat16, `total` and the result of float32.

    All three are flushed; the product (16 significant bits: float32 holds it) is flushed; the sum
    is rounded to float32, half to even, and flushed. NaN is NAN_BITS.
    """
    with np.errstate(all="ignore"):
        left, right, addend = (_operand(one) for one in (a, b, total))
        return _canonical(_multiply_add(left, right, addend))


def add_flushed(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> FloatArray:
    """x + y of float32, flushed on both sides, rounded half to even; NaN is NAN_BITS."""
    with np.errstate(all="ignore"):
        return _canonical(flush_denormals(_operand(x) + _operand(y)))


def bf16_matmul_ordered(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    tile_rows: int,
    accumulator: FloatArray | None = None,
) -> FloatArray:
    """a [m, k] times b [k, n] of bfloat16 as an array of `tile_rows` rows computes it: float32.

    A tile is `tile_rows` steps of k, the last one what is left. Its sum starts from +0 and takes
    the products in the order of k (`bf16_multiply_add`). The sums of the tiles are then added in
    their order (`add_flushed`), beginning with `accumulator` [m, n]; without one the first tile's
    sum is itself the beginning. The order is part of the meaning: other orders give other bits.
    """
    left, right = _operand(a), _operand(b)
    depth = left.shape[1]
    total = None if accumulator is None else _operand(accumulator)
    for start in range(0, depth, tile_rows):
        end = min(start + tile_rows, depth)
        tile = _one_tile(left[:, start:end], right[start:end])
        total = tile if total is None else add_flushed(total, tile)
    return np.zeros((left.shape[0], right.shape[1]), np.float32) if total is None else total


def _one_tile(left: FloatArray, right: FloatArray) -> FloatArray:
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    product = np.empty_like(total)
    step_of_sums = _lowest_bit(left) + _lowest_bit(right)
    with np.errstate(all="ignore"):
        for step in range(left.shape[1]):
            if step_of_sums >= SMALLEST_EXPONENT:
                np.multiply(left[:, step, None], right[None, step, :], out=product)
                total += product
            else:
                total = _multiply_add(left[:, step, None], right[None, step, :], total)
    return _canonical(total)


def _lowest_bit(operand: FloatArray) -> int:
    """An exponent such that all bfloat16 in `operand` are multiples of 2 to its power.

    Products, and sums however rounded, are multiples of the product of two such powers: where that
    is 2^-126 or more, nothing but 0 is ever below 2^-126, and nothing need be flushed.
    """
    exponents = operand.view(np.uint32) & _EXPONENT
    present = exponents[exponents != 0]
    return (int(present.min()) >> 23) - 127 - 7 if present.size else 0
