"""Windows as ONNX Runtime counts them: shapes and values over a grid of pools."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model

GENERATOR = np.random.default_rng(0)


def _pool(op: str, shape: tuple[int, ...], opset: int, **attributes: Any) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return bytes(made.SerializeToString())


def _agrees(model: bytes, shape: tuple[int, ...]) -> None:
    x = GENERATOR.standard_normal(shape).astype(np.float32)
    expected = run_model(model, {"x": x})["y"]
    graph = read_onnx(model)
    found = GraphRunner(graph).run({"x": x})[0]
    assert graph.outputs[0].type.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [5, 6, 8])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("counted", [0, 1])
def test_ceil_mode(op: str, size: int, counted: int) -> None:
    shape = (1, 2, size, size + 1)
    extra = {"count_include_pad": 1} if counted else {}
    if counted and op == "MaxPool":
        extra = {"dilations": [2, 2]}
    for kernel, stride, begin, end in itertools.product((1, 2, 3), (1, 2, 3), range(3), range(3)):
        span = kernel * 2 - 1 if "dilations" in extra else kernel
        if max(begin, end) < kernel and span <= size:
            pads = [begin, end, end, begin]
            model = _pool(
                op, shape, 17, kernel_shape=[kernel] * 2, strides=[stride, stride + 1], pads=pads,
                ceil_mode=1, **extra,
            )  # fmt: skip
            _agrees(model, shape)


def _text(body: str, **weights: tuple[int, ...]) -> bytes:
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 4, 4] x) => (float[] y)'
    model = onnx.parser.parse_model(f"{header} {{ {body} }}")
    for name, shape in weights.items():
        tensor = onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
        model.graph.initializer.append(tensor)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            _text("y = Conv(x, w)", w=(2, 5, 3, 3)),
            "g, node 'y' (Conv): weights fp32[2,5,3,3] with group 1 and an input of 3 channels do "
            "not fit: the weights take 5 x 1 = 5 channels",
        ),
        (
            _text("y = Conv<group=2>(x, w)", w=(2, 1, 3, 3)),
            "the weights take 1 x 2 = 2 channels and give 2, which group must divide",
        ),
        (
            _text("y = Conv<group=3>(x, w)", w=(4, 1, 3, 3)),
            "the weights take 1 x 3 = 3 channels and give 4, which group must divide",
        ),
        (_text("y = Conv<group=0>(x, w)", w=(2, 3, 3, 3)), "group is 0, and must be 1 or more"),
        (_text("y = Conv(x, w)", w=(0, 3, 3, 3)), "of 3 channels: a convolution of nothing"),
        (
            _text("y = Conv(x, w, b)", w=(2, 3, 3, 3), b=(5,)),
            "the bias fp32[5] does not fit weights fp32[2,3,3,3]",
        ),
        (
            _text("y = Conv(x, w)", w=(2, 3, 7, 7)),
            "g, node 'y' (Conv): a window reaches over [7, 7] elements, but the padded input has "
            "[4, 4]. Check --shape",
        ),
        (
            _text("y = MaxPool<kernel_shape=[3, 3], dilations=[2, 2], ceil_mode=1>(x)"),
            "g, node 'y' (MaxPool): a window reaches over [5, 5] elements",
        ),
        (
            _text('y = MaxPool<kernel_shape=[2, 2], dilations=[2, 1], auto_pad="SAME_UPPER">(x)'),
            "ONNX and ONNX Runtime pad a dilated pool with auto_pad SAME_UPPER differently. Export",
        ),
        (
            _text("y = AveragePool<kernel_shape=[2, 2], pads=[0, 0, 2, 0]>(x)"),
            "g, node 'y' (AveragePool): pads [0, 0, 2, 0] are not all smaller than the kernel",
        ),
    ],
)
def test_windows_and_channels_that_do_not_fit(model: bytes, text: str) -> None:
    with pytest.raises(RidgelineError, match=re.escape(text)):
        read_onnx(model)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER"])
def test_ceil_mode_with_auto_pad(op: str, mode: str) -> None:
    for size, kernel, stride in itertools.product((5, 6), (2, 3), (2, 3)):
        if stride > kernel and mode != "VALID":
            continue  # ONNX Runtime refuses its own padding
        shape = (1, 2, size)
        model = _pool(
            op, shape, 18, kernel_shape=[kernel], strides=[stride], auto_pad=mode, ceil_mode=1
        )
        _agrees(model, shape)
