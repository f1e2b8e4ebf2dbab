"""The observer that a model's held-out samples choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.ir import Graph
from ridgeline.quant.choose import candidates, choose_observer
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe


def dense(batch: int = 1) -> Graph:
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g (float[{batch}, 32] x) => (float[{batch}, 8] y) {{ y = MatMul(x, w) }}"""
    )
    weights = np.random.default_rng(2).normal(0, 1, (32, 8)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return read_onnx(model.SerializeToString())


def rows(count: int, outliers: bool) -> np.ndarray:
    random = np.random.default_rng(3)
    x = random.normal(0, 1, (count, 32)).astype(np.float32)
    if outliers:
        x[0, 0] = 60.0  # in what calibrates; what judges has none
    return x


def by_hand(graph: Graph, x: np.ndarray) -> Recipe:
    """The candidate that is nearest on the odd rows when the even ones calibrate."""
    (exact,) = zip(*(GraphRunner(graph).run({"x": r[None]}) for r in x[1::2]), strict=True)

    def error(recipe: Recipe) -> float:
        runner = GraphRunner(quantize(graph, {"x": x[::2]}, recipe))
        found = [runner.run({"x": r[None]})[0] for r in x[1::2]]
        return float(np.square(np.stack(found) - np.stack(exact)).sum())

    return min(candidates(Recipe()), key=error)


@pytest.mark.parametrize("outliers", [False, True])
def test_the_nearest_on_what_did_not_calibrate(outliers: bool) -> None:
    graph, x = dense(), rows(1024, outliers)
    found = choose_observer(graph, {"x": x}, Recipe(), quantize)
    assert found == by_hand(graph, x)
    assert not outliers or found.observer != "minmax"


def test_the_graph_is_that_of_the_chosen_recipe_on_all_samples() -> None:
    graph, x = dense(), rows(1024, outliers=True)
    recipe = Recipe(rounding="nearest", observer="chosen")
    found = choose_observer(graph, {"x": x}, recipe, quantize)
    assert found == replace(found, rounding="nearest")
    made, wanted = (quantize(graph, {"x": x}, r) for r in (recipe, found))
    assert onnx_bytes(made) == onnx_bytes(wanted)


def test_rows_of_one_run_stay_together() -> None:
    graph, x = dense(batch=4), rows(32, outliers=True)
    found = choose_observer(graph, {"x": x}, Recipe(), quantize)
    assert found in candidates(Recipe())


def test_one_run_is_too_few() -> None:
    with pytest.raises(RidgelineError) as caught:
        quantize(dense(batch=4), {"x": rows(7, outliers=False)}, Recipe(observer="chosen"))
    assert str(caught.value) == (
        "calibration samples: choosing an observer takes at least 2 runs of calibration samples,"
        " there are 1. Give more samples, or name the observer."
    )
