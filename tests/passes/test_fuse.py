from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.fuse import fuse

GENERATOR = np.random.default_rng(0)


def _array(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


ARRAYS = {
    "w": _array(6, 4, 3, 3),
    "b": _array(6),
    "channel": _array(6, 1, 1),
    "row": _array(1, 6),
    "dense": _array(5, 6),
}
IMAGE = "(float[2, 4, 7, 7] x) => (float[] y) <float six = {6}, float low = {-1}, float two = {2}> "
ROWS = "(float[2, 3, 5] x) => (float[] y) "


def _fused(text: str) -> Graph:
    """The fused graph, which computes what the model does, in ONNX Runtime and by meaning."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(a, n) for n, a in ARRAYS.items() if n in used
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    data = model.SerializeToString()
    graph = fuse(read_onnx(data))
    generator = np.random.default_rng(1)
    inputs = {
        v.name: generator.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs
    }
    expected = run_model(data, inputs)
    for value, found in zip(graph.outputs, GraphRunner(graph).run(inputs), strict=True):
        np.testing.assert_allclose(found, expected[value.name], rtol=1e-5, atol=1e-5)
        if all(node.op in PRIMITIVES for node in graph.nodes):
            meaning = evaluate(graph, inputs)[id(value)]
            np.testing.assert_allclose(meaning, expected[value.name], rtol=1e-4, atol=1e-4)
    return graph


@pytest.mark.parametrize(
    ("body", "clip"),
    [
        ("{ c = Conv(x, w, b) y = Relu(c) }", (0.0, None)),
        ("{ c = Conv(x, w, b) y = Clip(c, low, six) }", (-1.0, 6.0)),
        ("{ c = Conv(x, w, b) r = Relu(c) y = Clip(r, , six) }", (0.0, 6.0)),
        ("{ c = Conv(x, w, b) r = Clip(c, low, six) y = Relu(r) }", (0.0, 6.0)),
        ("{ c = Conv(x, w, b) r = Clip(c, , low) y = Relu(r) }", (0.0, 0.0)),
        ("{ c = Conv(x, w, b) r = Clip(c, six) y = Clip(r, , two) }", (2.0, 2.0)),
        ("{ c = Conv(x, w, b) a = Add(c, channel) y = Relu(a) }", (0.0, None)),
    ],
)
def test_activations_join(body: str, clip: tuple[float | None, float | None]) -> None:
    graph = _fused(IMAGE + body)
    assert [(n.op, n.attrs.get("clip")) for n in graph.nodes] == [("Conv", clip)]
    assert graph.nodes[0].output.name == "y"


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        (IMAGE + "{ c = Conv(x, w) y = Add(c, channel) }", ["Conv"]),
        (IMAGE + "{ c = Conv(x, w, b) y = Add(channel, c) }", ["Conv"]),
        (IMAGE + "{ c = Conv(x, w, b) y = Add(c, two) }", ["Conv"]),
        (ROWS + "{ p = MatMul(x, dense) y = Add(p, b) }", ["MatMul"]),
        (ROWS + "{ p = MatMul(x, dense) q = Add(p, b) y = Add(row, q) }", ["MatMul"]),
        (ROWS + "{ p = MatMul(x, dense) r = Relu(p) y = Add(r, b) }", ["MatMul", "Add"]),
        (IMAGE + "{ c = Conv(x, w, b) r = Relu(c) y = Add(c, r) }", ["Conv", "Clip", "Add"]),
        (IMAGE + "{ c = Conv(x, w, b) y = Add(c, c) }", ["Conv", "Add"]),
        (IMAGE + "{ p = GlobalAveragePool(x) y = Relu(p) }", ["GlobalAveragePool", "Clip"]),
        (IMAGE + "{ r = Relu(x) y = Clip(r, , six) }", ["Clip"]),
        (
            IMAGE + "{ c = Conv(x, w) m = MaxPool<kernel_shape=[2, 2]>(c) t = Transpose(m)"
            " y = Relu(t) }",
            ["Conv", "MaxPool", "Transpose"],
        ),
    ],
)
def test_what_joins_and_what_does_not(text: str, ops: list[str]) -> None:
    assert [n.op for n in _fused(text).nodes] == ops


def test_an_output_in_the_middle_stays() -> None:
    text = IMAGE.replace("y) <", "y, float[] c) <") + "{ c = Conv(x, w, b) y = Relu(c) }"
    assert [n.op for n in _fused(text).nodes] == ["Conv", "Clip"]


@pytest.mark.parametrize(
    ("pads", "mode", "joins"),
    [
        ("0, 0, 1, 2, 0, 0, 0, 3", "constant", True),
        ("0, 1, 0, 0, 0, 1, 0, 0", "constant", False),
        ("0, 0, -1, 0, 0, 0, 0, 0", "constant", False),
        ("0, 0, 1, 1, 0, 0, 1, 1", "reflect", False),
    ],
)
def test_padding_joins_the_convolution(pads: str, mode: str, joins: bool) -> None:
    weights = "w" if "1, 0, 0, 0, 1" not in pads else "w6"
    ARRAYS["w6"] = np.ones((6, 6, 3, 3), np.float32)
    graph = _fused(
        IMAGE.replace(" <float", f" <int64[8] pads = {{{pads}}}, float")
        + f'{{ p = Pad<mode="{mode}">(x, pads) c = Conv<pads=[1, 1, 1, 1]>(p, {weights})'
        " y = Relu(c) }"
    )
    assert [n.op for n in graph.nodes] == (["Conv"] if joins else ["Pad", "Conv"])
    if joins:
        assert graph.nodes[0].attrs["pads"] == (2, 3, 1, 4)
