"""The architectures in the wheel of onnx, against the outputs that lie beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.runner import Runner

from published.catalogue import open_listed
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.passes.pipeline import prepare

SMALL = ("light_squeezenet", "light_shufflenet", "light_inception_v1")
LARGE = ("light_resnet50", "light_bvlc_alexnet", "light_vgg19")


@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(n, marks=pytest.mark.peer) for n in LARGE)]
)
def test_the_prepared_graph_gives_the_output_in_the_wheel(name: str) -> None:
    path = open_listed(name)
    graph = read_onnx(path)
    assert len(graph.inputs) == 1  # the initialisers that are inputs too are constants
    given = {v.name: v for v in onnx.load(path).graph.input}[graph.inputs[0].name]
    data: Any = Runner.generate_dummy_data(given, seed=0, name=name, random=False)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.with_name(f"{name}_output_0.pb").read_bytes())
    expected = numpy_helper.to_array(tensor)
    for stage in (graph, prepare(graph)):
        (found,) = GraphRunner(stage).run({graph.inputs[0].name: np.asarray(data)})
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
