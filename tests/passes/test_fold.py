from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.evaluate import evaluate_constant
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.numerics.formats import FP32, INT8
from ridgeline.passes.fold import fold, fold_constants

GENERATOR = np.random.default_rng(0)


def _array(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


NORMALISATION = {
    "gamma": _array(6),
    "beta": _array(6),
    "mean": _array(6),
    "variance": np.abs(_array(6)) + 0.1,
}
CONV = {"w": _array(6, 4, 3, 3), "b": _array(6)}
IMAGE = "(float[2, 4, 7, 7] x) => (float[2, 6, 5, 5] y) "


def _model(text: str, **arrays: Any) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model.SerializeToString()


def _folded(model: bytes) -> Graph:
    """The folded graph, which computes what the model does."""
    graph = fold(read_onnx(model), evaluate_constant)
    generator = np.random.default_rng(1)
    inputs = {
        v.name: generator.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs
    }
    expected = run_model(model, inputs)
    for value, found in zip(graph.outputs, GraphRunner(graph).run(inputs), strict=True):
        scale = np.abs(expected[value.name]).max()
        np.testing.assert_allclose(found, expected[value.name], atol=1e-5 * scale, rtol=1e-5)
    return graph


def _ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


@pytest.mark.parametrize("bias", ["", ", b"])
def test_batch_normalization_joins_the_convolution_before_it(bias: str) -> None:
    model = _model(
        IMAGE
        + f"{{ c = Conv(x, w{bias}) y = BatchNormalization(c, gamma, beta, mean, variance) }}",
        **CONV,
        **NORMALISATION,
    )
    graph = _folded(model)
    assert _ops(graph) == ["Conv"]
    assert graph.nodes[0].origin == ("c", "y")


def test_batch_normalization_joins_a_dense_layer() -> None:
    model = _model(
        "(float[3, 5] x) => (float[3, 6] y)"
        "{ p = MatMul(x, w) y = BatchNormalization(p, gamma, beta, mean, variance) }",
        w=_array(5, 6),
        **NORMALISATION,
    )
    assert _ops(_folded(model)) == ["MatMul"]


def test_a_chain_of_scales_joins() -> None:
    model = _model(
        IMAGE + "{ c = Conv(x, w, b) m = Mul(s, c)"
        " n = BatchNormalization(m, gamma, beta, mean, variance) y = Mul(n, t) }",
        s=_array(6, 1, 1),
        t=_array(1),
        **CONV,
        **NORMALISATION,
    )
    assert _ops(_folded(model)) == ["Conv"]


@pytest.mark.parametrize(
    "body",
    [
        "{ y = BatchNormalization(x, gamma, beta, mean, variance) }",
        "{ r = Relu(x) y = BatchNormalization(r, gamma, beta, mean, variance) }",
    ],
)
def test_a_batch_normalization_alone_becomes_mul_and_add(body: str) -> None:
    graph = _folded(_model("(float[2, 6, 3] x) => (float[2, 6, 3] y) " + body, **NORMALISATION))
    assert _ops(graph)[-2:] == ["Mul", "Add"]


def test_a_result_that_is_read_twice_is_not_scaled() -> None:
    model = _model(
        IMAGE + "{ c = Conv(x, w, b) n = BatchNormalization(c, gamma, beta, mean, variance)"
        " y = Add(c, n) }",
        **CONV,
        **NORMALISATION,
    )
    assert _ops(_folded(model)) == ["Conv", "Mul", "Add", "Add"]


def test_identities_go_and_output_names_stay() -> None:
    model = _model(
        "(float[2, 3] x) => (float[2, 3] y, float[2, 3] z) <int64[2] s = {2, 3}> {"
        " i = Identity(x) r = Reshape(i, s) t = Transpose<perm=[0, 1]>(r) n = Neg(t)"
        " y = Dropout(n) z = Identity(x) }"
    )
    graph = _folded(model)
    assert _ops(graph) == ["Neg", "Identity"]
    assert [v.name for v in graph.outputs] == ["y", "z"]


def test_nodes_of_constants_are_computed_once() -> None:
    w = Value.constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    t = Value("t", TensorType((3, 2), FP32))
    r = Value("r", TensorType((6,), FP32))
    x, y = Value("x", TensorType((6,), FP32)), Value("y", TensorType((6,), FP32))
    nodes = (
        Node("Transpose", "a", (w,), (t,), {"perm": (1, 0)}),
        Node("Reshape", "b", (t,), (r,), {"shape": (6,)}),
        Node("Add", "c", (x, r), (y,)),
    )
    graph = fold_constants(Graph("g", (x,), (y,), nodes).check(), evaluate_constant)
    assert _ops(graph) == ["Add"]
    data = graph.nodes[0].input(1).data
    assert data is not None
    assert data.tolist() == [0, 3, 1, 4, 2, 5]


def test_a_move_of_quantised_weights_keeps_their_bits_and_axis() -> None:
    quant = Quant(np.array([0.1, 0.2], np.float32), np.zeros(2, np.int32), 0)
    turned = Quant(quant.scale, quant.zero_point, 1)
    stored = np.array([[1, -2, 3], [127, -128, 0]], np.int8)
    w = Value("w", TensorType((2, 3), INT8, quant), stored)
    t = Value("t", TensorType((3, 2), INT8, turned))
    y = Value("y", TensorType((3, 2), FP32))
    nodes = (
        Node("Transpose", "a", (w,), (t,), {"perm": (1, 0)}),
        Node("DequantizeLinear", "d", (t,), (y,)),
    )
    graph = fold_constants(Graph("g", (), (y,), nodes).check(), evaluate_constant)
    assert _ops(graph) == ["DequantizeLinear"]
    value = graph.nodes[0].input(0)
    assert value.type.quant is turned
    np.testing.assert_array_equal(value.data, stored.T)
