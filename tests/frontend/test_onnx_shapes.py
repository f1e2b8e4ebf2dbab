from __future__ import annotations

import re
from collections.abc import Mapping

import onnx
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph

Shapes = Mapping[str, tuple[int, ...]]


def _read(inputs: str, shapes: Shapes | None = None, batch: int | None = None) -> Graph:
    names = [part.split()[-1] for part in inputs.split(";")]
    body = " ".join(f"out_{n} = Relu({n})" for n in names)
    outputs = ", ".join(f"float[] out_{n}" for n in names)
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    text = f"{header} g ({inputs.replace(';', ', ')}) => ({outputs}) {{ {body} }}"
    return read_onnx(onnx.parser.parse_model(text).SerializeToString(), shapes=shapes, batch=batch)


def _shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [v.type.shape for v in graph.inputs]


def test_fixed_shapes_need_nothing() -> None:
    assert _shapes(_read("float[2, 3] x")) == [(2, 3)]


def test_an_open_batch_is_one_by_default() -> None:
    assert _shapes(_read("float[N, 3] x")) == [(1, 3)]


def test_the_batch_binds_the_open_first_dimension_everywhere() -> None:
    assert _shapes(_read("float[N, 3] x; float[N, 5] y", batch=8)) == [(8, 3), (8, 5)]


def test_a_given_shape_binds_names_that_inputs_share() -> None:
    graph = _read("float[N, T] x; float[N, T, 2] y", {"x": (2, 7)})
    assert _shapes(graph) == [(2, 7), (2, 7, 2)]


def test_the_batch_beside_a_given_shape() -> None:
    assert _shapes(_read("float[N, T] x; float[M] y", {"x": (2, 7)}, 4)) == [(2, 7), (4,)]


@pytest.mark.parametrize(
    ("inputs", "shapes", "batch", "text"),
    [
        (
            "float[N, 3, H, W] x",
            None,
            None,
            "input 'x' has the open dimensions [N, 3, H, W]. "
            "Pass --shape x=1,3,H,W with numbers for H, W.",
        ),
        ("float[2, H] x", None, None, "Pass --shape x=2,H with numbers for H."),
        (
            "float[N, 3] image",
            {"imag": (1, 3)},
            None,
            "--shape names 'imag', which is no input of the model. Did you mean 'image'?",
        ),
        (
            "float[N, 3] x",
            {"x": (1, 3, 4)},
            None,
            "--shape x=1,3,4 has 3 dimensions, but the input has 2: [N, 3]. Pass --shape x=1,3.",
        ),
        (
            "float[N, 3] x",
            {"x": (1, 4)},
            None,
            "--shape x=1,4 sets dimension 1 to 4, but the model fixes it at 3: [N, 3].",
        ),
        ("float[N, 3] x", {"x": (0, 3)}, None, "--shape x=0,3 has a dimension below 1"),
        (
            "float[N, 3] x; float[N, 5] y",
            {"x": (2, 3), "y": (4, 5)},
            None,
            "--shape y=4,5 sets 'N' to 4, but another --shape set it to 2",
        ),
        ("float[2, 3] x", None, 8, "the batch is 8, but the model fixes the first dimension"),
        ("float[N, 3] x", None, 0, "the batch is 0. Give a batch of 1 or more."),
    ],
)
def test_errors(inputs: str, shapes: Shapes | None, batch: int | None, text: str) -> None:
    with pytest.raises(RidgelineError, match=re.escape(text)):
        _read(inputs, shapes, batch)


def test_minus_one_and_zero_are_open_dimensions() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] x) => (float[N, 3] y) '
    model = onnx.parser.parse_model(text + "{ y = Relu(x) }")
    for size in (-1, 0):
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
        assert _shapes(read_onnx(model.SerializeToString(), batch=4)) == [(4, 3)]


def test_an_input_without_a_shape() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) {y = Relu(x)}'
    model = onnx.parser.parse_model(text)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(RidgelineError, match=r"input 'x' has no shape. Pass --shape x=D0,D1"):
        read_onnx(model.SerializeToString())
    assert _shapes(read_onnx(model.SerializeToString(), shapes={"x": (3, 4)})) == [(3, 4)]


def test_a_batch_that_the_model_fixes_inside() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[1, 2, 2] y) '
        "<int64[3] s = {1, 2, 2}> { y = Reshape(x, s) }"
    ).SerializeToString()
    assert _shapes(read_onnx(model)) == [(1, 4)]
    with pytest.raises(RidgelineError, match=r"\[8, 4\] cannot become \[1, 2, 2\]"):
        read_onnx(model, batch=8)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (10**20 - 1, "input 'x' is [99999999999999999999, 9], and 99999999999999999999 is above"),
        (1 << 31, "and 2147483648 is above the limit of 2,147,483,647 for a dimension. Use a"),
        ((1 << 31) - 1, "19,327,352,823 elements are above the limit of 17,179,869,184. Use a"),
    ],
)
def test_sizes_above_the_limit(size: int, text: str) -> None:
    for shapes, batch in (({"x": (size, 9)}, None), (None, size)):
        with pytest.raises(RidgelineError, match=re.escape(text)):
            _read("float[N, 9] x", shapes, batch)
