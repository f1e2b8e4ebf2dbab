from __future__ import annotations

import numpy as np
import onnx
import pytest

from compile_cases import small_machine
from ridgeline.compiler import compile
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, run_model
from ridgeline.ir import Graph
from ridgeline.machine.execute import execute
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize

REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceSumSquare")
AXES = ("1", "2", "0", "1, 2", "0, 2", "-1, 0", "0, 1, 2")
X = np.random.default_rng(0).normal(0.3, 1, (2, 5, 6)).astype(np.float32)


def model(op: str, axes: str, keep: int = 0, shape: str = "2, 5, 6", then: str = "") -> bytes:
    """The reduction, and `then` what makes y of its result r."""
    count = len(axes.split(","))
    made = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[{shape}] x) => (float[] y) <int64[{count}] axes = {{{axes}}}> {{
            {"r" if then else "y"} = {op}<keepdims = {keep}>(x, axes) {then}
        }}"""
    )
    # Its shape as it is inferred: the parser has no way to leave it open.
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(made).SerializeToString()


def operators(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_windows_give_what_the_reduction_does(op: str, axes: str, keep: int) -> None:
    file = model(op, axes, keep)
    graph = prepare(read_onnx(file))
    assert operators(graph) & {"GlobalAveragePool", "MaxPool"}
    (found,) = GraphRunner(graph).run({"x": X})
    expected = run_model(file, {"x": X})["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("axes", ["1", "0, 2"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_on_the_device_with_onnx_runtimes_bits(op: str, axes: str) -> None:
    graph = quantize(read_onnx(model(op, axes)), {"x": X})
    program = compile(graph, small_machine())
    host = {layer.op for layer in program.layers if layer.placed == "host"}
    # Moves at the borders are the host's.
    assert host <= {"QuantizeLinear", "DequantizeLinear", "Reshape", "Transpose"}
    executed = execute(program, {"x": X}, OnnxRuntimeExecutor())
    (expected,) = GraphRunner(graph).run({"x": X})
    assert np.array_equal(executed["y"], expected)
    exact = run_model(model(op, axes), {"x": X})["y"]
    assert np.abs(executed["y"] - exact).max() < 0.05 * np.abs(exact).max()


def test_a_reduction_that_float_operators_read_stays() -> None:
    """As in a normalisation that no operator stands for."""
    graph = prepare(read_onnx(model("ReduceMean", "1", 1, then="y = Sub(x, r)")))
    assert "ReduceMean" in operators(graph)


def test_a_reduction_before_a_product_is_a_window() -> None:
    weights = "w = Constant<value = float[6, 1] {1, 2, 3, 4, 5, 6}>() y = MatMul(r, w)"
    graph = prepare(read_onnx(model("ReduceMean", "1", then=weights)))
    assert "GlobalAveragePool" in operators(graph)


@pytest.mark.parametrize(("shape", "axes"), [("1, 257, 3", "1"), ("1, 512, 256, 2", "1, 2")])
def test_what_no_instruction_holds_stays(shape: str, axes: str) -> None:
    graph = prepare(read_onnx(model("ReduceMax", axes, shape=shape)))
    assert "ReduceMax" in operators(graph)
