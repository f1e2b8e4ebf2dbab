"""What ONNX Runtime refuses is told with the node that it means."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx

IMAGE = "float[1, 3, 4, 4] x"


@pytest.mark.parametrize(
    ("inputs", "body", "text"),
    [
        (
            f"{IMAGE}, float[5, 2, 3, 3] w",
            "t = ConvTranspose(x, w) y = Abs(t)",
            "node 't' (ConvTranspose): ONNX Runtime cannot run it: filter number not equal to "
            "input channel number. filter_number: 5 num_input_channels: 3. Check the inputs'",
        ),
        (
            IMAGE,
            "y = LpPool<kernel_shape=[7, 7]>(x)",
            "node 'y#1' (LpPool): ONNX Runtime cannot run it: out_size >= 0 was false. Calculated "
            "output dimension is negative",
        ),
        (
            IMAGE,
            "y = LpPool<kernel_shape=[2, 2], pads=[2, 2, 2, 2]>(x)",
            "graph 'g': ONNX Runtime cannot run it: pads[dim] < kernel_shape[dim]",
        ),
        (
            "float[3] x, int64[2] i",
            "r = Relu(x) y = Gather(r, i)",
            "node 'y' (Gather): ONNX Runtime cannot run it: indices element out of data bounds",
        ),
    ],
)
def test_the_node_is_named(inputs: str, body: str, text: str) -> None:
    header = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[] y)'
    model: Any = onnx.parser.parse_model(f"{header} {{ {body} }}")
    graph = read_onnx(model.SerializeToString())
    feed = {v.name: np.full(v.type.shape, 9, v.type.dtype.numpy) for v in graph.inputs}
    with pytest.raises(RidgelineError, match=re.escape(text)):
        GraphRunner(graph).run(feed)


def test_a_run_of_no_values_returns_none() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Sin(x) }'
    )
    assert GraphRunner(read_onnx(model.SerializeToString()), []).run({"x": np.ones(2)}) == []
