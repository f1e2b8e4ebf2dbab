"""The float graph run on samples, batch by batch, while observers watch its activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Value
from ridgeline.quant.observers import create_observer
from ridgeline.quant.recipe import Recipe

Array = npt.NDArray[Any]
Range = tuple[float, float]


class Watcher(Protocol):
    """Sees the samples of a value, [samples, ...] at a time, each once."""

    def observe(self, values: Array) -> None: ...


Watched = Sequence[tuple[Value, Watcher]]


def calibrate(
    graph: Graph,
    samples: Mapping[str, Array],
    values: Sequence[Value],
    recipe: Recipe,
    also: Watched = (),
    done: Callable[[int], None] | None = None,
) -> dict[int, Range]:
    """The observed range of each of `values`, by id(value), while `also` watch others.

    `samples` holds, by input name, arrays of [samples, ...]: the graph's shape with any first
    dimension; after each batch of them `done` is told how many it had. Without values nothing is
    run. Raises RidgelineError for samples that do not fit.
    """
    if not values:
        return {}
    observers = [create_observer(recipe) for _ in values]
    watch(graph, samples, [*zip(values, observers, strict=True), *also], done)
    ranges = {id(v): o.range() for v, o in zip(values, observers, strict=True)}
    for value in values:
        if not np.all(np.isfinite(ranges[id(value)])):
            raise RidgelineError(
                f"'{value.name}' becomes infinite or NaN on the calibration samples",
                where=f"graph '{graph.name}'",
                fix="Check that the samples are preprocessed as the model expects.",
            )
    return ranges


def watch(
    graph: Graph,
    samples: Mapping[str, Array],
    watched: Watched,
    done: Callable[[int], None] | None = None,
) -> None:
    """Run the samples; each watcher sees its value. One batch is in memory at a time."""
    if not watched:
        return
    runner = GraphRunner(graph, [value for value, _ in watched])
    first = next((v for v in graph.inputs if v.type.shape), None)
    size = 1 if first is None else first.type.shape[0]
    left = len(samples[first.name]) if first is not None and first.name in samples else 1
    for batch in sample_batches(graph, samples):
        # The last batch is filled up with samples from before it, which stand first.
        known = max(0.0, 1 - left / size)
        for (_, watcher), array in zip(watched, runner.run(batch), strict=True):
            watcher.observe(array[round(len(array) * known) :] if array.ndim else array)
        left -= size
        if done is not None:
            done(next((len(a) for a in batch.values() if a.ndim), 1))


def sample_batches(graph: Graph, samples: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The samples in batches of the graph's own shape, checked first.

    The last batch is filled with samples from before it, so that no made-up value is observed.
    Where inputs differ in their first dimension, each has the rows of a whole number of batches.
    """
    _check_batch(graph)
    checked = {v.name: _checked(v, samples) for v in graph.inputs}
    sizes = {v.name: v.type.shape[0] for v in graph.inputs if v.type.shape}
    if len(set(sizes.values())) > 1:
        yield from _whole_runs(checked, sizes)
        return
    counts = {name: len(array) for name, array in checked.items() if array.ndim}
    count = max(counts.values(), default=1)
    for name, length in counts.items():
        if length != count:
            longest = next(n for n, c in counts.items() if c == count)
            raise RidgelineError(
                f"'{name}' has {length} samples, but '{longest}' has {count}",
                where="calibration samples",
                fix="Give every input the same number of samples.",
            )
    batch = next(iter(sizes.values()), 1)
    for start in range(0, count, batch):
        indices = np.arange(start, start + batch)
        if start + batch > count:
            indices = np.arange(count - batch, count) % count
        yield {n: array[indices] if array.ndim else array for n, array in checked.items()}


def _whole_runs(
    samples: Mapping[str, Array], sizes: Mapping[str, int]
) -> Iterator[dict[str, Array]]:
    """The samples run by run, where inputs differ in their first dimension, as a state's does."""
    runs = {name: len(samples[name]) / size for name, size in sizes.items()}
    count = next(iter(runs.values()))
    odd = next((n for n, r in runs.items() if r != count or r != int(r)), None)
    if odd is not None:
        first = next(iter(sizes))
        raise RidgelineError(
            f"'{first}' has {len(samples[first])} rows for runs of {sizes[first]}, and '{odd}' has "
            f"{len(samples[odd])} for runs of {sizes[odd]}",
            where="calibration samples",
            fix="Give every input the rows of the same whole number of runs.",
        )
    for run in range(int(count)):
        rows = {n: slice(run * size, (run + 1) * size) for n, size in sizes.items()}
        yield {n: array[rows[n]] if n in rows else array for n, array in samples.items()}


def _check_batch(graph: Graph) -> None:
    """Refuse inputs of no elements, which no row of samples fits."""
    where = f"graph '{graph.name}'"
    for value in graph.inputs:
        if 0 in value.type.shape:
            raise RidgelineError(
                f"input '{value.name}' is {value.type}, so no sample of it has a value",
                where=where,
                fix="Export the model with dimensions of 1 or more.",
            )


def _checked(value: Value, samples: Mapping[str, Array]) -> Array:
    """The samples of one input, fit to be fed."""
    where = f"calibration samples, input '{value.name}'"
    dims = ", ".join(["samples", *map(str, value.type.shape[1:])] if value.type.shape else [])
    expected = f"{value.type.dtype}[{dims}]"
    if value.name not in samples:
        raise RidgelineError(
            f"the samples lack it; it takes {expected}",
            where=where,
            fix=did_you_mean(value.name, samples) if samples else "Give an array by that name.",
        )
    array = np.asarray(samples[value.name])
    shape = value.type.shape
    if array.dtype != value.type.dtype.numpy:
        raise RidgelineError(
            f"the samples are {array.dtype}, but it takes {expected}",
            where=where,
            fix=f"Convert them with .astype('{value.type.dtype.numpy}').",
        )
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        raise RidgelineError(
            f"the samples have the shape {list(array.shape)}, but it takes {expected}",
            where=where,
            fix="Reshape them, or read the model with another --shape.",
        )
    if array.size == 0:
        raise RidgelineError("there are no samples", where=where, fix="Give at least one.")
    if value.type.dtype.is_float and not np.all(np.isfinite(array)):
        bad = int((~np.isfinite(array)).sum())
        raise RidgelineError(
            f"{bad} of {array.size} values are NaN or infinite",
            where=where,
            fix="Remove or repair those samples.",
        )
    return array
