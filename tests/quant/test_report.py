from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe
from ridgeline.quant.report import layer_sqnr_db


@pytest.fixture(scope="module")
def samples(shipped: Any) -> dict[str, Any]:
    with np.load(shipped.calibration) as data:
        return {"image": data["image"]}


def test_every_quantised_layer_has_a_figure(shipped: Any, samples: dict[str, Any]) -> None:
    graph = read_onnx(shipped.model)
    eight = quantize(graph, samples)
    sqnr_db = layer_sqnr_db(graph, eight, samples)
    quantised = [n.name for n in eight.nodes if n.output.type.quant is not None]
    assert list(sqnr_db) == [n for n in quantised if n != "image/quantize"]
    assert all(20 < v < 60 for v in sqnr_db.values()), sqnr_db


def test_more_bits_are_less_noise(shipped: Any, samples: dict[str, Any]) -> None:
    graph = read_onnx(shipped.model)
    fine = layer_sqnr_db(graph, quantize(graph, samples, Recipe(activations="int16")), samples)
    coarse = layer_sqnr_db(graph, quantize(graph, samples, Recipe(per_channel=False)), samples)
    assert fine.keys() == coarse.keys()
    assert all(fine[name] > coarse[name] for name in fine)
