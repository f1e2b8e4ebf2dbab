from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.quant.calibrate import calibrate, sample_batches
from ridgeline.quant.recipe import Recipe


def _graph(batch: int = 1) -> Graph:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] left, float[N, 2] right)'
        " => (float[N, 5] y) { c = Concat<axis=1>(left, right) e = Exp(c) y = Neg(e) }"
    )
    return read_onnx(model.SerializeToString(), batch=batch)


def _samples(count: int = 5) -> dict[str, Any]:
    left = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
    return {"left": left, "right": -np.arange(2 * count, dtype=np.float32).reshape(count, 2)}


@pytest.mark.parametrize("batch", [1, 2, 5, 8])
def test_every_sample_is_seen_whatever_the_batch(batch: int) -> None:
    graph = _graph(batch)
    concat, exp = graph.nodes[0].output, graph.nodes[1].output
    ranges = calibrate(graph, _samples(), [graph.inputs[0], concat, exp], Recipe())
    assert ranges[id(graph.inputs[0])] == (0, 14)
    assert ranges[id(concat)] == (-9, 14)
    assert ranges[id(exp)] == pytest.approx((np.exp(-9), np.exp(14)), rel=1e-4)


def test_the_last_batch_is_filled_with_samples() -> None:
    rows = [batch["left"][:, 0].tolist() for batch in sample_batches(_graph(2), _samples(3))]
    assert rows == [[0, 3], [3, 6]]


def _changed(**changes: Any) -> dict[str, Any]:
    return {k: v for k, v in {**_samples(), **changes}.items() if v is not None}


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (
            _changed(right=None, rigth=np.ones((5, 2), np.float32)),
            "calibration samples, input 'right': the samples lack it; it takes fp32[samples, 2]. "
            "Did you mean 'rigth'",
        ),
        ({}, "input 'left': the samples lack it; it takes fp32[samples, 3]. Give an array by"),
        (
            _changed(left=np.ones((5, 3))),
            "input 'left': the samples are float64, but it takes fp32[samples, 3]. "
            "Convert them with .astype('float32').",
        ),
        (
            _changed(left=np.ones((5, 4), np.float32)),
            "the samples have the shape [5, 4], but it takes fp32[samples, 3]. Reshape them",
        ),
        (_changed(left=np.ones(3, np.float32)), "the samples have the shape [3], but it takes"),
        (_changed(left=np.ones((0, 3), np.float32)), "there are no samples. Give at least one."),
        (
            _changed(left=np.full((5, 3), np.nan, np.float32)),
            "input 'left': 15 of 15 values are NaN or infinite. Remove or repair those samples.",
        ),
        (
            _changed(left=np.ones((4, 3), np.float32)),
            "'left' has 4 samples, but 'right' has 5. Give every input the same number",
        ),
        (
            _changed(left=np.full((5, 3), 1e4, np.float32)),
            "'e' becomes infinite or NaN on the calibration samples",
        ),
    ],
)
def test_errors(samples: dict[str, Any], text: str) -> None:
    graph = _graph()
    with pytest.raises(RidgelineError, match=re.escape(text)):
        calibrate(graph, samples, [graph.nodes[1].output], Recipe())


def _inputs(*shapes: tuple[int, ...]) -> Graph:
    values = [Value(n, TensorType(s, FP32)) for n, s in zip("abc", shapes, strict=False)]
    made = Value("y", TensorType(shapes[0], FP32))
    return Graph("g", tuple(values), (made,), (Node("Sin", "n", (values[0],), (made,)),), 21)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (
            ((1, 0, 4),),
            "graph 'g': input 'a' is fp32[1,0,4], so no sample of it has a value. Export the model",
        ),
        (
            ((1, 3), (2, 3)),
            "calibration samples: 'a' has 1 rows for runs of 1, and 'b' has 1 for runs of 2. Give "
            "every input the rows of the same whole number of runs.",
        ),
        (((1, 3), ()), "input 'b': the samples have the shape [1], but it takes fp32[]. Reshape"),
    ],
)
def test_inputs_that_no_samples_fit(shapes: tuple[tuple[int, ...], ...], text: str) -> None:
    graph = _inputs(*shapes)
    samples = {v.name: np.ones((1, *v.type.shape[1:]), np.float32) for v in graph.inputs}
    with pytest.raises(RidgelineError, match=re.escape(text)):
        calibrate(graph, samples, list(graph.outputs), Recipe())


def test_inputs_that_differ_in_their_first_dimension_take_whole_runs() -> None:
    """As a recurrent network's frames and its state do."""
    graph = _inputs((2, 3), (1, 3))
    frames, states = np.arange(12.0).reshape(4, 3), -np.arange(6.0).reshape(2, 3)
    samples = {"a": frames.astype(np.float32), "b": states.astype(np.float32)}
    ranges = calibrate(graph, samples, list(graph.inputs), Recipe())
    assert ranges[id(graph.inputs[0])] == (0, 11)
    assert ranges[id(graph.inputs[1])] == (-5, 0)
    runs = [(batch["a"].tolist(), batch["b"].tolist()) for batch in sample_batches(graph, samples)]
    assert runs == [
        (frames[:2].tolist(), states[:1].tolist()),
        (frames[2:].tolist(), states[1:].tolist()),
    ]


def test_nothing_to_observe() -> None:
    assert calibrate(_inputs((1, 3), (2, 3)), {}, [], Recipe()) == {}
