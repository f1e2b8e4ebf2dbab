from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.ir import Quant, Value
from ridgeline.numerics.formats import INT8, INT16, INT32, UINT8, DType
from ridgeline.numerics.quantize import dequantize, quantize
from ridgeline.quant.parameters import activation_quant, quantize_constant, quantize_layer

real = st.floats(-1e4, 1e4, width=32)


@pytest.mark.parametrize("dtype", [UINT8, INT8, INT16], ids=str)
@given(a=real, b=real)
def test_zero_is_exact_and_the_range_is_covered(dtype: DType, a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    quant = activation_quant(low, high, dtype)
    scale, zero = float(quant.scale), int(quant.zero_point)
    assert dtype.low <= zero <= dtype.high
    for bound in (min(low, 0.0), max(high, 0.0)):
        stored = quantize(bound, quant, dtype)
        assert abs(float(dequantize(stored, quant)) - bound) <= scale * 0.501 + 1e-12
    assert float(dequantize(quantize(0.0, quant, dtype), quant)) == 0.0


def test_a_relu_puts_the_zero_point_at_the_lowest_integer() -> None:
    for dtype in (UINT8, INT8):
        quant = activation_quant(0.0, 3.7, dtype, [(0.0, None)])
        assert int(quant.zero_point) == dtype.low


def test_int16_is_symmetric() -> None:
    quant = activation_quant(-1.0, 4.0, INT16)
    assert int(quant.zero_point) == 0
    assert float(quant.scale) == pytest.approx(4.0 / 32767)


@given(
    low=st.floats(-8, -0.0078125, width=32),
    high=st.floats(0.0078125, 8, width=32),
    inside=st.floats(0.1, 1),
)
def test_clips_at_the_edge_saturate_by_themselves(low: float, high: float, inside: float) -> None:
    """What ONNX Runtime asks before it drops a Clip: the range lies within its bounds."""
    for dtype in (UINT8, INT8):
        quant = activation_quant(low * inside, high, dtype, [(low, high)])
        zero = int(quant.zero_point)
        assert np.float32(dtype.low - zero) * quant.scale >= np.float32(low)
        assert np.float32(dtype.high - zero) * quant.scale <= np.float32(high)


def test_six() -> None:
    quant = activation_quant(0.0, 6.0, UINT8, [(0.0, 6.0)])
    assert np.float32(255) * quant.scale <= np.float32(6)
    assert float(quant.scale) == pytest.approx(6 / 255, rel=1e-6)


def test_nothing_seen() -> None:
    quant = activation_quant(0.0, 0.0, UINT8)
    assert (float(quant.scale), int(quant.zero_point)) == (1.0, 0)


def _layer(weights: Any, bias: Any, axis: int | None, dtype: DType = INT8) -> Any:
    return quantize_layer(
        Value.constant("w", np.asarray(weights, np.float32)),
        None if bias is None else Value.constant("b", np.asarray(bias, np.float32)),
        Quant.per_tensor(0.5, 3),
        axis,
        dtype,
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_per_channel(axis: int) -> None:
    weights = np.array([[1, -2, 0.5], [0.25, 4, -0.125]])
    layer = _layer(weights, None, axis)
    quant = layer.weights.type.quant
    np.testing.assert_allclose(quant.scale, np.abs(weights).max(axis=1 - axis) / 127, rtol=1e-6)
    assert not quant.zero_point.any()
    assert np.abs(layer.weights.data).max() == 127
    np.testing.assert_allclose(
        dequantize(layer.weights.data, quant), weights, atol=quant.scale.max() / 2
    )


def test_weights_per_tensor_and_unsigned() -> None:
    weights = np.array([[1, -2, 0.5], [0.25, 4, -0.125]])
    signed, unsigned = _layer(weights, None, None), _layer(weights, None, None, UINT8)
    assert unsigned.weights.data.dtype == np.uint8
    assert int(unsigned.weights.type.quant.zero_point) == 128
    np.testing.assert_array_equal(
        signed.weights.data.astype(int), unsigned.weights.data.astype(int) - 128
    )


def test_the_bias_has_the_scale_of_the_products() -> None:
    layer = _layer([[1, 2], [3, 4]], [10, -20], 0)
    quant = layer.bias.type.quant
    assert layer.bias.type.dtype is INT32
    np.testing.assert_array_equal(quant.scale, np.float32(0.5) * layer.weights.type.quant.scale)
    np.testing.assert_allclose(layer.bias.data * quant.scale, [10, -20], rtol=1e-4)


@pytest.mark.parametrize("axis", [0, None])
def test_a_bias_that_would_overflow_raises_the_weight_scale(axis: int | None) -> None:
    layer = _layer([[1e-9, -1e-9], [1, 2]], [100, 1e9], axis)
    scale = np.broadcast_to(layer.bias.type.quant.scale, (2,)).astype(np.float64)
    np.testing.assert_allclose(layer.bias.data * scale, [100, 1e9], rtol=1e-6, atol=scale.max())
    largest_sum = np.abs(layer.bias.data.astype(np.int64)).max() + 2 * 255 * 127
    assert largest_sum <= INT32.high


def test_a_channel_of_zeros_keeps_its_bias() -> None:
    layer = _layer([[0, 0], [1, 2]], [0.7, 0.0], 0)
    assert float(layer.bias.data[0] * layer.bias.type.quant.scale[0]) == pytest.approx(
        0.7, rel=1e-6
    )
    assert not layer.weights.data[0].any()


def test_constants_by_their_own_range() -> None:
    value = quantize_constant(Value.constant("c", np.array([0.5, 2.0], np.float32)), UINT8)
    quant = value.type.quant
    assert quant is not None
    assert value.name == "c_quantized"
    np.testing.assert_allclose(dequantize(value.data, quant), [0.5, 2.0], atol=0.004)
