from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from functions import CONSTANTS, SPELLED, function_after_convolution, function_model
from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.functions import fuse_functions, inline_functions
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

X = np.random.default_rng(0).uniform(-5, 5, (2, 6, 5, 3)).astype(np.float32)


def parsed(nodes: str, outputs: str = "float[2, 6, 5, 3] y") -> Graph:
    text = f"agraph (float[2, 6, 5, 3] x) => ({outputs}) {CONSTANTS} {{ {nodes} }}"
    return prepare(
        read_onnx(
            onnx.parser.parse_model(
                f'<ir_version: 9, opset_import: ["" : 20]> {text}'
            ).SerializeToString()
        )
    )


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("name", SPELLED)
def test_one_node_that_computes_the_same(name: str) -> None:
    model = function_model(name).SerializeToString()
    expected = run_model(model, {"x": X})["y"]
    fused = fuse_functions(prepare(read_onnx(model)))
    assert operators(fused) == ["Lookup"]
    spelled = inline_functions(fused)
    assert "Lookup" not in operators(spelled)
    for graph in (fused, spelled):
        (found,) = GraphRunner(graph).run({"x": X})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Add(x, three)",
        "y = Mul(x, x)",
        "a = Mul(x, two) y = Clip(a, zero, six)",
    ],
)
def test_what_the_vector_unit_has_stays(nodes: str) -> None:
    assert "Lookup" not in operators(fuse_functions(parsed(nodes)))


def test_two_results_of_one_region_are_two_tables() -> None:
    graph = parsed("s = Sigmoid(x) y = Mul(x, s)", "float[2, 6, 5, 3] y, float[2, 6, 5, 3] s")
    fused = fuse_functions(graph)
    assert operators(fused) == ["Lookup", "Lookup"]
    for form in (fused, inline_functions(fused)):
        y, s = GraphRunner(form).run({"x": X})
        np.testing.assert_allclose(s, 1 / (1 + np.exp(-X)), rtol=1e-5)
        np.testing.assert_allclose(y, X * s, rtol=1e-5)


def test_two_tensors_are_no_function_of_one() -> None:
    graph = parsed("t = ReduceMax<keepdims = 1>(x) s = Sub(x, t) y = Exp(s)")
    fused = fuse_functions(graph)
    assert operators(fused) == ["ReduceMax", "Sub", "Lookup"]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", SPELLED)
def test_the_table_is_what_onnx_runtime_stores(name: str, dtype: str) -> None:
    """Of a tensor of odd size, so that vectors' tails are met; the file itself in ONNX Runtime."""
    model = function_model(name, "3, 5, 7")
    x = np.random.default_rng(1).uniform(-6, 4, (3, 5, 7)).astype(np.float32)
    graph = quantize(read_onnx(model.SerializeToString()), {"x": x}, Recipe(activations=dtype))
    assert operators(graph) == ["QuantizeLinear", "Lookup", "DequantizeLinear"]
    expected = run_model(onnx_bytes(graph), {"x": x})["y"]
    made = evaluate(graph, {"x": x})[id(graph.outputs[0])]
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("name", ["silu", "gelu by erf", "leaky", "hard-swish by division"])
def test_a_quantised_file_gives_the_same_tables(name: str) -> None:
    model = function_after_convolution(name)
    rng = np.random.default_rng(2)
    for value in list(model.graph.input)[1:]:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        data = rng.normal(0, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, value.name))
        model.graph.input.remove(value)
    image = rng.normal(0, 1, (1, 6, 9, 8)).astype(np.float32)
    graph = quantize(read_onnx(model.SerializeToString()), {"image": image})
    again = prepare(read_onnx(onnx_bytes(graph)))
    found, wanted = ([n for n in g.nodes if n.op == "Lookup"] for g in (again, graph))
    assert len(wanted) == 1
    assert [n.op for n in again.nodes] == [n.op for n in graph.nodes]
    assert np.array_equal(found[0].input(1).data, wanted[0].input(1).data)  # type: ignore[arg-type]


def test_int16_activations_keep_functions_in_float() -> None:
    model = function_after_convolution("silu")
    for value in list(model.graph.input)[1:]:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        data = np.ones(shape, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(data, value.name))
        model.graph.input.remove(value)
    image = np.ones((1, 6, 9, 8), np.float32)
    recipe = Recipe(activations="int16")
    graph = quantize(read_onnx(model.SerializeToString()), {"image": image}, recipe)
    assert "Lookup" not in operators(graph)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_slopes_of_channels_are_what_onnx_runtime_stores(dtype: str) -> None:
    rng = np.random.default_rng(4)
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[2, 6, 5, 3] x) => (float[2, 6, 5, 3] y) { y = PRelu(x, slope) }"""
    )
    slope = rng.normal(0, 1, (6, 1, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(slope, "slope"))
    graph = quantize(read_onnx(model.SerializeToString()), {"x": X}, Recipe(activations=dtype))
    assert operators(graph) == ["QuantizeLinear", "PRelu", "DequantizeLinear"]
    written = onnx_bytes(graph)
    made = evaluate(graph, {"x": X})[id(graph.outputs[0])]
    assert np.array_equal(made, run_model(written, {"x": X})["y"])
    assert operators(prepare(read_onnx(written))) == operators(graph)


def test_a_table_has_no_meaning_in_float() -> None:
    fused = fuse_functions(parsed("y = Sigmoid(x)"))
    with pytest.raises(RidgelineError, match="Lookup is defined for stored integers only"):
        evaluate(fused, {"x": X})
