from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx

from ridgeline.compiler.pipeline import compile
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.execute import execute
from ridgeline.machine.loader import load_machine
from ridgeline.passes.outputs import compute_outputs, constants_last
from ridgeline.passes.pipeline import prepare


def _read(text: str) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    return model.SerializeToString()


def test_an_output_that_is_a_constant_or_an_input_is_computed() -> None:
    model = _read(
        "(float[2] x) => (float[2] x, float[1] c, float[2] y) <float[1] k = {3}>"
        "{ c = Neg(k) y = Relu(x) }"
    )
    graph = prepare(read_onnx(model))
    assert [v.name for v in graph.outputs] == ["x/output", "c", "y"]
    assert [n.op for n in graph.nodes] == ["Clip", "Identity", "Identity"]
    x = np.array([-1, 2], np.float32)
    program = compile(graph, load_machine("tiny-16"))
    made = execute(program, {"x": x}, OnnxRuntimeExecutor())
    np.testing.assert_array_equal(made["c"], [-3])
    np.testing.assert_array_equal(made["x/output"], x)


def test_one_value_as_two_outputs() -> None:
    graph = read_onnx(_read("(float[2] x) => (float[2] y) { y = Neg(x) }"))
    doubled = compute_outputs(replace(graph, outputs=graph.outputs * 2))
    first, second = GraphRunner(doubled).run({"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(first, second)


def test_constants_stand_last() -> None:
    graph = read_onnx(_read("(float[2] x) => (float[2] y) <float[2] k = {1, 2}>{ y = Mul(k, x) }"))
    (node,) = constants_last(graph).nodes
    assert node.input(0).name == "x"
    assert node.input(1).name == "k"
