from __future__ import annotations

import numpy as np
import onnx
import pytest

from compile_cases import small_machine
from ridgeline.compiler import compile
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, run_model
from ridgeline.machine.execute import execute
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize

MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric")


def resized(mode: str, factor: int, by_size: bool, to: tuple[int, int] | None = None) -> bytes:
    height, width = to or (5 * factor, 7 * factor)
    given = (
        f"r, r, sizes) <float[0] r = {{}}, int64[4] sizes = {{2, 3, {height}, {width}}}>"
        if by_size
        else f"r, scales) <float[0] r = {{}}, float[4] scales = {{1, 1, {factor}, {factor}}}>"
    )
    call, constants = given.split(") ")
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g (float[2, 3, 5, 7] x) => (float[2, 3, {height}, {width}] y) {constants} {{
            y = Resize<mode = "linear", coordinate_transformation_mode = "{mode}">(x, {call})
        }}"""
    ).SerializeToString()


X = np.random.default_rng(0).normal(0, 1, (2, 3, 5, 7)).astype(np.float32)


@pytest.mark.parametrize("by_size", [False, True], ids=["scales", "sizes"])
@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("mode", MODES)
def test_convolutions_give_what_resize_does(mode: str, factor: int, by_size: bool) -> None:
    file = resized(mode, factor, by_size)
    graph = prepare(read_onnx(file))
    ops = [n.op for n in graph.nodes]
    assert ops == ["Pad", *["Conv"] * factor**2, "Concat", "DepthToSpace"]
    (found,) = GraphRunner(graph).run({"x": X})
    np.testing.assert_allclose(found, run_model(file, {"x": X})["y"], rtol=0, atol=3e-6)


@pytest.mark.parametrize(
    ("mode", "factor", "to"),
    [("align_corners", 2, None), ("half_pixel", 2, (10, 15)), ("half_pixel", 5, None)],
)
def test_other_resizes_stay(mode: str, factor: int, to: tuple[int, int] | None) -> None:
    graph = prepare(read_onnx(resized(mode, factor, True, to)))
    assert [n.op for n in graph.nodes] == ["Resize"]


@pytest.mark.parametrize("factor", [2, 4])
def test_on_the_device_with_onnx_runtimes_bits(factor: int) -> None:
    graph = quantize(read_onnx(resized("half_pixel", factor, False)), {"x": X})
    program = compile(graph, small_machine())
    host = {layer.op for layer in program.layers if layer.placed == "host"}
    assert host == {"QuantizeLinear", "DequantizeLinear"}
    executed = execute(program, {"x": X}, OnnxRuntimeExecutor())
    (expected,) = GraphRunner(graph).run({"x": X})
    assert np.array_equal(executed["y"], expected)
    exact = run_model(resized("half_pixel", factor, False), {"x": X})["y"]
    assert np.abs(executed["y"] - exact).max() < 0.02 * np.abs(exact).max()
