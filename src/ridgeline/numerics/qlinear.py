"""ONNX Runtime's quantised operators that round in float32, restated exactly.

All take and give integers of any integer type, uint8 and int8 alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.requantize import requantize
from ridgeline.numerics.rounding import FloatArray, IntArray, fused_multiply_add


@dataclass(frozen=True, slots=True)
class Scalars:
    """One tensor's float32 scale and its zero point."""

    scale: np.float32
    zero_point: int


def _rounded(value: FloatArray, low: int, high: int) -> IntArray:
    return np.rint(np.clip(value, np.float32(low), np.float32(high))).astype(np.int64)


def qlinear_add(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    quant_a: Scalars,
    quant_b: Scalars,
    output: Scalars,
    low: int,
    high: int,
) -> IntArray:
    """a + b with the broadcast of NumPy, as int64 within [low, high].

    fixed = float32(zp_c - fma(ra, zp_a, float32(rb * zp_b))) with ra = sa / sc, rb = sb / sc, then
    round(fma(a, ra, fma(b, rb, fixed))): two fused multiply-adds, the zero point inside the one
    rounding. Source: ONNX Runtime's AVX2/FMA kernel, measured. When `a` is repeated along
    the innermost dimension in which the shapes are not both 1 (a one-element tensor is), the
    kernel exchanges the operands. Exact while the real quotient is below 2^31.
    """
    if repeats_innermost(a.shape, b.shape):
        a, b, quant_a, quant_b = b, a, quant_b, quant_a
    ratio_a, ratio_b, fixed = add_constants(quant_a, quant_b, output)
    partial = fused_multiply_add(b, ratio_b, fixed)
    return _rounded(fused_multiply_add(a, ratio_a, partial), low, high)


def add_constants(
    a: Scalars, b: Scalars, output: Scalars
) -> tuple[np.float32, np.float32, np.float32]:
    """QLinearAdd's float32 constants (scale of a, scale of b, offset), worked out once.

    The sum is fma(a, scale of a, fma(b, scale of b, offset)), in the output's steps.
    """
    ratio_a, ratio_b = np.float32(a.scale / output.scale), np.float32(b.scale / output.scale)
    zero_b = np.float32(ratio_b * np.float32(b.zero_point))
    zeros = fused_multiply_add(ratio_a, np.float32(a.zero_point), zero_b)
    return ratio_a, ratio_b, np.float32(np.float32(output.zero_point) - zeros)


def repeats_innermost(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether ONNX Runtime's broadcast holds one element of `first` against a run of `second`.

    Decided by the innermost dimension in which the two shapes are not both 1. Two shapes of
    nothing but 1 count as repeated.
    """
    rank = max(len(first), len(second))
    left = (1,) * (rank - len(first)) + first
    right = (1,) * (rank - len(second)) + second
    for one, other in zip(reversed(left), reversed(right), strict=True):
        if one != 1 or other != 1:
            return one == 1
    return True


def qlinear_mul(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    quant_a: Scalars,
    quant_b: Scalars,
    output: Scalars,
    low: int,
    high: int,
) -> IntArray:
    """a * b with the broadcast of NumPy, as int64 within [low, high].

    round(float32(zp_c + float32((a - zp_a)(b - zp_b) * r))), r = float32(float32(sa * sb) / sc).
    Exact while the real quotient is below 2^31. Source: ONNX Runtime's SSE2 kernel, measured.
    """
    ratio = np.float32(np.float32(quant_a.scale * quant_b.scale) / output.scale)
    left = a.astype(np.int64) - quant_a.zero_point
    product = (left * (b.astype(np.int64) - quant_b.zero_point)).astype(np.float32)
    return _rounded(np.float32(output.zero_point) + product * ratio, low, high)


def qlinear_average_pool(
    total: FloatArray, count: npt.ArrayLike, output: Scalars, low: int, high: int
) -> IntArray:
    """The stored average for float32 sums of dequantised elements, as int64 within [low, high].

    round(float32(float32(float32(total / count) / scale) + zero_point)): the zero point inside the
    rounding. `total` must be the float32 sum over the window in raster order, from 0, of
    float32(scale * (x - zp)); padding adds nothing. Source: ONNX Runtime's QLinearAveragePool.
    """
    average = total / np.asarray(count, np.float32)
    return _rounded(average / output.scale + np.float32(output.zero_point), low, high)


def qlinear_global_average_pool(
    accumulator: npt.NDArray[Any], count: int, source: Scalars, output: Scalars, low: int, high: int
) -> IntArray:
    """The stored average for integer sums of (x - zero point) over `count` elements.

    `requantize` with the scale float32(sx / float32(sy * count)). Source: ONNX Runtime's
    QLinearGlobalAveragePool, which QLinearAveragePool also uses when its window is the whole image.
    """
    scale = np.float32(source.scale / np.float32(output.scale * np.float32(count)))
    return requantize(accumulator, scale, output.zero_point, low, high)


def softmax_table(scale: np.float32, length: int) -> FloatArray:
    """256 float32 exponentials for a Softmax of `length` elements; entry 255 is the maximum's.

    exp((i - 255) * scale + headroom) with headroom = max(0, ln(largest / length) - 5), the
    largest being float32's. Source: ONNX Runtime's QLinearSoftmax.
    """
    headroom = max(
        0.0, float(np.log(np.float64(np.finfo(np.float32).max / np.float32(length)))) - 5
    )
    offset = headroom / np.float64(scale)
    steps = np.arange(256, dtype=np.float64) - 255 + offset
    return np.exp(steps * np.float64(scale)).astype(np.float32)


def qlinear_softmax(
    x: npt.NDArray[Any], source: Scalars, output: Scalars, low: int, high: int
) -> IntArray:
    """Softmax along the last axis of 8-bit integers, as int64 within [low, high].

    Each exponential is read from `softmax_table` at 255 - (max - x); they are summed in order in
    float32, and the result is round(float32(float32(e * floor(1 / scale)) / sum)) + zero point.
    """
    table = softmax_table(source.scale, x.shape[-1])
    stored = x.astype(np.int64)
    terms = table[255 - (stored.max(axis=-1, keepdims=True) - stored)]
    total = np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1:]
    steps = np.floor(np.float32(1) / output.scale)
    quotient = np.rint(np.float32(terms * steps) / total).astype(np.int64)
    return np.clip(quotient + output.zero_point, low, high)
