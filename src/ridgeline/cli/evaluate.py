"""Execution of all samples in batches, and how often the answers are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.cli.arrays import Arrays, batches
from ridgeline.cli.show import Done
from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph
from ridgeline.machine.execute import Execution
from ridgeline.machine.program import Program
from ridgeline.results.rows import Accuracy

Run = Callable[[Arrays], Mapping[str, npt.NDArray[Any]]]


def execute_all(program: Program, data: Arrays, done: Done | None = None) -> Arrays:
    """Outputs of every sample, bit for bit, in batches of the program's size."""
    inputs = program.inputs + program.device_inputs
    size = next((t.shape[0] for t in inputs if t.shape), 1)
    return _run_all(Execution(program, OnnxRuntimeExecutor()).run, data, size, done)


def run_float(graph: Graph, data: Arrays) -> Arrays:
    """Outputs of the float graph in ONNX Runtime, for comparison."""
    runner = GraphRunner(graph)
    names = [value.name for value in graph.outputs]
    size = next((v.type.shape[0] for v in graph.inputs if v.type.shape), 1)
    return _run_all(lambda part: dict(zip(names, runner.run(part), strict=True)), data, size)


def _run_all(run: Run, data: Arrays, size: int, done: Done | None = None) -> Arrays:
    parts: dict[str, list[npt.NDArray[Any]]] = {}
    for part, count in batches(data, size):
        for name, array in run(part).items():
            whole = array.ndim == 0 or len(array) != size
            parts.setdefault(name, []).append(array if whole else array[:count])
        if done is not None:
            done(count)
    return {name: _joined(arrays) for name, arrays in parts.items()}


def _joined(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.atleast_1d(a) for a in arrays])


def accuracy(
    labels: npt.NDArray[np.int64],
    quantised: Arrays,
    floating: Arrays | None = None,
    number_format: str = "int8",
) -> Accuracy:
    """Right answers: the largest value of the first output is at the label's place."""
    return Accuracy(
        images=len(labels),
        float_right=None if floating is None else _right(labels, floating),
        quantised_right=_right(labels, quantised),
        number_format=number_format,
    )


def number_format(graph: Graph) -> str:
    """int16 when the graph computes in it, else int8 (uint8 included)."""
    formats = {v.type.dtype.name for n in graph.nodes for v in n.outputs if v.type.quant}
    return "int16" if "int16" in formats else "int8"


def check_labels(labels: npt.NDArray[np.int64], name: str, shape: tuple[int, ...]) -> None:
    """Refuse labels that are no classes of an output of this shape, [samples or 1, ...]."""
    if len(shape) < 2:
        raise _no_scores(name, shape)
    classes = prod(shape[1:])
    outside = labels[(labels < 0) | (labels >= classes)]
    if len(outside):
        raise RidgelineError(
            f"label {outside[0]} is outside the {classes} classes of output '{name}'",
            where="--labels",
            fix="Count classes from 0",
        )


def _no_scores(name: str, shape: tuple[int, ...]) -> RidgelineError:
    return RidgelineError(
        f"output '{name}' of shape {list(shape)} holds no score for each class",
        where="--labels",
        fix="Leave --labels out for this model",
    )


def _right(labels: npt.NDArray[np.int64], outputs: Arrays) -> int:
    name, scores = next(iter(outputs.items()))
    if scores.ndim < 2 or len(scores) != len(labels):
        raise _no_scores(name, scores.shape)
    flat = scores.reshape(len(scores), -1)
    return int((flat.argmax(axis=1) == labels).sum())
