from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import cpu_matches, create_session
from ridgeline.ir import Graph
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

matching_cpu = pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")
GENERATOR = np.random.default_rng(0)
BODY = """
    c = Conv<pads=[1, 1, 1, 1]>(x, w, b)
    r = Relu(c)
    d = Conv<group=6, pads=[1, 1, 1, 1]>(r, dw, b)
    s = Clip(d, zero, six)
    e = Conv(s, pw)
    a = Add(e, r)
    m = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(a)
    v = AveragePool<kernel_shape=[2, 2], strides=[2, 2]>(a)
    k = Concat<axis=1>(m, v)
    u = Mul(k, scale)
    t = Transpose<perm=[0, 2, 3, 1]>(u)
    p = MatMul(t, dense)
    q = Add(p, db)
    n = Transpose<perm=[0, 3, 1, 2]>(q)
    z = ReduceMean<axes=[2, 3], keepdims=0>(n)
    y = Softmax<axis=1>(z)
"""
ARRAYS: dict[str, Any] = {
    "w": GENERATOR.standard_normal((6, 3, 3, 3)).astype(np.float32),
    "b": GENERATOR.standard_normal(6).astype(np.float32),
    "dw": GENERATOR.standard_normal((6, 1, 3, 3)).astype(np.float32),
    "pw": GENERATOR.standard_normal((6, 6, 1, 1)).astype(np.float32),
    "scale": GENERATOR.uniform(0.5, 2, (1, 12, 4, 4)).astype(np.float32),
    "dense": GENERATOR.standard_normal((12, 5)).astype(np.float32),
    "db": GENERATOR.standard_normal(5).astype(np.float32),
}
SAMPLES = {"x": GENERATOR.standard_normal((32, 3, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def graph() -> Graph:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[N, 3, 8, 8] x) => (float[N, 5] y)'
        f" <float zero = {{0}}, float six = {{6}}> {{ {BODY} }}"
    )
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in ARRAYS.items())
    return read_onnx(model.SerializeToString(), batch=4)


RECIPES = {
    "uint8": Recipe(),
    "int8": Recipe(activations="int8"),
    "per tensor": Recipe(per_channel=False),
    "int8 per tensor": Recipe(activations="int8", per_channel=False),
    "uint8 weights": Recipe(weights="uint8"),
    "percentile": Recipe(observer="percentile", percentile=99.9),
    "kept": Recipe(keep_float=("d", "GlobalAveragePool")),
}


@matching_cpu
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_the_quantised_file_in_onnx_runtime_is_the_graphs_meaning(
    graph: Graph, recipe: Recipe
) -> None:
    quantised = quantize(graph, SAMPLES, recipe)
    onnx.checker.check_model(onnx.load_from_string(onnx_bytes(quantised)), full_check=True)
    stored = [v for n in quantised.nodes for v in n.outputs if v.type.quant is not None]
    batch = {"x": SAMPLES["x"][:4]}
    meaning = evaluate(quantised, batch)
    # The logits on their own, as exposing all values splits what ONNX Runtime would fuse.
    logits = quantised.nodes[-1].input(0)
    found = GraphRunner(quantised, [logits]).run(batch)[0]
    if recipe.keep_float:  # float32 sums in another order, so that rounding may differ by a step
        np.testing.assert_allclose(found, meaning[id(logits)], atol=0.05)
        return
    np.testing.assert_array_equal(found, meaning[id(logits)])
    for value in stored:
        array = GraphRunner(quantised, [value]).run(batch)[0]
        np.testing.assert_array_equal(array, meaning[id(value)], value.name)


@matching_cpu
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_everything_fuses_into_integer_kernels(
    graph: Graph, activations: Any, tmp_path: Path
) -> None:
    quantised = quantize(graph, SAMPLES, Recipe(activations=activations))
    path = tmp_path / "optimised.onnx"
    create_session(onnx_bytes(quantised), str(path))
    kernels = Counter(n.op_type for n in onnx.load(path).graph.node)
    for kernel, count in {
        "QLinearConv": 3,
        "QLinearAdd": 1,
        "QLinearMul": 1,
        "QLinearConcat": 1,
        "QLinearAveragePool": 1,
        "QLinearGlobalAveragePool": 1,
        "QGemm": 1,
        "QuantizeLinear": 1,
        "DequantizeLinear": 1,
        "Softmax": 1,
        "Relu": 0,
        "Clip": 0,
    }.items():
        assert kernels[kernel] == count, (kernel, kernels)


def test_int16_is_nearer_to_float(graph: Graph) -> None:
    batch = {"x": SAMPLES["x"][:4]}
    exact = GraphRunner(graph).run(batch)[0]
    errors = []
    for activations in ("uint8", "int16"):
        quantised = quantize(graph, SAMPLES, Recipe(activations=activations))  # type: ignore[arg-type]
        errors.append(np.abs(evaluate(quantised, batch)[id(quantised.outputs[0])] - exact).max())
    assert errors[1] < errors[0]


def test_the_stages_text(graph: Graph, golden: Callable[[str, str], None]) -> None:
    golden("quant/net_uint8.txt", str(quantize(graph, SAMPLES)))


def test_the_contract_of_quantised_products(graph: Graph) -> None:
    quantised = quantize(graph, SAMPLES)
    for node in quantised.nodes:
        if node.op not in ("Conv", "MatMul"):
            continue
        x, w = node.input(0).type.quant, node.input(1).type.quant
        assert x is not None
        assert w is not None
        assert w.axis == (0 if node.op == "Conv" else 1)
        bias = node.optional(2)
        if bias is not None:
            assert bias.type.quant is not None
            np.testing.assert_array_equal(bias.type.quant.scale, x.scale * w.scale)
        if "clip" in node.attrs:
            assert node.output.type.quant is not None
            assert int(node.output.type.quant.zero_point) == 0


def test_borders_are_float_and_keep_their_names(graph: Graph) -> None:
    quantised = quantize(graph, SAMPLES)
    assert [str(v) for v in quantised.inputs] == ["%x: fp32[4,3,8,8]"]
    assert [str(v) for v in quantised.outputs] == ["%y: fp32[4,5]"]
    assert quantised.nodes[0].op == "QuantizeLinear"
    assert [n.op for n in quantised.nodes[-2:]] == ["DequantizeLinear", "Softmax"]


def test_what_was_written_reads_back_as_the_same_graph(graph: Graph) -> None:
    quantised = quantize(graph, SAMPLES)
    again = prepare(read_onnx(onnx_bytes(quantised)))
    # The dense layer on four dimensions is written as a Gemm on rows between two reshapes.
    dense = [n.op for n in again.nodes].index("MatMul")
    assert [n.op for n in again.nodes[dense - 1 : dense + 2]] == ["Reshape", "MatMul", "Reshape"]
    kept = [n.op for i, n in enumerate(again.nodes) if i not in (dense - 1, dense + 1)]
    assert kept == [n.op for n in quantised.nodes]
    batch = {"x": SAMPLES["x"][:4]}
    np.testing.assert_array_equal(
        evaluate(again, batch)[id(again.outputs[0])],
        evaluate(quantised, batch)[id(quantised.outputs[0])],
    )


def test_a_quantised_graph_is_refused(graph: Graph) -> None:
    quantised = quantize(graph, SAMPLES)
    with pytest.raises(RidgelineError, match=r"graph 'net': the model is quantised already\. Run"):
        quantize(quantised, SAMPLES)


def test_an_output_in_the_middle_and_two_readers(graph: Graph) -> None:
    middle = next(n.output for n in graph.nodes if n.op == "Add")
    quantised = quantize(replace(graph, outputs=(middle, *graph.outputs)), SAMPLES)
    batch = {"x": SAMPLES["x"][:4]}
    found = GraphRunner(quantised).run(batch)
    exact = GraphRunner(graph, (middle, *graph.outputs)).run(batch)
    assert [v.name for v in quantised.outputs] == ["a", "y"]
    assert np.abs(found[0] - exact[0]).max() < 0.05 * np.abs(exact[0]).max()


ACCURACY_RECIPES = ("uint8", "int8", "per tensor", "percentile", "uint8 weights")


def _accuracy(graph: Graph, images: Any, labels: Any) -> float:
    probabilities = GraphRunner(graph).run({graph.inputs[0].name: images})[0]
    return float((probabilities.argmax(axis=1) == labels).mean())


@pytest.mark.parametrize("name", ACCURACY_RECIPES)
def test_digits_stay_within_half_a_point_of_float(shipped: Any, name: str) -> None:
    with np.load(shipped.test) as data, np.load(shipped.calibration) as calibration:
        images, labels = data["image"], data["labels"]
        samples = {"image": calibration["image"]}
    graph = read_onnx(shipped.model, batch=len(images))
    quantised = quantize(graph, samples, RECIPES[name])
    exact = _accuracy(graph, images, labels)
    assert _accuracy(quantised, images, labels) >= exact - 0.005


@matching_cpu
def test_digits_bit_for_bit(shipped: Any) -> None:
    with np.load(shipped.test) as data, np.load(shipped.calibration) as calibration:
        images, samples = data["image"], {"image": calibration["image"]}
    quantised = quantize(read_onnx(shipped.model, batch=len(images)), samples)
    logits = quantised.nodes[-1].input(0)
    found = GraphRunner(quantised, [logits]).run({"image": images})[0]
    np.testing.assert_array_equal(found, evaluate(quantised, {"image": images})[id(logits)])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("float", "y = Identity(x)"),
        ("float", "y = LogSoftmax(x)"),
        ("float", "y = com.microsoft.Trilu(x)"),
        ("float16", "y = Abs(x)"),
        ("int64", "y = Add(x, x)"),
    ],
)
def test_a_model_with_nothing_to_quantise_stays_as_it_is(kind: str, body: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
        f" g ({kind}[2, 3] x) => ({kind}[2, 3] y) {{ {body} }}"
    )
    graph = read_onnx(model.SerializeToString())
    samples = {"x": np.ones((4, 3), graph.inputs[0].type.dtype.numpy)}
    made = quantize(graph, samples)
    assert not [n for n in made.nodes if n.op == "QuantizeLinear"]
    assert len(GraphRunner(made).run({"x": samples["x"][:2]})) == 1
