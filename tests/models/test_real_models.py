"""Other people's models, fetched by package name, from their file to cycles and results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from models import random_samples
from published.catalogue import listed, open_listed
from ridgeline import api
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.passes.pipeline import is_quantised

pytestmark = pytest.mark.peer

NAMED = [name for name, entry in listed().items() if entry.get("named", False)]


def test_ten_are_named() -> None:
    """A float model and its INT8 form count once."""
    assert len({name.removesuffix("_int8").removesuffix("_fp32") for name in NAMED}) == 10


@pytest.mark.parametrize("name", NAMED)
def test_from_the_file_to_results(name: str, reference: Path) -> None:
    entry = listed()[name]
    shapes: dict[str, Any] = {k: tuple(v) for k, v in entry.get("shapes", {}).items()}
    graph = api.read_onnx(open_listed(name), shapes=shapes or None)
    samples = random_samples(graph)
    quantised = graph if is_quantised(graph) else api.quantize(graph, samples)
    program = api.compile(quantised, api.load_machine("edge-4tops"))
    assert api.simulate(program).cycles > 0
    macs = sum(layer.macs for layer in program.layers)
    if entry["kind"] == "cnn":
        device = sum(layer.macs for layer in program.layers if layer.placed != "host")
        assert device >= 0.99 * macs > 0
    first = {
        v.name: samples[v.name][: v.type.shape[0]] if v.type.shape else samples[v.name]
        for v in quantised.inputs
    }
    executed = api.execute(program, first)
    expected = GraphRunner(quantised).run(first)
    for value, exact in zip(quantised.outputs, expected, strict=True):
        # Bits are compared where all is integer (tests/compiler/test_reference_models.py, and
        # benchmarks/accuracy.py). Float operators between may round a step elsewhere.
        difference = executed[value.name].astype(np.float64) - exact
        assert np.square(difference).sum() <= 1e-3 * np.square(exact.astype(np.float64)).sum()
