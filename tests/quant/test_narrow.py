"""Ranges lose the parts in which a function is flat, and nothing that matters."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.numerics.formats import INT8, UINT8, DType
from ridgeline.passes.functions import fuse_functions
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.narrow import narrow_ranges


def _graph(body: str) -> Graph:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 8, 8] x) => (float[] y)'
        f" <float three = {{3}}, float zero = {{0}}, float six = {{6}}> {{ {body} }}"
    )
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return fuse_functions(prepare(read_onnx(model.SerializeToString())))


def _narrowed(body: str, x: tuple[float, float], y: tuple[float, float], dtype: DType = UINT8):
    graph = _graph(body)
    conv = next(n for n in graph.nodes if n.op == "Conv").output
    ranges = {id(conv): x}
    ranges |= {id(n.output): y for n in graph.nodes if n.op == "Lookup"}
    return narrow_ranges(graph, graph.nodes, ranges, dtype)[id(conv)]


@pytest.mark.parametrize("dtype", [UINT8, INT8], ids=str)
def test_hard_swish_is_zero_below_minus_three(dtype: DType) -> None:
    low, high = _narrowed("c = Conv(x, w) y = HardSwish(c)", (-60, 20), (-0.375, 20), dtype)
    assert high == pytest.approx(20, rel=0.01)
    # Rounding to steps of 20 / 255 hides what lies within half a step of zero.
    assert -3 <= low < -2.5


def test_both_ends_of_hard_sigmoid() -> None:
    body = "c = Conv(x, w) y = HardSigmoid<alpha = 0.1666667, beta = 0.5>(c)"
    low, high = _narrowed(body, (-50, 40), (0, 1))
    assert -3.3 < low < -2.8
    assert 2.8 < high < 3.3


@pytest.mark.parametrize(
    ("body", "x", "y"),
    [
        ("c = Conv(x, w) y = HardSwish(c)", (-1.0, 4.0), (-0.34, 4.0)),
        ("c = Conv(x, w) h = HardSwish(c) y = Concat<axis = 1>(c, h)", (-60.0, 20.0), (-0.4, 20)),
        ("c = Conv(x, w) y = LeakyRelu<alpha = 0.1>(c)", (-60.0, 20.0), (-6, 20)),
        (
            "c = Conv(x, w) y = HardSigmoid<alpha = 0.000001, beta = 0.4>(c)",
            (-9.0, 9.0),
            (0, 1),
        ),
    ],
    ids=["nothing flat", "another reader", "a slope", "flat everywhere"],
)
def test_what_matters_stays(body: str, x: tuple[float, float], y: tuple[float, float]) -> None:
    assert _narrowed(body, x, y) == pytest.approx(x, rel=0.03)
