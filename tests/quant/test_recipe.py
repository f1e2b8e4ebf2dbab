from __future__ import annotations

from typing import Any

import pytest

from ridgeline.errors import RidgelineError
from ridgeline.numerics.formats import INT8, UINT8
from ridgeline.quant.recipe import Recipe


def test_formats() -> None:
    assert Recipe().activation_format is UINT8
    assert Recipe().weight_format is INT8


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"activations": "uint4"}, "recipe: activations is 'uint4'. Did you mean 'uint8'"),
        ({"weights": "int88"}, "recipe: weights is 'int88'. Did you mean 'int8'"),
        (
            {"observer": "kl"},
            "recipe: observer is 'kl'. Known: chosen, error, minmax, percentile",
        ),
        ({"percentile": 101.0}, "recipe: percentile is 101.0. Give a number above 50, up to 100."),
        (
            {"activations": "int8", "weights": "uint8"},
            "int8 activations with uint8 weights have no integer kernel in ONNX Runtime",
        ),
    ],
)
def test_errors(choice: dict[str, Any], text: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        Recipe(**choice)
    assert text in str(caught.value)
