"""Rounded weights do not move the mean of what a product makes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.numerics.quantize import dequantize
from ridgeline.ops.convolution import Conv
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.means import MeanInput, mean_shift
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

RANDOM = np.random.default_rng(0)
BODIES = {
    "conv": ("y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b)", (6, 4, 3, 3)),
    "depthwise": ("y = Conv<group = 4, pads = [1, 1, 1, 1]>(x, w, b)", (4, 1, 3, 3)),
    "dense": ("t = Transpose<perm = [0, 2, 3, 1]>(x) p = MatMul(t, w) y = Add(p, b)", (4, 6)),
}


def _graph(body: str, shape: tuple[int, ...], batch: int = 1) -> Graph:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4, 9, 9] x) => (float[] y) '
        f"{{ {body} }}"
    )
    outputs = shape[1] if len(shape) == 2 else shape[0]
    arrays = {"w": RANDOM.standard_normal(shape), "b": RANDOM.standard_normal(outputs)}
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return prepare(read_onnx(model.SerializeToString(), batch=batch))


def _samples(count: int) -> np.ndarray:
    """Positive values, whose mean makes an error of the weights show."""
    return RANDOM.uniform(2, 3, (count, 4, 9, 9)).astype(np.float32)


@pytest.mark.parametrize(("body", "shape"), BODIES.values(), ids=BODIES)
def test_the_shift_is_that_of_the_error_alone(body: str, shape: tuple[int, ...]) -> None:
    graph = _graph(body, shape)
    product = next(n for n in graph.nodes if n.op in ("Conv", "MatMul"))
    error = RANDOM.standard_normal(shape)
    mean, shifts = MeanInput(product), []
    runner = GraphRunner(graph, [product.input(0)])
    for sample in _samples(7):
        (array,) = runner.run({"x": sample[None]})
        mean.observe(array)
        if product.op == "MatMul":
            shifts.append((array.astype(np.float64) @ error).reshape(-1, shape[1]).mean(axis=0))
        else:
            inputs = [array.astype(np.float64), error, None]
            (made,) = Conv().float_meaning(inputs, product.attrs)
            shifts.append(made.mean(axis=(0, 2, 3)))
    found = mean.mean()
    assert found is not None
    np.testing.assert_allclose(mean_shift(product, found, error), np.mean(shifts, 0), atol=1e-5)


@pytest.mark.parametrize(("body", "shape"), BODIES.values(), ids=BODIES)
def test_the_quantised_means_are_those_of_the_float_graph(
    body: str, shape: tuple[int, ...]
) -> None:
    graph, samples = _graph(body, shape), _samples(16)
    quantised = quantize(graph, {"x": samples}, Recipe(activations="int16"))
    (product,) = [n for n in quantised.nodes if n.op in ("Conv", "MatMul")]
    floating, stored = GraphRunner(graph), GraphRunner(quantised, [product.output])
    axes = (0, 2, 3) if product.op == "Conv" else (0, 1, 2)
    assert product.output.type.quant is not None
    differences = []
    for sample in samples:
        (exact,), (found,) = (r.run({"x": sample[None]}) for r in (floating, stored))
        difference = dequantize(found, product.output.type.quant) - exact
        differences.append(difference.mean(axis=axes))
    # Rounding the weights of 4 channels of 3 x 3 by half a step moves a mean of about 2.5 by more
    # than 1e-2 unless the bias takes it away; the bias and int16 round by less than 1e-3.
    assert np.abs(np.mean(differences, axis=0)).max() < 2e-3


def test_batches_of_any_size_give_the_same_biases() -> None:
    body, shape = BODIES["conv"]
    global RANDOM
    biases = []
    for batch in (1, 3):
        RANDOM = np.random.default_rng(1)
        graph = _graph(body, shape, batch)
        quantised = quantize(graph, {"x": _samples(7)})
        biases.append(next(n for n in quantised.nodes if n.op == "Conv").input(2).data)
    np.testing.assert_array_equal(*biases)
