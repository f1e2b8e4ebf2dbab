"""Weights rounded so that the errors of inputs that vary together cancel.

Rounding each weight by itself is best only for inputs that are independent. Here the columns of a
product's weights are rounded one by one, and what each rounding changes in the result is made good
in the weights that are still to be rounded, as far as their inputs vary with it (Frantar et al.
2023, "GPTQ", arXiv:2210.17323, section 3, after LeCun's optimal brain surgeon).
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Node
from ridgeline.ops.windows import Geometry

Array = npt.NDArray[Any]

# Share of the mean variance that is added to every input's, for inputs that hardly vary.
_DAMPING = 0.01
# Places of one sample from which the covariance is taken; neighbours tell little new.
_PLACES = 256
# Above this the matrices take long, and errors of so many inputs average out by themselves.
MOST_INPUTS = 512
# Columns between two updates of all that is left, which then is one product of matrices.
_BLOCK = 64


def inputs_of(product: Node) -> int:
    """k: from how many inputs the product makes one output."""
    shape = product.input(1).type.shape
    return shape[0] if product.op == "MatMul" else prod(shape[1:])


class Covariance:
    """Sums [samples, ...] of a product's input into [group, k, k], k the weights of one output."""

    def __init__(self, product: Node) -> None:
        self._product = product
        self._group = int(product.attrs.get("group", 1))
        self._inputs = inputs_of(product)
        self._squares: Array = np.zeros((self._group, self._inputs, self._inputs))
        self._sums: Array = np.zeros((self._group, self._inputs))
        self._count = 0

    def observe(self, values: Array) -> None:
        """Add the samples. One by one: batches of any size give the same bits."""
        for sample in values:
            rows = self._rows(sample).astype(np.float64)
            self._squares += rows.transpose(0, 2, 1) @ rows
            self._sums += rows.sum(axis=1)
            self._count += rows.shape[1]

    def _rows(self, sample: Array) -> Array:
        """[group, places, k]: what the weights of one output meet, at some places."""
        if self._product.op == "MatMul":
            rows = sample.reshape(1, -1, sample.shape[-1])
            return rows[:, :: ceil(rows.shape[1] / _PLACES)]
        geometry = Geometry.of(self._product.attrs, "Conv")
        windows = geometry.windows(geometry.padded(sample[None], 0))[0]
        rank = len(geometry.kernel)
        places = prod(windows.shape[1 : 1 + rank])
        side: float = (places / _PLACES) ** (1 / rank)
        step = slice(None, None, ceil(side))
        some = windows[(slice(None), *([step] * rank))]
        split = some.reshape(self._group, -1, *some.shape[1:])
        order = (0, *range(2, 2 + rank), 1, *range(2 + rank, 2 + 2 * rank))
        return split.transpose(order).reshape(self._group, -1, self._inputs)

    def rounded(self, steps: Array, limit: int) -> Array:
        """The weights in real `steps`, of the product's shape, as integers within ±limit."""
        dense = self._product.op == "MatMul"
        rows = steps.T[None] if dense else steps.reshape(self._group, -1, self._inputs)
        found = _round(rows, self._matrix(), limit)
        return np.ascontiguousarray(found[0].T) if dense else found.reshape(steps.shape)

    def _matrix(self) -> Array:
        """Of the deviations from the mean where a bias makes the mean good, else of the inputs."""
        squares, mean = self._squares / self._count, self._sums / self._count
        if self._product.optional(2) is None:
            return squares
        return squares - mean[:, :, None] * mean[:, None, :]


def _round(steps: Array, matrix: Array, limit: int) -> Array:
    """Integers [group, outputs, k] for `steps` of that shape; `matrix` is [group, k, k]."""
    # The inputs that vary most are rounded first, while others can still make it good.
    order = np.argsort(-np.diagonal(matrix, axis1=1, axis2=2), axis=1, kind="stable")
    upper = _factor(matrix, order)
    left = np.take_along_axis(steps, order[:, None, :], axis=2)
    result = np.empty_like(left)
    for start in range(0, left.shape[2], _BLOCK):
        end = min(start + _BLOCK, left.shape[2])
        errors = np.empty_like(left[:, :, start:end])
        for i in range(start, end):
            result[:, :, i] = np.clip(np.rint(left[:, :, i]), -limit, limit)
            error = (left[:, :, i] - result[:, :, i]) / upper[:, None, i, i]
            left[:, :, i + 1 : end] -= error[:, :, None] * upper[:, None, i, i + 1 : end]
            errors[:, :, i - start] = error
        left[:, :, end:] -= errors @ upper[:, start:end, end:]
    back = np.empty_like(result)
    np.put_along_axis(back, order[:, None, :], result, axis=2)
    return back


def _factor(matrix: Array, order: Array) -> Array:
    """[group, k, k], upper: the Cholesky factor of the inverse, inputs in `order`, damped."""
    rows = np.take_along_axis(matrix, order[:, :, None], axis=1)
    damped = np.take_along_axis(rows, order[:, None, :], axis=2)
    damping = _DAMPING * np.trace(matrix, axis1=1, axis2=2) / matrix.shape[1]
    # Inputs that never vary tell nothing: then each weight goes to the nearest step.
    damping = np.where(damping > 0, damping, 1.0)
    damped = damped + np.eye(matrix.shape[1]) * damping[:, None, None]
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.swapaxes(1, 2)) / 2).swapaxes(1, 2)
