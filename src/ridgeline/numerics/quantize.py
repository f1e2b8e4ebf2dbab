"""Real numbers to stored integers and back, with ONNX's QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.formats import DType
from ridgeline.numerics.rounding import FloatArray, IntArray


class Affine(Protocol):
    """What this room needs of `ir.Quant`: real = scale * (stored - zero_point)."""

    @property
    def scale(self) -> npt.NDArray[np.float32]: ...
    @property
    def zero_point(self) -> npt.NDArray[np.int32]: ...
    @property
    def axis(self) -> int | None: ...
    @property
    def block(self) -> int: ...


def parameters_along(quant: Affine, rank: int) -> tuple[FloatArray, IntArray]:
    """Scale and zero point shaped to broadcast against a tensor of `rank` dimensions.

    Raises ValueError for a grouped quantisation, which has no such shape.
    """
    if quant.block:
        raise ValueError(f"a quantisation in groups of {quant.block} is not supported here")
    zero = quant.zero_point.astype(np.int64)
    if quant.axis is None:
        return quant.scale, zero
    shape = [1] * rank
    shape[quant.axis] = quant.scale.size
    return quant.scale.reshape(shape), zero.reshape(shape)


def quantize(real: npt.ArrayLike, quant: Affine, dtype: DType) -> npt.NDArray[Any]:
    """Stored integers of `dtype` for reals: divide, round half to even, zero point, saturate.

    The quotient is a true float32 division. NaN becomes the lowest integer and infinities
    saturate, as in ONNX Runtime 1.32 on x86.
    """
    value = np.asarray(real, np.float32)
    scale, zero = parameters_along(quant, value.ndim)
    return stored_integers(value, scale, zero, dtype.low, dtype.high).astype(dtype.numpy)


def stored_integers(
    real: FloatArray, scale: FloatArray, zero_point: npt.ArrayLike, low: int, high: int
) -> IntArray:
    """What `quantize` stores, as int64 within [low, high]; scale and zero point broadcast."""
    zero = np.asarray(zero_point, np.int64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        quotient = real / scale
    least, most = (low - zero).astype(np.float64), (high - zero).astype(np.float64)
    bounded = np.where(np.isnan(quotient), least, np.clip(quotient.astype(np.float64), least, most))
    return np.rint(bounded).astype(np.int64) + zero


def dequantize(stored: npt.NDArray[Any], quant: Affine) -> FloatArray:
    """float32(stored - zero_point) * scale, one float32 multiplication."""
    scale, zero = parameters_along(quant, np.ndim(stored))
    difference = np.asarray(stored).astype(np.int64) - zero
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(difference.astype(np.float32) * scale, np.float32)


def requantize_table(
    source: Affine, source_dtype: DType, target: Affine, target_dtype: DType
) -> npt.NDArray[Any]:
    """The stored integer of `target` for each stored integer of `source`, from its lowest up.

    quantize(dequantize(x)) for all 2^bits values: what Concat, Reshape, Transpose and MaxPool do
    to a tensor whose quantisation changes. Entry i belongs to the stored value source low + i.
    """
    every = np.arange(source_dtype.low, source_dtype.high + 1, dtype=np.int64)
    return quantize(dequantize(every, source), target, target_dtype)
