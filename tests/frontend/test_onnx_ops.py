"""Each operator read, written back and run: the same numbers as the original in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import run_model
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.evaluate import evaluate

GENERATOR = np.random.default_rng(0)


def _array(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


CONV = {"w": _array(6, 2, 3, 3), "b": _array(6)}
IMAGE = "(float[2, 4, 9, 11] x) => (float[] y) "

CASES: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("conv", IMAGE + "{ y = Conv<group=2>(x, w, b) }", CONV, ["Conv"]),
    ("conv no bias", IMAGE + "{ y = Conv<group=2>(x, w) }", {"w": CONV["w"]}, ["Conv"]),
    ("conv dilated", IMAGE + "{ y = Conv<group=2, dilations=[2, 3]>(x, w, b) }", CONV, ["Conv"]),
    (
        "conv same upper",
        IMAGE + '{ y = Conv<group=2, strides=[2, 3], auto_pad="SAME_UPPER">(x, w, b) }',
        CONV,
        ["Conv"],
    ),
    (
        "conv same lower",
        IMAGE + '{ y = Conv<group=2, strides=[2, 2], auto_pad="SAME_LOWER">(x, w, b) }',
        CONV,
        ["Conv"],
    ),
    ("conv valid", IMAGE + '{ y = Conv<group=2, auto_pad="VALID">(x, w, b) }', CONV, ["Conv"]),
    (
        "conv 1d",
        "(float[2, 3, 20] x) => (float[] y) { y = Conv<pads=[1, 2], strides=[3]>(x, w) }",
        {"w": _array(5, 3, 4)},
        ["Conv"],
    ),
    (
        "gemm",
        "(float[3, 4] x) => (float[] y) { y = Gemm<transB=1, alpha=0.5, beta=2.0>(x, w, b) }",
        {"w": _array(5, 4), "b": _array(5)},
        ["MatMul"],
    ),
    (
        "gemm row bias",
        "(float[3, 4] x) => (float[] y) { y = Gemm(x, w, b) }",
        {"w": _array(4, 5), "b": _array(1, 5)},
        ["MatMul"],
    ),
    (
        "gemm scalar bias",
        "(float[3, 4] x) => (float[] y) { y = Gemm(x, w, b) }",
        {"w": _array(4, 5), "b": _array(1)},
        ["MatMul"],
    ),
    (
        "gemm full bias",
        "(float[4, 3] x) => (float[] y) { y = Gemm<transA=1>(x, w, b) }",
        {"w": _array(4, 5), "b": _array(3, 5)},
        ["Transpose", "MatMul", "Add"],
    ),
    (
        "gemm computed",
        "(float[4, 3] x, float[3, 4] v) => (float[] y) { y = Gemm<alpha=2.0>(x, v) }",
        {},
        ["Gemm"],
    ),
    (
        "matmul",
        "(float[2, 3, 4] x) => (float[] y) { y = MatMul(x, w) }",
        {"w": _array(4, 5)},
        ["MatMul"],
    ),
    (
        "matmul vectors",
        "(float[4] x) => (float[] y) { y = MatMul(x, w) }",
        {"w": _array(4)},
        ["Reshape", "MatMul", "Reshape"],
    ),
    (
        "matmul vector",
        "(float[2, 3, 4] x) => (float[] y) { y = MatMul(x, w) }",
        {"w": _array(4)},
        ["MatMul", "Reshape"],
    ),
    ("sub", "(float[3, 4] x) => (float[] y) { y = Sub(x, c) }", {"c": _array(4)}, ["Add"]),
    ("div", "(float[3, 4] x) => (float[] y) { y = Div(x, c) }", {"c": _array(4) + 3}, ["Mul"]),
    ("sub computed", "(float[3] x, float[3] v) => (float[] y) { y = Sub(x, v) }", {}, ["Sub"]),
    (
        "sub from a constant",
        "(float[3, 4] x) => (float[] y) { y = Sub(c, x) }",
        {"c": _array(4)},
        ["Mul", "Add"],
    ),
    (
        "sum",
        "(float[3, 4] x, float[4] v) => (float[] y) { y = Sum(x, v, c) }",
        {"c": _array(3, 1)},
        ["Add", "Add"],
    ),
    ("sum of one", "(float[3] x) => (float[] y) { y = Sum(x) }", {}, ["Identity"]),
    (
        "mean",
        "(float[3, 4] x, float[4] v) => (float[] y) { y = Mean(x, v, x) }",
        {},
        ["Add", "Add", "Mul"],
    ),
    ("max", "(float[3] x) => (float[] y) { y = Max(x, c) }", {"c": _array(1)}, ["Clip"]),
    ("min", "(float[3] x) => (float[] y) { y = Min(c, x) }", {"c": _array(1)}, ["Clip"]),
    ("max computed", "(float[3] x, float[3] v) => (float[] y) { y = Max(x, v) }", {}, ["Max"]),
    (
        "clip",
        "(float[3] x) => (float[] y) <float l = {-0.5}, float h = {0.5}> { y = Clip(x, l, h) }",
        {},
        ["Clip"],
    ),
    (
        "clip bounds of one element",
        "(float[3] x) => (float[] y) { y = Clip(x, l, h) }",
        {"l": np.array([-0.5], np.float32), "h": np.array([0.5], np.float32)},
        ["Clip"],
    ),
    (
        "clip high",
        "(float[3] x) => (float[] y) <float h = {0.5}> { y = Clip(x, , h) }",
        {},
        ["Clip"],
    ),
    (
        "clip computed",
        "(float[3] x, float v) => (float[] y) <float h = {0.5}> { y = Clip(x, v, h) }",
        {},
        ["Max", "Min"],
    ),
    (
        "max pool ceil",
        IMAGE + "{ y = MaxPool<kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1>(x) }",
        {},
        ["MaxPool"],
    ),
    (
        "max pool dilated",
        IMAGE + "{ y = MaxPool<kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 0, 1, 0]>(x) }",
        {},
        ["MaxPool"],
    ),
    ("global max pool", IMAGE + "{ y = GlobalMaxPool(x) }", {}, ["MaxPool"]),
    (
        "average pool",
        IMAGE + "{ y = AveragePool<kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]>(x) }",
        {},
        ["AveragePool"],
    ),
    (
        "average pool counting",
        IMAGE
        + "{ y = AveragePool<kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1>(x) }",
        {},
        ["AveragePool"],
    ),
    (
        "average pool ceil",
        IMAGE + "{ y = AveragePool<kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1>(x) }",
        {},
        ["AveragePool"],
    ),
    (
        "average pool ceil counting",
        IMAGE
        + "{ y = AveragePool<kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1,"
        + " count_include_pad=1>(x) }",
        {},
        ["AveragePool"],
    ),
    ("global average pool", IMAGE + "{ y = GlobalAveragePool(x) }", {}, ["GlobalAveragePool"]),
    ("mean", IMAGE + "{ y = ReduceMean<axes=[2, 3]>(x) }", {}, ["GlobalAveragePool"]),
    (
        "mean without dims",
        IMAGE + "{ y = ReduceMean<axes=[-1, -2], keepdims=0>(x) }",
        {},
        ["GlobalAveragePool", "Reshape"],
    ),
    ("mean of channels", IMAGE + "{ y = ReduceMean<axes=[1]>(x) }", {}, ["ReduceMean"]),
    ("flatten", IMAGE + "{ y = Flatten<axis=2>(x) }", {}, ["Reshape"]),
    ("transpose", IMAGE + "{ y = Transpose(x) }", {}, ["Transpose"]),
    ("concat", IMAGE + "{ y = Concat<axis=-1>(x, x) }", {}, ["Concat"]),
    ("softmax", IMAGE + "{ y = Softmax<axis=1>(x) }", {}, ["Softmax"]),
    ("dropout", IMAGE + "{ y = Dropout(x) }", {}, ["Identity"]),
    ("leaky", IMAGE + "{ y = LeakyRelu<alpha=0.2>(x) }", {}, ["LeakyRelu"]),
    ("relu", IMAGE + "{ y = Relu(x) }", {}, ["Clip"]),
]


def _model(text: str, arrays: dict[str, Any], opset: int = 17) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    for output in model.graph.output:  # a wrong declared rank would be believed
        output.type.tensor_type.ClearField("shape")
    return model.SerializeToString()


def _random_inputs(graph: Any) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {
        v.name: generator.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs
    }


@pytest.mark.parametrize(
    ("text", "arrays", "ops"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_same_numbers(text: str, arrays: dict[str, Any], ops: list[str]) -> None:
    model = _model(text, arrays)
    graph = read_onnx(model)
    assert [n.op for n in graph.nodes] == ops
    inputs = _random_inputs(graph)
    expected = next(iter(run_model(model, inputs).values()))
    onnx.checker.check_model(onnx.load_from_string(onnx_bytes(graph)), full_check=True)
    (found,) = GraphRunner(graph).run(inputs)
    assert found.shape == graph.outputs[0].type.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    if set(ops) <= set(PRIMITIVES):
        meaning = evaluate(graph, inputs)[id(graph.outputs[0])]
        np.testing.assert_allclose(meaning, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_flattens(axis: int) -> None:
    text = f"(float[2, 3, 4] x) => (float[] y) {{ y = Softmax<axis={axis}>(x) }}"
    model = _model(text, {}, 11)
    graph = read_onnx(model)
    inputs = _random_inputs(graph)
    expected = next(iter(run_model(model, inputs).values()))
    np.testing.assert_allclose(GraphRunner(graph).run(inputs)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "{ p, i = MaxPool<kernel_shape=[2, 2]>(x) y = Cast<to=1>(i) }",
        "{ y = AveragePool<kernel_shape=[2, 2], dilations=[2, 2]>(x) }",
        "{ y = AveragePool<kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1],"
        " ceil_mode=1, count_include_pad=1>(x) }",
    ],
)
def test_a_form_that_the_primitive_lacks_stays_on_the_host(body: str) -> None:
    model = _model(IMAGE + body, {}, 19)
    graph = read_onnx(model)
    assert graph.nodes[0].op in ("ai.onnx::MaxPool", "ai.onnx::AveragePool")
    inputs = _random_inputs(graph)
    expected = next(iter(run_model(model, inputs).values()))
    np.testing.assert_allclose(GraphRunner(graph).run(inputs)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_the_mask_of_a_dropout_that_nothing_reads_is_no_output(opset: int) -> None:
    graph = read_onnx(_model(IMAGE + "{ a, mask = Dropout(x) y = Relu(a) }", {}, opset))
    assert [(n.op, len(n.outputs)) for n in graph.nodes] == [("Identity", 1), ("Clip", 1)]
