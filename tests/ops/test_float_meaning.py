"""Float meanings against ONNX Runtime on the float operator."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from numeric_cases import CONVOLUTIONS, POOLS, SINGLES, WINDOWS
from ridgeline.ops import PRIMITIVES


def onnx_runtime(op, arrays, attrs):
    attrs = dict(attrs)
    constants = []
    if op == "Reshape":
        constants = [numpy_helper.from_array(np.asarray(attrs.pop("shape"), np.int64), "s")]
    if op == "Clip":
        limits = {k: attrs.pop(k) for k in ("min", "max")}
        constants = [
            numpy_helper.from_array(np.float32(v), k) for k, v in limits.items() if v is not None
        ]
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op, [*names, *(c.name for c in constants)], ["y"], **attrs)
    graph = helper.make_graph([node], "g", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def check(op, arrays, attrs, exact=False):
    expected = onnx_runtime(op, arrays, attrs)
    (got,) = PRIMITIVES[op].float_meaning(arrays, attrs)
    assert got.dtype == np.float32
    if exact:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name, bias):
    shape, weights, extra = CONVOLUTIONS[name]
    arrays = [normal(*shape), normal(*weights)] + ([normal(weights[0])] if bias else [])
    check("Conv", arrays, {"kernel_shape": list(weights[2:])} | extra)


@pytest.mark.parametrize("shapes", [
    ((5, 8), (8, 3)), ((2, 1, 5, 8), (3, 8, 6)), ((2, 5, 8), (8, 3)),
])  # fmt: skip
def test_matrix_product(shapes):
    check("MatMul", [normal(*s) for s in shapes], {})


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_binary(op):
    check(op, [normal(2, 4, 3, 5), normal(4, 1, 1)], {}, exact=True)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", POOLS)
def test_pooling(name, window):
    op, attrs = POOLS[name]
    shape, extra = WINDOWS[window]
    attrs = {} if op == "GlobalAveragePool" else extra | attrs
    check(op, [normal(*shape)], attrs, exact=op == "MaxPool")


@pytest.mark.parametrize("name", SINGLES)
def test_one_tensor(name):
    op, attrs = SINGLES[name]
    arrays = [normal(2, 4, 6, 8)] + ([normal(2, 3, 6, 8)] if op == "Concat" else [])
    check(op, arrays, attrs, exact=op != "Softmax")


def test_large_batches_are_worked_through_in_parts(monkeypatch):
    shape, weights, extra = CONVOLUTIONS["grouped"]
    arrays = [normal(7, *shape[1:]), normal(*weights)]
    attrs = {"kernel_shape": list(weights[2:])} | extra
    (whole,) = PRIMITIVES["Conv"].float_meaning(arrays, attrs)
    monkeypatch.setattr("ridgeline.ops.convolution._GATHERED_ELEMENTS", 1000)
    (parts,) = PRIMITIVES["Conv"].float_meaning(arrays, attrs)
    np.testing.assert_allclose(parts, whole, rtol=1e-6, atol=1e-6)


def test_clip_is_applied_to_the_real_result():
    a, b = normal(20, 8), normal(8, 5)
    (plain,) = PRIMITIVES["MatMul"].float_meaning([a, b], {})
    (clipped,) = PRIMITIVES["MatMul"].float_meaning([a, b], {"clip": (0.0, None)})
    np.testing.assert_array_equal(clipped, np.maximum(plain, 0))
