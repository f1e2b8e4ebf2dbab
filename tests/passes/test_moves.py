from __future__ import annotations

import numpy as np
import onnx
import pytest

from moves import MOVES, move_model
from ridgeline.errors import RidgelineError
from ridgeline.frontend.evaluate import evaluate_constant
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.functions import inline_functions
from ridgeline.passes.moves import fuse_moves
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize


def fused(model: onnx.ModelProto) -> Graph:
    return fuse_moves(prepare(read_onnx(model.SerializeToString())), evaluate_constant)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("name", MOVES)
def test_an_index_that_says_what_onnx_runtime_does(name: str) -> None:
    model = move_model(name)
    graph = fused(model)
    assert operators(graph) == ["Move"]
    x = np.random.default_rng(0).normal(size=graph.inputs[0].type.shape).astype(np.float32)
    expected = run_model(model.SerializeToString(), {"x": x})["y"]
    meaning = evaluate(graph, {"x": x})[id(graph.outputs[0])]
    assert np.array_equal(meaning, expected)
    spelled = inline_functions(graph)
    assert "Move" not in operators(spelled)
    for form in (graph, spelled):
        assert np.array_equal(GraphRunner(form).run({"x": x})[0], expected)


@pytest.mark.parametrize("name", MOVES)
def test_quantised_it_is_what_onnx_runtime_does(name: str) -> None:
    model = move_model(name)
    graph = read_onnx(model.SerializeToString())
    x = np.random.default_rng(0).normal(size=graph.inputs[0].type.shape).astype(np.float32)
    quantised = quantize(graph, {"x": x})
    assert operators(quantised) == ["QuantizeLinear", "Move", "DequantizeLinear"]
    written = onnx_bytes(quantised)
    made = evaluate(quantised, {"x": x})[id(quantised.outputs[0])]
    assert np.array_equal(made, run_model(written, {"x": x})["y"])
    again = prepare(read_onnx(written))
    assert operators(again) == operators(quantised)


def test_results_that_nobody_reads_are_not_made() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[2, 9] x) => (float[2, 3] y) { a, y, b = Split<axis = 1, num_outputs = 3>(x) }"""
    )
    graph = fused(model)
    assert [node.name for node in graph.nodes] == ["a/1"] or operators(graph) == ["Move"]
    x = np.arange(18, dtype=np.float32).reshape(2, 9)
    assert np.array_equal(GraphRunner(graph).run({"x": x})[0], x[:, 3:6])


@pytest.mark.parametrize(
    "nodes",
    [
        '<float[4] r = {1, 1, 2, 2}> { y = Resize<mode = "linear">(x, , r) }',
        "{ y = ScatterElements(x, i, x) }",
    ],
)
def test_what_computes_is_no_move(nodes: str) -> None:
    text = f"g (float[1, 2, 3, 4] x, int64[1, 2, 3, 4] i) => (float[] y) {nodes}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert "Move" not in operators(fused(model))


def test_an_index_beyond_the_input_is_refused() -> None:
    (node,) = fused(move_model("line")).nodes
    with pytest.raises(RidgelineError, match="Move takes elements 0 to 11 of 11"):
        PRIMITIVES["Move"].infer((node.input(0).type,), {"index": np.asarray([0, 11])})
