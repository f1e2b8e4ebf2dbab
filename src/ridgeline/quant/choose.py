"""The observer that suits a model best, tried out: half of the samples calibrates, half judges.

Which values of a tensor are outliers and which matter cannot be seen in the tensor alone, so each
rule for ranges quantises the whole model, and the outputs tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph
from ridgeline.quant.calibrate import sample_batches
from ridgeline.quant.recipe import Recipe

Array = npt.NDArray[Any]
Samples = Mapping[str, Array]
Quantize = Callable[[Graph, Samples, Recipe], Graph]

PERCENTILES = (99.999, 99.99)


def candidates(recipe: Recipe) -> list[Recipe]:
    """The recipe with each rule for ranges that is tried, the plainest first: it wins a tie."""
    plain = [replace(recipe, observer="minmax"), replace(recipe, observer="error")]
    return plain + [replace(recipe, observer="percentile", percentile=p) for p in PERCENTILES]


def choose_observer(graph: Graph, samples: Samples, recipe: Recipe, quantize: Quantize) -> Recipe:
    """The candidate whose outputs are nearest to float's on the samples that it has not seen.

    `samples` as for `quantize`: every other run of them judges. Nearest is by squares, each output
    relative to its own. Raises RidgelineError for fewer than two runs.
    """
    seen, held = _halves(graph, samples)
    batches = list(sample_batches(graph, held))
    floating = GraphRunner(graph)
    wanted = [floating.run(batch) for batch in batches]
    tried = candidates(recipe)
    errors = [_error(quantize(graph, seen, one), batches, wanted) for one in tried]
    return tried[int(np.argmin(errors))]


def _halves(graph: Graph, samples: Samples) -> tuple[dict[str, Array], dict[str, Array]]:
    """Every other run for each of two; a run is as many rows as the graph takes at once."""
    sizes = {v.name: v.type.shape[0] for v in graph.inputs if v.type.shape}
    runs = min((len(samples[n]) // s for n, s in sizes.items() if n in samples), default=0)
    if runs < 2:
        raise RidgelineError(
            f"choosing an observer takes at least 2 runs of calibration samples, there are {runs}",
            where="calibration samples",
            fix="Give more samples, or name the observer.",
        )
    halves: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for name, array in samples.items():
        for number, half in enumerate(halves):
            rows = np.arange(runs * sizes.get(name, 1)) // sizes.get(name, 1) % 2 == number
            half[name] = array[: len(rows)][rows] if name in sizes else array
    return halves


def _error(quantised: Graph, batches: list[dict[str, Array]], wanted: list[list[Array]]) -> float:
    runner = GraphRunner(quantised)
    noise = signal = np.zeros(len(quantised.outputs))
    for batch, exact in zip(batches, wanted, strict=True):
        found = runner.run(batch)
        pairs = [
            (f.astype(np.float64), e.astype(np.float64)) for f, e in zip(found, exact, strict=True)
        ]
        noise = noise + [float(np.square(f - e).sum()) for f, e in pairs]
        signal = signal + [float(np.square(e).sum()) for _, e in pairs]
    return float(np.sum(noise / np.maximum(signal, 1e-30)))
