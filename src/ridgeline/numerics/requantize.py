"""Accumulators to stored integers: one function with named modes, and its integer-only twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.rounding import (
    SIGNIFICAND_BITS,
    FloatArray,
    IntArray,
    bit_length,
    saturate,
    shift_right_half_even,
    shift_right_half_up,
    wrap,
)

DEFAULT_MODE = "onnxruntime"


def requant_scale(
    input_scale: npt.ArrayLike, weight_scale: npt.ArrayLike, output_scale: npt.ArrayLike
) -> FloatArray:
    """float32(float32(input_scale * weight_scale) / output_scale), in that order.

    Shapes broadcast; the order is ONNX Runtime's, and another order gives other bits.
    """
    product = np.asarray(input_scale, np.float32) * np.asarray(weight_scale, np.float32)
    return np.asarray(product / np.asarray(output_scale, np.float32), np.float32)


def significand_and_exponent(scale: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """(significand, exponent) with scale = significand * 2^exponent exactly.

    The significand of a positive float32 lies in [2^23, 2^24); that of zero is 0 with exponent 0.
    Raises ValueError for a scale that is negative or not finite.
    """
    value = np.asarray(scale, np.float32)
    if not np.all(np.isfinite(value) & (value >= 0)):
        raise ValueError(f"a scale must be finite and not negative, got {value}")
    fraction, exponent = np.frexp(value)
    significand = np.ldexp(fraction, SIGNIFICAND_BITS).astype(np.int64)
    return significand, np.where(significand == 0, 0, exponent.astype(np.int64) - SIGNIFICAND_BITS)


def requantize(
    accumulator: npt.NDArray[Any],
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    low: int,
    high: int,
    mode: str = DEFAULT_MODE,
) -> IntArray:
    """Stored integers for integer accumulators, as int64 within [low, high].

    `accumulator` int32 or int64 of any shape; `scale` float32, a scalar or one per entry of the
    last axis; `zero_point` likewise. `mode` is a row of MODES. Raises ValueError for another mode.
    """
    if mode not in MODES:
        raise ValueError(f"no requantisation mode '{mode}'. Known: {', '.join(sorted(MODES))}")
    return MODES[mode](accumulator, np.asarray(scale, np.float32), zero_point, low, high)


def _requantize_onnxruntime(
    accumulator: npt.NDArray[Any], scale: FloatArray, zero_point: npt.ArrayLike, low: int, high: int
) -> IntArray:
    """float32(accumulator) * scale, clamped, rounded half to even, then the zero point.

    Source: ONNX Runtime 1.32, MlasRequantizeOutput on x86; measured, see docs/numerics.md.
    """
    zero = np.asarray(zero_point, np.int64)
    with np.errstate(over="ignore", under="ignore"):
        real = np.asarray(accumulator).astype(np.float32) * scale
    bounded = np.clip(real, (low - zero).astype(np.float32), (high - zero).astype(np.float32))
    return np.rint(bounded).astype(np.int64) + zero


class SumRequantizer:
    """`requantize` of bias + sums that come as integers in floating point.

    In mode "onnxruntime" the same integers by fewer passes over the data: what the operands' bounds
    decide (whether float32 holds sum and bias exactly, whether an accumulator can wrap) is decided
    once.
    """

    def __init__(
        self,
        bias: IntArray,
        scale: FloatArray,
        zero_point: int,
        low: int,
        high: int,
        *,
        largest_sum: int,
        accumulator_bits: int,
        mode: str = DEFAULT_MODE,
    ) -> None:
        """`bias` and `scale` one per entry of the last axis; |sum| <= largest_sum < 2^53 / 2."""
        largest = largest_sum + int(np.abs(bias).max(initial=0))
        self._kind = np.float32 if largest <= 1 << SIGNIFICAND_BITS else np.float64
        self._wrapped_bits = 0 if largest < 1 << (accumulator_bits - 1) else accumulator_bits
        self._bias = bias.astype(self._kind)
        self._scale = scale
        self._zero_point = np.float32(zero_point)
        self._low, self._high = np.float32(low - zero_point), np.float32(high - zero_point)
        self._mode = mode
        self._limits = low, high

    def requantize(self, sums: npt.NDArray[Any]) -> FloatArray:
        """Stored integers in float32 for float32 or float64 `sums`, which may be overwritten."""
        total = sums.astype(self._kind, copy=False)
        total += self._bias
        if self._wrapped_bits:
            total = wrap(total.astype(np.int64), self._wrapped_bits)
        if self._mode != DEFAULT_MODE:
            exact = total.astype(np.int64)
            stored = requantize(
                exact, self._scale, int(self._zero_point), *self._limits, self._mode
            )
            return stored.astype(np.float32)
        real = total.astype(np.float32, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            np.multiply(real, self._scale, out=real)
        np.clip(real, self._low, self._high, out=real)
        np.rint(real, out=real)
        if self._zero_point:
            np.add(real, self._zero_point, out=real)
        return real


def requantize_integer(
    accumulator: npt.NDArray[Any],
    significand: npt.ArrayLike,
    exponent: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    low: int,
    high: int,
) -> IntArray:
    """The "onnxruntime" mode with integer operations alone, step by step as hardware does it.

    The magnitude is rounded to 24 bits, multiplied by the scale's 24-bit significand, the 48-bit
    product rounded to 24 bits, shifted with rounding, saturated, and the zero point added.
    `significand` and `exponent` come from `significand_and_exponent`.

    Equal to `requantize(..., mode="onnxruntime")` for every |accumulator| < 2^62, every finite
    float32 scale >= 0 (denormal ones included) and |low - zero_point|, |high - zero_point| < 2^23.
    Where float32 would be denormal both give the zero point; where it would overflow both saturate.
    """
    value = np.asarray(accumulator).astype(np.int64)
    zero = np.asarray(zero_point, np.int64)
    magnitude = np.abs(value)
    narrowed = np.maximum(bit_length(magnitude) - SIGNIFICAND_BITS, 0)
    product = shift_right_half_even(magnitude, narrowed) * np.asarray(significand, np.int64)
    dropped = np.maximum(bit_length(product) - SIGNIFICAND_BITS, 0)
    rounded = shift_right_half_even(product, dropped)
    shift = -(np.asarray(exponent, np.int64) + narrowed + dropped)
    # Beyond 30 places the shift of a 25-bit number is settled: zero to the right, saturated left.
    right = shift_right_half_even(rounded, np.clip(shift, 0, 30))
    result = np.sign(value) * (right << np.clip(-shift, 0, 30))
    return np.clip(result, low - zero, high - zero) + zero


def _requantize_fixed_point(
    accumulator: npt.NDArray[Any], scale: FloatArray, zero_point: npt.ArrayLike, low: int, high: int
) -> IntArray:
    """A fixed-point multiplier and one shift that rounds half up; |accumulator| <= 2^31.

    A float32 scale fits 31 bits, so this is floor(accumulator * scale + 1/2) of the exact product.
    """
    value = np.asarray(accumulator).astype(np.int64)
    if value.size and (value.max() >= 1 << 31 or value.min() < -(1 << 31)):
        raise ValueError("mode 'fixed-point-31' takes 32-bit accumulators")
    # What is not finite is taken for the largest scale, as its exponent says to hardware.
    finite = np.where(np.isfinite(scale), np.abs(scale), np.finfo(np.float32).max)
    significand, exponent = significand_and_exponent(finite)
    product = np.where(scale < 0, -value, value) * significand
    # The product is below 2^56: more than 56 places leave less than half a step; and 0 or at least
    # 2^23: to the left it is beyond every limit.
    right = shift_right_half_up(product, np.clip(-exponent, 0, 57))
    rounded = right << np.clip(exponent, 0, 6)
    return saturate(rounded + np.asarray(zero_point, np.int64), low, high)


MODES: dict[str, Callable[[npt.NDArray[Any], FloatArray, npt.ArrayLike, int, int], IntArray]] = {
    "onnxruntime": _requantize_onnxruntime,
    "fixed-point-31": _requantize_fixed_point,
}
