from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import cpu_matches, run_model
from ridgeline.ir import Graph
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.pipeline import prepare

GENERATOR = np.random.default_rng(0)
PARAMETERS = (
    "<float s = {0.02}, uint8 z = {100}, float t = {0.05}, uint8 o = {0}, float one = {1}, "
    "float h = {0.01}, int8 zero = {0}, int32 izero = {0}, float hs = {0.0002}> "
)
IMAGE = "(float[2, 4, 6, 6] x) => (float[] y) " + PARAMETERS
HEAD = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
TAIL = "r = QuantizeLinear(c, t, o) y = DequantizeLinear(r, t, o) "
ARRAYS: dict[str, Any] = {
    "w": GENERATOR.integers(-127, 128, (5, 4, 3, 3)).astype(np.int8),
    "ws": np.linspace(0.01, 0.02, 5).astype(np.float32),
    "wz": np.zeros(5, np.int8),
    "b": GENERATOR.integers(-900, 900, 5).astype(np.int32),
    "bs": (np.float32(0.02) * np.linspace(0.01, 0.02, 5).astype(np.float32)),
    "bz": np.zeros(5, np.int32),
    "fb": GENERATOR.standard_normal(5).astype(np.float32),
    "v": GENERATOR.integers(-127, 128, (7, 6)).astype(np.int8),
    "vs": np.linspace(0.01, 0.02, 7).astype(np.float32),
    "vz": np.zeros(7, np.int8),
    "vb": GENERATOR.integers(-900, 900, 7).astype(np.int32),
}
WEIGHTS = "k = DequantizeLinear<axis=0>(w, ws, wz) "
BIAS = "e = DequantizeLinear<axis=0>(b, bs, bz) "


def _prepared(body: str, text: str = IMAGE) -> tuple[Graph, Any, Any]:
    """The graph, ONNX Runtime's result on the file, and the meaning of the graph."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g {text} {{ {body} }}'
    )
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(a, n) for n, a in ARRAYS.items() if n in used
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    data = model.SerializeToString()
    graph = prepare(read_onnx(data))
    generator = np.random.default_rng(1)
    inputs = {
        v.name: generator.uniform(-3, 4, v.type.shape).astype(np.float32) for v in graph.inputs
    }
    expected = run_model(data, inputs)[graph.outputs[0].name]
    np.testing.assert_array_equal(GraphRunner(graph).run(inputs)[0], expected)
    host = lambda node, _: pytest.fail(f"{node.op} is left to the host")  # noqa: E731
    return graph, expected, evaluate(graph, inputs, host)[id(graph.outputs[0])]


def _quantised_ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.output.type.quant and n.op != "QuantizeLinear"]


@pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")
@pytest.mark.parametrize(
    ("body", "ops"),
    [
        (HEAD + WEIGHTS + "c = Conv(d, k) " + TAIL, ["Conv"]),
        (HEAD + WEIGHTS + BIAS + "c = Conv(d, k, e) " + TAIL, ["Conv"]),
        (HEAD + WEIGHTS + BIAS + "a = Conv(d, k, e) c = Relu(a) " + TAIL, ["Conv"]),
        (HEAD + "c = Add(d, d) " + TAIL, ["Add"]),
        (HEAD + "a = Mul(d, d) c = Relu(a) " + TAIL, ["Mul"]),
        (HEAD + "c = GlobalAveragePool(d) " + TAIL, ["GlobalAveragePool"]),
        (HEAD + "c = Relu(d) " + TAIL, ["Clip"]),
        (HEAD + "y = MaxPool<kernel_shape=[2, 2]>(d) ", ["MaxPool"]),
        (HEAD + "y = Transpose(d) ", ["Transpose"]),
        (HEAD + "a = Transpose(d) c = Add(a, a) " + TAIL, ["Transpose", "Add"]),
        (HEAD + "y = Concat<axis=1>(d, d) ", ["Concat"]),
        (
            HEAD + WEIGHTS + "a = Conv(d, k) c = Flatten(a) " + TAIL,
            ["Conv", "Reshape"],
        ),
        (HEAD + "r = QuantizeLinear(d, s, z) y = DequantizeLinear(r, s, z) ", []),
        (
            HEAD + "k = DequantizeLinear<axis=0>(v, vs, vz) n = Transpose<perm=[1, 0]>(k)"
            " c = MatMul(d, n) " + TAIL,
            ["MatMul"],
        ),
    ],
)
def test_what_becomes_integers(body: str, ops: list[str]) -> None:
    graph, expected, meaning = _prepared(body)
    assert _quantised_ops(graph) == ops
    np.testing.assert_array_equal(meaning, expected)


@pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")
def test_a_transposed_gemm_of_integers() -> None:
    text = "(float[3, 6] x) => (float[] y) " + PARAMETERS
    body = (
        HEAD + "k = DequantizeLinear(v, h, zero) e = DequantizeLinear(vb, hs, izero)"
        " c = Gemm<transB=1>(d, k, e) " + TAIL
    )
    graph, expected, meaning = _prepared(body, text)
    assert _quantised_ops(graph) == ["MatMul"]
    np.testing.assert_array_equal(meaning, expected)


def test_a_requantisation_reads_integers() -> None:
    """ONNX Runtime merges such a file's two pairs into one with other scales; the file is meant."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[9] x) => (float[9] y) {PARAMETERS}'
        f"{{ {HEAD} r = QuantizeLinear(d, t, o) y = DequantizeLinear(r, t, o) }}"
    )
    graph = prepare(read_onnx(model.SerializeToString()))
    assert [n.op for n in graph.nodes] == ["QuantizeLinear", "QuantizeLinear", "DequantizeLinear"]
    x = np.linspace(-3, 4, 9, dtype=np.float32)
    scale, coarse = np.float32(0.02), np.float32(0.05)
    real = np.clip(np.rint(x / scale), -100, 155).astype(np.float32) * scale
    expected = np.clip(np.rint(real / coarse), 0, 255).astype(np.float32) * coarse
    np.testing.assert_array_equal(evaluate(graph, {"x": x})[id(graph.outputs[0])], expected)


@pytest.mark.parametrize(
    "body",
    [
        HEAD + "c = Softmax(d) " + TAIL,
        HEAD + WEIGHTS + "y = Conv(d, k) ",
        HEAD + WEIGHTS + "c = Conv(x, k) " + TAIL,
        HEAD + "c = Add(d, x) " + TAIL,
    ],
)
def test_what_stays_float(body: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g {IMAGE} {{ {body} }}'
    )
    model.graph.initializer.extend(numpy_helper.from_array(ARRAYS[n], n) for n in ("w", "ws", "wz"))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    data = model.SerializeToString()
    graph = prepare(read_onnx(data))
    assert not _quantised_ops(graph)
    x = np.random.default_rng(0).uniform(-3, 4, (2, 4, 6, 6)).astype(np.float32)
    expected = run_model(data, {"x": x})["y"]
    np.testing.assert_array_equal(GraphRunner(graph).run({"x": x})[0], expected)


def test_a_float_bias_becomes_int32_of_the_products_scale() -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g {IMAGE}'
        f"{{ {HEAD} {WEIGHTS} c = Conv(d, k, fb) {TAIL} }}"
    )
    names = ("w", "ws", "wz", "fb")
    model.graph.initializer.extend(numpy_helper.from_array(ARRAYS[n], n) for n in names)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    data = model.SerializeToString()
    graph = prepare(read_onnx(data))
    x = np.random.default_rng(0).uniform(-3, 4, (2, 4, 6, 6)).astype(np.float32)
    if cpu_matches():  # ONNX Runtime quantises the bias likewise (WeightBiasQuantization)
        meaning = evaluate(graph, {"x": x})[id(graph.outputs[0])]
        np.testing.assert_array_equal(meaning, run_model(data, {"x": x})["y"])
    conv = next(n for n in graph.nodes if n.op == "Conv")
    bias = conv.input(2)
    assert bias.type.quant is not None
    np.testing.assert_array_equal(bias.type.quant.scale, np.float32(0.02) * ARRAYS["ws"])
    np.testing.assert_allclose(
        bias.data * bias.type.quant.scale, ARRAYS["fb"], atol=float(bias.type.quant.scale.max())
    )


@pytest.mark.peer
@pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")
@pytest.mark.parametrize(
    ("name", "products", "left"),
    [
        ("resnet8", 10, {"DequantizeLinear": 1, "Softmax": 1, "QuantizeLinear": 1}),
        ("vww_mbv1", 28, {"DequantizeLinear": 1, "Softmax": 1, "QuantizeLinear": 1}),
        ("ad_autoenc", 10, {}),
    ],
)
def test_shipped_int8_models(
    reference: Any, name: str, products: int, left: dict[str, int]
) -> None:
    path = reference / "models" / "onnx" / f"mlperf_tiny_{name}_int8.onnx"
    graph = prepare(read_onnx(path))
    counts = Counter(n.op for n in graph.nodes)
    assert counts["Conv"] + counts["MatMul"] == products
    borders = ("DequantizeLinear", "Softmax", "QuantizeLinear")
    assert {op: counts[op] for op in borders if counts[op]} == left
    generator = np.random.default_rng(0)
    (x,) = graph.inputs
    last = next((n.input(0) for n in graph.nodes if n.op == "DequantizeLinear"), graph.outputs[0])
    runner = GraphRunner(graph, (last, *graph.outputs))
    for _ in range(8):
        data = generator.integers(-128, 128, x.type.shape).astype(np.int8)
        meaning = evaluate(graph, {x.name: data})
        stored, result = runner.run({x.name: data})
        np.testing.assert_array_equal(meaning[id(last)], stored)
        np.testing.assert_array_equal(
            run_model(path, {x.name: data})[graph.outputs[0].name], result
        )
