from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.passes.pipeline import prepare


def _model(
    shape: tuple[int, ...], weights: tuple[int, ...], normalise: bool, **attrs: object
) -> bytes:
    generator = np.random.default_rng(0)
    channels = weights[1] * int(str(attrs.get("group", 1)))
    arrays = {"w": generator.standard_normal(weights), "b": generator.standard_normal(channels)}
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], **attrs)]
    if normalise:
        arrays |= {n: generator.uniform(0.5, 2, channels) for n in ("s", "t", "m", "v")}
        nodes.append(helper.make_node("BatchNormalization", ["c", "s", "t", "m", "v"], ["y"]))
    else:
        nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


def _agrees(model: bytes, ops: list[str] | None = None) -> None:
    graph = prepare(read_onnx(model))
    assert "ConvTranspose" not in {n.op for n in graph.nodes}
    if ops is not None:
        assert [n.op for n in graph.nodes] == ops
    x = np.random.default_rng(1).standard_normal(graph.inputs[0].type.shape).astype(np.float32)
    expected = run_model(model, {"x": x})["y"]
    found = GraphRunner(graph).run({"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("normalise", [True, False])
def test_what_follows_joins_the_convolution(normalise: bool) -> None:
    model = _model((1, 3, 5, 6), (3, 4, 2, 2), normalise, strides=[2, 2])
    _agrees(model, ["Conv", "DepthToSpace"])


def test_stride_one_is_one_convolution() -> None:
    _agrees(_model((1, 3, 5, 6), (3, 4, 3, 3), False, pads=[1, 1, 1, 1]), ["Conv"])


@settings(max_examples=60)
@given(st.data())
def test_the_same_numbers(data: st.DataObject) -> None:
    rank, group = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    integers = lambda low, high: data.draw(  # noqa: E731
        st.lists(st.integers(low, high), min_size=rank, max_size=rank)
    )
    kernel, strides = integers(1, 5), integers(1, 3)
    attrs: dict[str, object] = {"strides": strides, "group": group}
    mode = data.draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID", "shape"]))
    sizes = integers(2, 5)
    if mode == "pads":
        attrs["pads"] = [min(p, k - 1) for p, k in zip(integers(0, 3) * 2, kernel * 2, strict=True)]
        attrs["output_padding"] = [
            min(p, s - 1) for p, s in zip(integers(0, 2), strides, strict=True)
        ]
    elif mode == "shape":
        attrs["output_shape"] = [n * s for n, s in zip(sizes, strides, strict=True)]
    else:
        attrs["auto_pad"] = mode
    _agrees(_model((2, 2 * group, *sizes), (2 * group, 3, *kernel), False, **attrs))
