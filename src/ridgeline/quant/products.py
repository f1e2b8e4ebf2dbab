"""What calibration learns of each product's input, and what that does to its weights and bias."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy.typing as npt

from ridgeline.ir import Node
from ridgeline.quant.means import MeanInput, mean_shift
from ridgeline.quant.recipe import Recipe
from ridgeline.quant.rounding import MOST_INPUTS, Covariance, inputs_of

Array = npt.NDArray[Any]


class ProductInput:
    """Watches the input of one product with constant weights, [k, n] or of a Conv."""

    def __init__(self, product: Node, recipe: Recipe) -> None:
        self._product = product
        self._mean = MeanInput(product) if product.optional(2) is not None else None
        wanted = recipe.rounding == "covariance" and inputs_of(product) <= MOST_INPUTS
        self._covariance = Covariance(product) if wanted else None

    def observe(self, values: Array) -> None:
        for part in (self._mean, self._covariance):
            if part is not None:
                part.observe(values)

    def rounding(self) -> Callable[[Array, int], Array] | None:
        """How to make integers of the weights in steps; None to round each to the nearest."""
        return None if self._covariance is None else self._covariance.rounded

    def shift(self) -> Callable[[Array], Array] | None:
        """What an error of the weights adds to the outputs' means; None without a bias."""
        mean = None if self._mean is None else self._mean.mean()
        return None if mean is None else partial(mean_shift, self._product, mean)
