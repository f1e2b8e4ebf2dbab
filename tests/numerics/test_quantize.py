from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ridgeline.ir import Quant
from ridgeline.numerics.formats import FORMATS, INT4, INT8, INT16, UINT8
from ridgeline.numerics.quantize import dequantize, quantize, requantize_table

CODES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
}


def onnx_runtime(op, x, quant, dtype):
    attrs = {} if quant.axis is None else {"axis": quant.axis}
    constants = [
        numpy_helper.from_array(quant.scale, "s"),
        numpy_helper.from_array(quant.zero_point.astype(dtype.numpy), "z"),
    ]
    source, result = TensorProto.FLOAT, CODES[dtype.name]
    if op == "DequantizeLinear":
        source, result = result, source
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "s", "z"], ["y"], **attrs)],
        "g",
        [helper.make_tensor_value_info("x", source, x.shape)],
        [helper.make_tensor_value_info("y", result, x.shape)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def quantisations(dtype, channels):
    rng = np.random.default_rng(0)
    zeros = rng.integers(max(dtype.low, -300), min(dtype.high, 300), channels).astype(np.int32)
    scales = np.exp(rng.uniform(-6, 0, channels)).astype(np.float32)
    yield Quant(scales, zeros, axis=1)
    for scale, zero in zip(scales, zeros, strict=True):
        yield Quant(np.asarray(scale), np.asarray(zero))
    yield Quant.per_tensor(0.25, int(zeros[0]))


@pytest.mark.parametrize("dtype", CODES)
def test_equals_onnx_runtime(dtype):
    kind = FORMATS[dtype]
    rng = np.random.default_rng(1)
    real = (rng.normal(size=(50, 6)) * 50).astype(np.float32)
    real[:10] = np.round(real[:10] * 8) / 8
    real[10] = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0]
    stored = rng.integers(kind.low, kind.high + 1, (50, 6)).astype(kind.numpy)
    for quant in quantisations(kind, 6):
        expected = onnx_runtime("QuantizeLinear", real, quant, kind)
        np.testing.assert_array_equal(quantize(real, quant, kind), expected)
        expected = onnx_runtime("DequantizeLinear", stored, quant, kind)
        np.testing.assert_array_equal(dequantize(stored, quant), expected)


def test_half_goes_to_even_before_the_zero_point():
    quant = Quant.per_tensor(1.0, 1)
    np.testing.assert_array_equal(
        quantize([0.5, 1.5, 2.5, -0.5, -1.5], quant, INT8), [1, 3, 3, 1, -1]
    )


def test_division_is_not_multiplication_by_the_reciprocal():
    different = 0
    for scale in np.linspace(0.01, 0.5, 50, dtype=np.float32):
        real = (np.arange(-2000, 2000, dtype=np.float32) + np.float32(0.5)) * scale
        expected = np.rint(real / scale)
        got = quantize(real, Quant.per_tensor(float(scale)), INT16)
        np.testing.assert_array_equal(got, expected)
        different += np.count_nonzero(expected != np.rint(real * (np.float32(1) / scale)))
    assert different > 0


def test_int4_saturates_at_its_own_limits():
    stored = quantize([-100.0, 100.0, 3.0], Quant.per_tensor(1.0), INT4)
    np.testing.assert_array_equal(stored.astype(np.int8), [-8, 7, 3])


def test_table_holds_every_stored_value():
    source, target = Quant.per_tensor(0.1, -5), Quant.per_tensor(0.3, 100)
    table = requantize_table(source, INT8, target, UINT8)
    stored = np.arange(-128, 128, dtype=np.int8)
    np.testing.assert_array_equal(table, quantize(dequantize(stored, source), target, UINT8))
    assert table.dtype == np.uint8


def test_groups_are_refused():
    quant = Quant(np.ones(2, np.float32), np.zeros(2, np.int32), axis=0, block=32)
    with pytest.raises(ValueError, match="a quantisation in groups of 32 is not supported here"):
        quantize(np.ones((2, 64)), quant, INT8)
