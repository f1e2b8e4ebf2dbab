from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.numerics.formats import FP32
from ridgeline.passes.pipeline import prepare
from ridgeline.passes.precision import in_float32
from ridgeline.quant.quantize import quantize


def _read(element: str, dtype: Any) -> Any:
    text = (
        f"({element}[2, 3] x) => ({element}[2, 4] y) {{ p = MatMul(x, w) f = Cast<to=1>(p) "
        f"r = Relu(f) c = CastLike(r, x) y = Softmax(c) }}"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    weights = np.random.default_rng(0).standard_normal((3, 4)).astype(dtype)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return read_onnx(model.SerializeToString())


@pytest.mark.parametrize(
    ("element", "dtype", "tolerance"), [("float16", np.float16, 2e-3), ("double", np.float64, 1e-6)]
)
def test_inside_is_float32(element: str, dtype: Any, tolerance: float) -> None:
    graph = _read(element, dtype)
    wide = prepare(in_float32(graph))
    assert [v.type.dtype for v in wide.inputs] == [v.type.dtype for v in graph.inputs]
    inner = [v.type.dtype for n in wide.nodes[:-1] for v in n.outputs]
    assert all(d is FP32 for d in inner)
    x = {"x": np.random.default_rng(1).standard_normal((2, 3)).astype(dtype)}
    (found,), (expected,) = GraphRunner(wide).run(x), GraphRunner(graph).run(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_a_half_precision_model_is_quantised() -> None:
    graph = _read("float16", np.float16)
    samples = {"x": np.random.default_rng(1).standard_normal((8, 3)).astype(np.float16)}
    quantised = quantize(graph, samples)
    assert any(n.op == "MatMul" and n.output.type.quant for n in quantised.nodes)


def test_a_float32_graph_is_itself() -> None:
    graph = _read("float", np.float32)
    assert in_float32(graph) is graph


def test_a_node_that_names_a_format_leaves_the_graph_as_it_is() -> None:
    text = (
        "(int32[2, 2] m, float16[2] x) => (float16[2, 2] y) {"
        " e = EyeLike<dtype=10>(m) y = Mul(x, e) }"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    graph = read_onnx(model.SerializeToString())
    assert in_float32(graph) is graph
