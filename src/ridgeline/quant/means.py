"""The mean input of a product, from which follows what rounding its weights does to its output.

Weights that are off by dW move the mean of an output channel by dW times the mean input, and one
bias for all inputs takes that away (Nagel et al. 2019, "Data-free quantization through weight
equalization and bias correction", arXiv:1906.04721, section 4.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Node
from ridgeline.ops.convolution import Conv

Array = npt.NDArray[Any]


class MeanInput:
    """The mean over samples; of a Conv's input at each place, since padding has no error."""

    def __init__(self, product: Node) -> None:
        self._product = product
        self._total: Array | None = None
        self._count = 0

    def observe(self, values: Array) -> None:
        """Add the samples of [samples, ...]. One by one: batches of any size give the same bits."""
        rows = len(self._product.input(0).type.shape) > 2 and self._product.op == "MatMul"
        for sample in values.astype(np.float64):
            part = sample.reshape(-1, sample.shape[-1]).mean(axis=0) if rows else sample
            self._total = part if self._total is None else self._total + part
            self._count += 1

    def mean(self) -> Array | None:
        """[C, ...] float64 for Conv, [k] for MatMul; None when nothing was seen."""
        return None if self._total is None else self._total / self._count


def mean_shift(product: Node, mean: Array, error: Array) -> Array:
    """[O] float64: by how much weights that are off by `error` move the mean of each output."""
    if product.op == "MatMul":
        return mean @ error
    attrs = {key: value for key, value in product.attrs.items() if key != "clip"}
    (shift,) = Conv().float_meaning([mean[None], error, None], attrs)
    return shift[0].reshape(len(error), -1).mean(axis=1)
