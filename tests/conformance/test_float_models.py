"""Random float models: after every stage the same numbers as ONNX Runtime's for the file."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from float_models import random_float_model
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import prepare

_TOLERANCE = 1e-5  # of the largest number of an output


@settings(max_examples=100)
@given(st.integers(0, 1 << 32))
def test_every_stage_computes_the_same(seed: int) -> None:
    model = random_float_model(seed)
    graph = read_onnx(model)
    stages: dict[str, Graph] = {"read": graph}
    prepare(graph, stages.__setitem__)
    x = np.random.default_rng(seed).standard_normal(graph.inputs[0].type.shape).astype(np.float32)
    expected = list(run_model(model, {"x": x}).values())
    for stage, made in stages.items():
        for found, right in zip(GraphRunner(made).run({"x": x}), expected, strict=True):
            difference = float(np.abs(found - right).max(initial=0))
            assert difference <= _TOLERANCE * float(np.abs(right).max(initial=1)), stage
