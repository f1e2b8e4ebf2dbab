from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.passes.pipeline import prepare

IMAGE = "(float[2, 4, 6, 5] x) => (float[] y)"
ROWS = "(float[2, 3, 4] x) => (float[] y)"


def _array(*shape: int) -> Any:
    array = np.random.default_rng(sum(shape)).standard_normal(shape)
    return np.abs(array).astype(np.float32) + 0.5


CONV = {"w": _array(6, 2, 3, 3), "b": _array(6), "s": _array(1, 4, 1, 1), "t": _array(4, 1, 1)}
NORM = {"w": _array(6, 4, 3, 3), **{n: _array(4) for n in ("g", "h", "m", "v")}}
MATMUL = {"w": _array(4, 5), "s": _array(4), "t": _array(1)}


@pytest.mark.parametrize(
    ("text", "arrays", "ops"),
    [
        (IMAGE + "{ a = Mul(x, s) c = Add(t, a) y = Conv<group=2>(c, w, b) }", CONV, ["Conv"]),
        (IMAGE + "{ a = BatchNormalization(x, g, h, m, v) y = Conv(a, w) }", NORM, ["Conv"]),
        (IMAGE + "{ a = Mul(x, s) y = Conv<group=2, pads=[1,1,1,1]>(a, w) }", CONV, ["Conv"]),
        (
            IMAGE + "{ a = Add(x, s) y = Conv<group=2, pads=[1,1,1,1]>(a, w) }",
            CONV,
            ["Add", "Conv"],
        ),
        (ROWS + "{ a = Sub(x, t) c = Mul(a, s) y = MatMul(c, w) }", MATMUL, ["MatMul"]),
        (ROWS + "{ a = Mul(x, s) r = Relu(a) y = MatMul(r, w) }", MATMUL, ["Mul", "MatMul"]),
    ],
)
def test_the_same_numbers(text: str, arrays: dict[str, Any], ops: list[str]) -> None:
    parsed = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 14]> g {text}')
    parsed.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    parsed.graph.output[0].type.tensor_type.ClearField("shape")
    model = parsed.SerializeToString()
    graph = prepare(read_onnx(model))
    assert [n.op for n in graph.nodes] == ops
    x = np.random.default_rng(1).standard_normal(graph.inputs[0].type.shape).astype(np.float32)
    expected = run_model(model, {"x": x})["y"]
    found = GraphRunner(graph).run({"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
