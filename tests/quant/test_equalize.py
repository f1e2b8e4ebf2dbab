"""Products with a few huge channels, read by float operators only."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.equalize import equalize_outputs
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

RANDOM = np.random.default_rng(0)
HUGE = 200.0


def _graph(body: str, size: float = HUGE) -> Graph:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 16] x) => (float[] y)'
        f" <float two = {{2}}> {{ {body} }}"
    )
    sizes = np.ones(8, np.float32)
    sizes[3] = size
    arrays = {"w": RANDOM.standard_normal((16, 8)) * sizes, "b": RANDOM.standard_normal(8) * sizes}
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return prepare(read_onnx(model.SerializeToString()))


SAMPLES = {"x": RANDOM.standard_normal((64, 16)).astype(np.float32)}


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(activations="int8")], ids=["uint8", "int8"])
def test_small_channels_survive_a_huge_one(recipe: Recipe) -> None:
    graph = _graph("p = MatMul(x, w) q = Add(p, b) y = LpNormalization<axis = 0>(q)")
    exact, found = _products(graph, recipe)
    small = [c for c in range(8) if c != 3]
    noise = np.abs(found - exact)[:, small].max()
    # One scale for all channels has steps of 800 / 255 = 3, as large as the small channels.
    assert noise < 0.2
    assert np.abs(found - exact)[:, 3].max() < 0.2 * HUGE


def _products(graph: Graph, recipe: Recipe) -> list[np.ndarray]:
    (value,) = [n.output for n in graph.nodes if n.op == "MatMul"]
    quantised = quantize(graph, SAMPLES, recipe)
    same = next(v for n in quantised.nodes for v in n.outputs if v.name == value.name)
    runners = GraphRunner(graph, [value]), GraphRunner(quantised, [same])
    return [np.concatenate([r.run({"x": x[None]})[0] for x in SAMPLES["x"]]) for r in runners]


def test_the_graph_computes_what_it_did() -> None:
    graph = _graph("p = MatMul(x, w) q = Add(p, b) y = LpNormalization<axis = 0>(q)")
    changed, names = equalize_outputs(graph, SAMPLES, ())
    assert [n.op for n in changed.nodes] == ["MatMul", "Mul", "LpNormalization"]
    assert names == [changed.nodes[1].name]
    for sample in SAMPLES["x"][:4]:
        (exact,), (found,) = (GraphRunner(g).run({"x": sample[None]}) for g in (graph, changed))
        np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("p = MatMul(x, w) q = Add(p, b) y = LpNormalization<axis = 0>(q)", 4.0),
        ("p = MatMul(x, w) y = Add(p, b)", HUGE),
        ("p = MatMul(x, w) q = Relu(p) y = LpNormalization<axis = 0>(q)", HUGE),
    ],
    ids=["channels alike", "output of the model", "clipped"],
)
def test_others_stay(body: str, size: float) -> None:
    graph = _graph(body, size)
    assert equalize_outputs(graph, SAMPLES, ()) == (graph, [])
