"""Windows as ONNX Runtime counts them: shapes and values over a grid of pools."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

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
