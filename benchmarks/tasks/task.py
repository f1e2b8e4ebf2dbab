"""A task on which a float model and its INT8 form are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ridgeline.quant.recipe import Recipe

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a task: what the float model reaches, what INT8 does, and the bar."""

    name: str
    floating: float
    int8: float
    bar: str
    met: bool


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """`inputs` and `calibration` hold, by input name, arrays of [samples, ...]; no sample of one
    is in the other. `score` compares the outputs of all samples, by name.
    """

    name: str
    about: str
    model: Path
    calibration: Arrays
    inputs: Arrays
    score: Callable[[Arrays, Arrays], list[Measure]]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    recipe: Recipe = field(default_factory=Recipe)


def points(name: str, floating: float, int8: float, allowed: float = 1.0) -> Measure:
    """A share of right answers in percent, of which INT8 may lose `allowed` points."""
    bar = f"at most {allowed:g} point below float"
    return Measure(name, floating, int8, bar, int8 >= floating - allowed - 1e-9)


def percent(right: Array) -> float:
    """How many of the truth values hold, in percent."""
    return 100.0 * float(right.mean())
