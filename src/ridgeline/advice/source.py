"""The graphs that changes of a machine are tried with: a model, read and quantised as they ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.advice.machines import Activations
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import is_quantised, prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

Arrays = Mapping[str, npt.NDArray[Any]]
_RANDOM = 2
"""Samples of each input that are made up where none are given, in batches."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model file, and how it is quantised: with `samples` by input name, or random numbers, on
    which no time depends. A file that is quantised already stays as it is.
    """

    model: Path | str | bytes
    samples: Arrays | None = None
    activations: Activations = "uint8"
    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def graph_at(self, times: int, activations: Activations | None = None) -> Graph:
        """As `machines.GraphAt`: shapes that are given grow with the batch."""
        shapes = {name: (times * shape[0], *shape[1:]) for name, shape in self.shapes.items()}
        grows = self.batch is not None or (times > 1 and not shapes)
        batch = times * (self.batch or 1) if grows else None
        graph = prepare(read_onnx(self.model, shapes=shapes or None, batch=batch))
        if is_quantised(graph):
            return graph
        recipe = Recipe(activations=activations or self.activations)
        samples = _random(graph) if self.samples is None else _repeated(self.samples, times)
        return quantize(graph, samples, recipe)


def _repeated(samples: Arrays, times: int) -> dict[str, npt.NDArray[Any]]:
    """So often that they fill whole batches of any that is tried."""
    return {name: np.concatenate([array] * times) for name, array in samples.items()}


def _random(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """Seeded: standard normal numbers, or small integers for ids and masks."""
    random = np.random.default_rng(0)
    made: dict[str, npt.NDArray[Any]] = {}
    for value in graph.inputs:
        shape, dtype = value.type.shape, value.type.dtype
        shape = (_RANDOM * shape[0], *shape[1:]) if shape else shape
        numbers = random.standard_normal(shape) if dtype.is_float else random.integers(0, 2, shape)
        made[value.name] = np.asarray(numbers).astype(dtype.numpy)
    return made
