"""Models that have no meaning or two: each is refused with what, where and what next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx

IMAGE = "(float[1, 3, 4, 4] x) => (float[] y) "
CONV = IMAGE + "{ y = Conv(x, w) }"


def _model(text: str, opset: int = 17, **arrays: Any) -> Any:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model


def _conv(text: str = CONV, opset: int = 17) -> Any:
    return _model(text, opset, w=np.ones((2, 3, 3, 3), np.float32))


def _with_twin(factor: int) -> Any:
    model = _conv()
    weights = np.full((2, 3, 3, 3), factor, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


def _with_dimensions(*dims: int) -> Any:
    model = _conv()
    model.graph.initializer[0].dims[:] = dims
    return model


def _with_input_twice() -> Any:
    model = _conv()
    model.graph.input.append(model.graph.input[0])
    return model


def _with_nan_attribute() -> Any:
    model = _model(IMAGE + "{ y = LeakyRelu<alpha = 1.0>(x) }")
    model.graph.node[0].attribute[0].f = float("nan")
    return model


def _with_opset(domain: str, version: int) -> Any:
    """A Shape whose attribute is text: what only its schema, found by the opset, forbids."""
    model = _model(IMAGE + '{ y = Shape<start = "1">(x) }')
    model.opset_import[0].CopyFrom(helper.make_opsetid(domain, version))
    return model


def _with_another_opset(domain: str, version: int) -> Any:
    model = _conv()
    model.opset_import.append(helper.make_opsetid(domain, version))
    return model


NEWEST = defs.onnx_opset_version()
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "opset": (
        lambda: _conv(opset=99),
        f"g: the model has opset 99, and opset {NEWEST} is the newest that is known. "
        f"Export the model with opset {NEWEST} or below.",
    ),
    "no opset": (
        lambda: _with_opset("other", 17),
        "g: it has operators of ONNX, and does not say of which opset. The file is damaged",
    ),
    "opset 0": (
        lambda: _with_opset("", 0),
        "g: the model has opset 0, which is no opset. The file is damaged",
    ),
    "an opset of others": (
        lambda: _with_another_opset("other", 1 << 62),
        "g: the model has opset 4611686018427387904 of 'other', which is no opset.",
    ),
    "the opset's attributes": (
        lambda: _with_opset("ai.onnx", 17),
        "g, node 'y' (Shape): attribute 'start' is of type STRING, not INT. The file is damaged",
    ),
    "auto_pad": (
        lambda: _conv(IMAGE + '{ y = Conv<auto_pad = "SAME_UPER">(x, w) }'),
        "g, node 'y' (Conv): auto_pad is 'SAME_UPER'. Did you mean 'SAME_UPPER'",
    ),
    "auto_pad on the host": (
        lambda: _model(IMAGE + '{ y = LpPool<kernel_shape = [2, 2], auto_pad = "FOO">(x) }'),
        "g, node 'y' (LpPool): auto_pad is 'FOO'. Known: NOTSET, SAME_LOWER, SAME_UPPER, VALID",
    ),
    "two nodes": (
        lambda: _model(IMAGE + "{ z = Relu(x) z = Neg(x) y = Abs(z) }"),
        "g: 'z' is made twice, by node 'z' (Relu) and by node 'z' (Neg). The file is damaged",
    ),
    "an initializer again": (
        lambda: _conv(IMAGE + "{ w = Relu(x) y = Neg(w) }"),
        "g: 'w' is made twice, by initializer 'w' and by node 'w' (Relu)",
    ),
    "an input again": (
        lambda: _model(IMAGE + "{ x = Relu(z) y = Neg(x) }", z=np.ones(2, np.float32)),
        "g: 'x' is made twice, by input 'x' and by node 'x' (Relu)",
    ),
    "two inputs": (_with_input_twice, "g: 'x' is made twice, by input 'x' and by input 'x'"),
    "two initializers": (
        lambda: _with_twin(2),
        "g: two initializers are named 'w', with different values. The file is damaged",
    ),
    "negative dimension": (
        lambda: _with_dimensions(-2, 3, 3, 3),
        "g, initializer 'w': its dimensions are [-2, 3, 3, 3], and none may be negative",
    ),
    "NaN attribute": (
        _with_nan_attribute,
        "g, node 'y' (LeakyRelu): attribute 'alpha' is NaN. Train or export the model again.",
    ),
}


@pytest.mark.parametrize("kind", sorted(CASES))
def test_refused(kind: str) -> None:
    make, text = CASES[kind]
    with pytest.raises(RidgelineError, match=re.escape(text)):
        read_onnx(make().SerializeToString())


def test_what_onnx_runtime_accepts_too() -> None:
    """An initializer stored twice alike, one that is an input's default, and the newest opset."""
    assert read_onnx(_with_twin(1).SerializeToString()).nodes
    text = "(float[1, 3, 4, 4] x, float[2, 3, 3, 3] w) => (float[] y) { y = Conv(x, w) }"
    assert read_onnx(_conv(text).SerializeToString()).nodes
    assert read_onnx(_conv(opset=NEWEST).SerializeToString()).nodes
