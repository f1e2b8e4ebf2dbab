"""How a float graph is to be quantised: one frozen record of choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.numerics.formats import FORMATS, DType

ACTIVATIONS = ("uint8", "int8", "int16")
WEIGHTS = ("int8", "uint8")
Observers = Literal["minmax", "percentile", "error", "chosen"]
OBSERVERS = ("minmax", "percentile", "error", "chosen")
ROUNDINGS = ("covariance", "nearest")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Formats, granularity and range rule of a quantisation.

    `activations`: uint8 and int8 are asymmetric, int16 symmetric. `weights`: symmetric, int8
    within ±127, or uint8 around 128. `observer`: how ranges are found: the extremes; all but
    `percentile` percent, both tails together; what 8-bit steps change least, by squares; or which
    of these brings the outputs nearest to float's on half of the samples, held out (several
    times the work). `rounding`: of weights, each to the nearest step, or such that errors of inputs
    that vary together cancel. `keep_float` names nodes or operators that stay float.
    """

    activations: Literal["uint8", "int8", "int16"] = "uint8"
    weights: Literal["int8", "uint8"] = "int8"
    per_channel: bool = True
    observer: Observers = "minmax"
    percentile: float = 99.99
    rounding: Literal["covariance", "nearest"] = "covariance"
    keep_float: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, value, choices in (
            ("activations", self.activations, ACTIVATIONS),
            ("weights", self.weights, WEIGHTS),
            ("observer", self.observer, OBSERVERS),
            ("rounding", self.rounding, ROUNDINGS),
        ):
            if value not in choices:
                raise RidgelineError(
                    f"{field} is '{value}'", where="recipe", fix=did_you_mean(str(value), choices)
                )
        if not 50 < self.percentile <= 100:
            raise RidgelineError(
                f"percentile is {self.percentile}",
                where="recipe",
                fix="Give a number above 50, up to 100.",
            )
        if self.activations == "int8" and self.weights == "uint8":
            raise RidgelineError(
                "int8 activations with uint8 weights have no integer kernel in ONNX Runtime",
                where="recipe",
                fix="Use int8 weights.",
            )

    @property
    def activation_format(self) -> DType:
        return FORMATS[self.activations]

    @property
    def weight_format(self) -> DType:
        return FORMATS[self.weights]
