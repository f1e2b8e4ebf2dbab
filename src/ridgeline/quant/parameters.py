"""Scales and zero points from ranges, weights and biases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Quant, TensorType, Value
from ridgeline.numerics.formats import INT32, DType
from ridgeline.numerics.quantize import quantize as quantize_array

Array = npt.NDArray[Any]
Clip = tuple[float | None, float | None]

# Below this a tensor is zero for every purpose; it keeps products and quotients of scales normal
# float32 numbers.
_MIN_SCALE = 1e-12
_WEIGHT_STEPS = 127
# A bias near 2^31 steps moves by this much when its scale is rounded to float32.
_SCALE_ROUNDING_STEPS = 1024


def activation_quant(low: float, high: float, dtype: DType, clips: Iterable[Clip] = ()) -> Quant:
    """Per-tensor parameters for real values in [low, high], with zero exactly representable.

    int16 is symmetric with zero point 0. For the others every bound of `clips` that the range
    touches is made the edge of the representable range or lies outside of it, so that saturation
    does the clipping and ONNX Runtime drops the Relu or Clip (its ClipQuantFusion).
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if dtype.bits > 8:
        scale = max(-low, high) / dtype.high
        return Quant.per_tensor(max(scale, _MIN_SCALE) if scale else 1.0)
    steps = dtype.high - dtype.low
    scale = np.float32(max((high - low) / steps, _MIN_SCALE) if high > low else 1.0)
    zero = int(np.clip(np.rint(dtype.low - low / float(scale)), dtype.low, dtype.high))
    for clip_low, clip_high in clips:
        if clip_low is not None and clip_low < 0:
            scale = _within(scale, zero - dtype.low, -clip_low)
        if clip_high is not None and clip_high > 0:
            scale = _within(scale, dtype.high - zero, clip_high)
    return Quant.per_tensor(float(scale), zero)


def _within(scale: np.float32, steps: int, bound: float) -> np.float32:
    """The largest scale up to `scale` whose `steps` do not pass `bound`, in float32."""
    limit = np.float32(bound)
    if steps <= 0 or np.float32(steps) * scale <= limit:
        return scale
    scale = np.float32(limit / np.float32(steps))
    while np.float32(steps) * scale > limit:
        scale = np.nextafter(scale, np.float32(0))
    return scale


@dataclass(frozen=True, slots=True)
class Layer:
    """A product's weights and bias as integers."""

    weights: Value
    bias: Value | None


def quantize_layer(
    weights: Value,
    bias: Value | None,
    x: Quant,
    channel_axis: int | None,
    dtype: DType,
    rounding: Callable[[Array, int], Array] | None = None,
    shift: Callable[[Array], Array] | None = None,
) -> Layer:
    """Symmetric weights (per channel along `channel_axis`, or per tensor) and an int32 bias.

    A channel's scale is raised where its bias, in steps of x.scale * scale, would leave int32
    together with the largest sum of products. `rounding` makes integers
    of the weights in steps, within a limit; by default to the nearest. `shift` tells by how much an
    error of the weights moves the mean of each output: the bias takes that away.
    """
    assert weights.data is not None
    data: Array = weights.data.astype(np.float64)
    scale = _weight_scale(data, channel_axis)
    if bias is not None and bias.data is not None:
        channels = max(1, bias.data.size)
        limit = _bias_limit(weights.type.elements // channels)
        needed = np.abs(bias.data.astype(np.float64)) / (float(x.scale) * limit)
        scale = np.maximum(scale, needed if channel_axis is not None else needed.max(initial=0))
    scales = scale.astype(np.float32)
    zero = np.full(scales.shape, 128 if dtype.kind == "uint" else 0, np.int32)
    quant = Quant(scales, zero, channel_axis)
    shape = [1] * data.ndim
    if channel_axis is not None:
        shape[channel_axis] = -1
    steps = data / scales.astype(np.float64).reshape(shape)
    stored = (rounding or _nearest)(steps, _WEIGHT_STEPS) + zero.reshape(shape)
    type = TensorType(weights.type.shape, dtype, quant)
    integers = Value(f"{weights.name}_quantized", type, stored.astype(dtype.numpy))
    if bias is not None and bias.data is not None and shift is not None:
        rounded = (stored - zero.reshape(shape)) * scales.astype(np.float64).reshape(shape)
        bias = replace(bias, data=bias.data - shift(rounded - data))
    return Layer(integers, None if bias is None else _quantize_bias(bias, x, scales))


def _nearest(steps: Array, limit: int) -> Array:
    return np.clip(np.rint(steps), -limit, limit)


def _weight_scale(data: Array, channel_axis: int | None) -> Array:
    """Float64, () or [channels]: the largest magnitude becomes ±127."""
    axes = tuple(i for i in range(data.ndim) if i != channel_axis)
    largest = np.abs(data).max(axis=axes if channel_axis is not None else None, initial=0.0)
    return np.maximum(largest / _WEIGHT_STEPS, _MIN_SCALE)


def _bias_limit(reduction: int) -> float:
    """Steps that a bias may take beside `reduction` products of 8 bits in a 32-bit accumulator."""
    room = INT32.high - reduction * 255 * _WEIGHT_STEPS
    return float(max(room - _SCALE_ROUNDING_STEPS, 1 << 24))


def _quantize_bias(bias: Value, x: Quant, weight_scale: Array) -> Value:
    assert bias.data is not None
    scale = np.asarray(x.scale * weight_scale, np.float32)
    axis = None if scale.ndim == 0 else 0
    quant = Quant(scale, np.zeros(scale.shape, np.int32), axis)
    steps = np.rint(bias.data.astype(np.float64) / scale.astype(np.float64))
    stored = np.clip(steps, INT32.low, INT32.high).astype(np.int32)
    return Value(f"{bias.name}_quantized", TensorType(bias.type.shape, INT32, quant), stored)


def quantize_constant(value: Value, dtype: DType) -> Value:
    """A constant operand of Add, Mul or Concat in the format of activations, by its own range."""
    assert value.data is not None
    low = float(value.data.min(initial=0.0))
    high = float(value.data.max(initial=0.0))
    quant = activation_quant(low, high, dtype)
    stored = quantize_array(value.data, quant, dtype)
    return Value(f"{value.name}_quantized", TensorType(value.type.shape, dtype, quant), stored)
