from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import prepare

ONES = np.ones(3, np.float32)
NORMALISATION = {"s": ONES, "b": ONES, "m": ONES}


def _prepared(body: str, **arrays: Any) -> Graph:
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 4, 4] x) => (float[] y)'
    model = onnx.parser.parse_model(f"{header} {{ {body} }}")
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return prepare(read_onnx(model.SerializeToString()))


def _full(value: float, *shape: int) -> Any:
    return np.full(shape, value, np.float32)


CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "variance": (
        "y = BatchNormalization(x, s, b, m, v)",
        {**NORMALISATION, "v": np.array([1, -5, -6], np.float32)},
        "g, node 'y' (BatchNormalization): its variance 'v' has 2 of 3 values that are too low "
        "for a root (-5). Train or export the model again.",
    ),
    "variance after a product": (
        "c = Conv(x, w) y = BatchNormalization(c, s, b, m, v)",
        {**NORMALISATION, "v": -5 * ONES, "w": _full(1, 3, 3, 1, 1)},
        "g, node 'y' (BatchNormalization): its variance 'v' has 3 of 3 values",
    ),
    "clip": (
        "y = Clip(x, low)",
        {"low": np.array(np.nan, np.float32)},
        "g, node 'y' (Clip): initializer 'low' has 1 NaN of 1 values",
    ),
    "root": (
        "k = Sqrt(c) y = Mul(x, k)",
        {"c": _full(-1, 1)},
        "g, node 'y' (Mul): initializer 'k' has 1 NaN of 1 values",
    ),
    "scale after": (
        "c = Conv(x, w) y = Mul(c, k)",
        {"w": _full(1e30, 3, 3, 1, 1), "k": _full(1e30, 1, 3, 1, 1)},
        "node 'c' (Conv): its constant 'w', folded from c, y, has 9 infinite of 9 values. Check",
    ),
    "scale before": (
        "d = Mul(x, k) y = Conv(d, w)",
        {"w": _full(1e30, 3, 3, 1, 1), "k": _full(1e30, 1, 3, 1, 1)},
        "has 9 infinite of 9 values. Check",
    ),
}


@pytest.mark.parametrize("kind", sorted(CASES))
@pytest.mark.filterwarnings("error")
def test_constants_that_are_no_numbers(kind: str) -> None:
    body, arrays, text = CASES[kind]
    with pytest.raises(RidgelineError, match=re.escape(text)):
        _prepared(body, **arrays)


def test_a_mask_may_be_infinite() -> None:
    mask = np.array([0, -np.inf, 0, 0], np.float32)
    assert [n.op for n in _prepared("n = Neg(k) y = Add(x, n)", k=mask).nodes] == ["Add"]
