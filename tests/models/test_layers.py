"""The gradients by which the shipped model was trained agree with differences of the outputs."""

from __future__ import annotations

import numpy as np
import pytest

from layers import (
    Add,
    BatchNormalization,
    Convolution,
    Dense,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Relu,
)

RANDOM = np.random.default_rng(0)
IMAGES = (3, 4, 6, 6)

CASES = {
    "convolution": (Convolution(RANDOM, 4, 5, kernel=3), [IMAGES]),
    "strided": (Convolution(RANDOM, 4, 5, kernel=3, stride=2), [IMAGES]),
    "pointwise": (Convolution(RANDOM, 4, 5, kernel=1), [IMAGES]),
    "depthwise": (Convolution(RANDOM, 4, 4, kernel=3, groups=4), [IMAGES]),
    "grouped": (Convolution(RANDOM, 4, 6, kernel=3, groups=2), [IMAGES]),
    "normalisation": (BatchNormalization(4), [IMAGES]),
    "relu": (Relu(), [IMAGES]),
    "add": (Add(), [IMAGES, IMAGES]),
    "max pool": (MaxPool(), [IMAGES]),
    "average pool": (GlobalAveragePool(), [IMAGES]),
    "dense": (Dense(RANDOM, 7, 5), [(3, 7)]),
}


@pytest.mark.parametrize(("layer", "shapes"), CASES.values(), ids=CASES)
def test_gradients(layer: Layer, shapes):
    random = np.random.default_rng(1)
    layer.parameters = {name: array.astype(np.float64) for name, array in layer.parameters.items()}
    inputs = [random.standard_normal(shape) for shape in shapes]
    weights = random.standard_normal(layer.forward(*inputs, training=True).shape)

    def loss() -> float:
        return float((layer.forward(*inputs, training=True) * weights).sum())

    loss()
    gradients = [*layer.backward(weights), *(layer.gradients[name] for name in layer.parameters)]
    for array, gradient in zip([*inputs, *layer.parameters.values()], gradients, strict=True):
        direction = random.standard_normal(array.shape)
        array += 1e-6 * direction
        above = loss()
        array -= 2e-6 * direction
        slope = (above - loss()) / 2e-6
        array += 1e-6 * direction
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-4, abs=1e-6)
