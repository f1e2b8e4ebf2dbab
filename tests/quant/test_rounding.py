"""Weights rounded together lose less of the result than weights rounded one by one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph, Node
from ridgeline.ops.convolution import Conv
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe
from ridgeline.quant.rounding import Covariance

BODIES = {
    "conv": ("y = Conv<pads = [1, 1, 1, 1]>(x, w, b)", (6, 4, 3, 3)),
    "grouped": ("y = Conv<group = 2, dilations = [2, 2]>(x, w, b)", (6, 2, 3, 3)),
    "depthwise": ("y = Conv<group = 4, strides = [2, 2]>(x, w, b)", (4, 1, 3, 3)),
    "without bias": ("y = Conv(x, w)", (6, 4, 2, 2)),
    "dense": ("t = Transpose<perm = [0, 2, 3, 1]>(x) p = MatMul(t, w) y = Add(p, b)", (4, 6)),
}


def _graph(body: str, shape: tuple[int, ...]) -> Graph:
    random = np.random.default_rng(0)
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 12, 12] x) => (float[] y) '
        f"{{ {body} }}"
    )
    outputs = shape[1] if len(shape) == 2 else shape[0]
    arrays = {"w": random.standard_normal(shape), "b": random.standard_normal(outputs)}
    used = {name for node in model.graph.node for name in node.input}
    for name, array in arrays.items():
        if name in used:
            tensor = numpy_helper.from_array(array.astype(np.float32), name)
            model.graph.initializer.append(tensor)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return prepare(read_onnx(model.SerializeToString()))


def _product(graph: Graph) -> Node:
    return next(n for n in graph.nodes if n.op in ("Conv", "MatMul"))


def _smooth(count: int) -> np.ndarray:
    """Images whose neighbours and channels are much alike, as photographs' are."""
    random = np.random.default_rng(1)
    coarse = random.standard_normal((count, 1, 4, 4)).repeat(3, axis=2).repeat(3, axis=3)
    return (coarse + 0.1 * random.standard_normal((count, 4, 12, 12))).astype(np.float32)


def _result_error(product: Node, images: np.ndarray, error: np.ndarray) -> float:
    """The variance of what an error of the weights adds to the results."""
    if product.op == "MatMul":
        made = images.transpose(0, 2, 3, 1).reshape(-1, 4).astype(np.float64) @ error
    else:
        (found,) = Conv().float_meaning([images.astype(np.float64), error, None], product.attrs)
        made = np.moveaxis(found, 1, -1).reshape(-1, error.shape[0])
    if product.optional(2) is not None:
        made = made - made.mean(axis=0)  # the bias takes the mean away
    return float(np.square(made).mean())


@pytest.mark.parametrize(("body", "shape"), BODIES.values(), ids=BODIES)
def test_less_error_on_new_samples_than_to_the_nearest(body: str, shape: tuple[int, ...]) -> None:
    product = _product(_graph(body, shape))
    images = _smooth(40)
    covariance = Covariance(product)
    seen = images[:30].transpose(0, 2, 3, 1) if product.op == "MatMul" else images[:30]
    covariance.observe(seen)
    weights = product.input(1).data
    assert weights is not None
    steps = weights.astype(np.float64) / np.abs(weights).max() * 15
    rounded = covariance.rounded(steps, 15)
    assert rounded.shape == steps.shape
    np.testing.assert_array_equal(rounded, np.rint(rounded))
    assert np.abs(rounded).max() <= 15
    errors = [_result_error(product, images[30:], r - steps) for r in (rounded, np.rint(steps))]
    assert errors[0] < 0.8 * errors[1]


def test_inputs_that_never_vary_leave_the_nearest() -> None:
    product = _product(_graph(*BODIES["dense"]))
    covariance = Covariance(product)
    covariance.observe(np.ones((5, 12, 12, 4), np.float32))
    steps = np.random.default_rng(0).uniform(-9, 9, (4, 6))
    np.testing.assert_array_equal(covariance.rounded(steps, 127), np.rint(steps))


def test_independent_inputs_leave_the_nearest() -> None:
    product = _product(_graph(*BODIES["dense"]))
    covariance = Covariance(product)
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 4), axis=-1).reshape(1, 4, 4, 4)
    covariance.observe(corners.astype(np.float32))
    steps = np.random.default_rng(0).uniform(-9, 9, (4, 6))
    np.testing.assert_array_equal(covariance.rounded(steps, 127), np.rint(steps))


@pytest.mark.parametrize("batch", [2, 3])
def test_batches_of_any_size_give_the_same_weights(batch: int) -> None:
    product = _product(_graph(*BODIES["conv"]))
    images = _smooth(6)
    steps = np.random.default_rng(0).uniform(-9, 9, (6, 4, 3, 3))
    one, many = Covariance(product), Covariance(product)
    one.observe(images)
    for start in range(0, 6, batch):
        many.observe(images[start : start + batch])
    np.testing.assert_array_equal(one.rounded(steps, 9), many.rounded(steps, 9))


def test_the_recipe_chooses() -> None:
    graph = _graph(*BODIES["conv"])
    stored = [
        _product(quantize(graph, {"x": _smooth(8)}, Recipe(rounding=rounding))).input(1).data
        for rounding in ("nearest", "covariance")
    ]
    assert stored[0] is not None
    assert stored[1] is not None
    difference = np.abs(stored[0].astype(int) - stored[1])
    assert 0 < difference.max() <= 40
    assert (difference > 0).mean() > 0.02
