from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.compiler.pipeline import compile
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import OnnxRuntimeExecutor, run_model
from ridgeline.machine.execute import execute
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment
from ridgeline.passes.pipeline import prepare

IMAGE = "(uint8[1, 4, 6, 5] x) => (uint8[1, 3, 6, 5] y)"
CONV = "y = QLinearConv<pads = [1, 1, 1, 1]>(x, xs, xz, w, ws, wz, ys, yz, b)"
ROWS = "(uint8[2, 5, 4] x) => (uint8[2, 5, 3] y)"


def _model(text: str, **arrays: Any) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model.SerializeToString()


def _arrays(shape: tuple[int, ...], scales: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    per_channel = rng.uniform(0.01, 0.1, scales).astype(np.float32)
    return {
        "xs": np.float32(0.1),
        "xz": np.uint8(120),
        "w": rng.integers(-127, 127, shape, dtype=np.int8),
        "ws": per_channel if scales > 1 else per_channel[0],
        "wz": np.zeros(scales, np.int8) if scales > 1 else np.int8(0),
        "ys": np.float32(1.5),
        "yz": np.uint8(100),
    }


@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("product", ["conv", "matmul"])
def test_it_runs_on_the_device_bit_for_bit(product: str, scales: int) -> None:
    if product == "conv":
        bias = np.array([100, -200, 300], np.int32)
        model = _model(f"{IMAGE} {{ {CONV} }}", b=bias, **_arrays((3, 4, 3, 3), scales))
    else:
        text = f"{ROWS} {{ y = QLinearMatMul(x, xs, xz, w, ws, wz, ys, yz) }}"
        model = _model(text, **_arrays((4, 3), scales))
    graph = prepare(read_onnx(model))
    assert [n.op for n in graph.nodes] == ["Conv" if product == "conv" else "MatMul"]
    program = compile(graph, load_machine("tiny-16"))
    assert any(isinstance(s, DeviceSegment) for s in program.segments)
    x = np.random.default_rng(1).integers(0, 255, graph.inputs[0].type.shape, dtype=np.uint8)
    made = execute(program, {"x": x}, OnnxRuntimeExecutor())["y"]
    np.testing.assert_array_equal(made, run_model(model, {"x": x})["y"])


def test_two_in_a_row_share_the_quantisation_between_them() -> None:
    second = "y = QLinearConv(h, ys, yz, v, vs, vz, ys, yz)"
    first = CONV.replace("y = ", "h = ", 1)
    extra = {"v": np.ones((3, 3, 1, 1), np.int8), "vs": np.float32(0.5), "vz": np.int8(0)}
    arrays = _arrays((3, 4, 3, 3), 1) | extra | {"b": np.zeros(3, np.int32)}
    graph = prepare(read_onnx(_model(f"{IMAGE} {{ {first} {second} }}", **arrays)))
    assert [n.op for n in graph.nodes] == ["Conv", "Conv"]
    assert str(graph.nodes[0].output.type.quant) == "quant(1.5, 100)"


def test_computed_scales_stay_on_the_host() -> None:
    text = f"(uint8[1, 4, 6, 5] x, float xs) => (uint8[1, 3, 6, 5] y) {{ {CONV} }}"
    arrays = _arrays((3, 4, 3, 3), 1) | {"b": np.zeros(3, np.int32)}
    del arrays["xs"]
    assert [n.op for n in read_onnx(_model(text, **arrays)).nodes] == ["QLinearConv"]
