"""What INT8 loses against float, on tasks with known answers.

    python benchmarks/accuracy.py [TASK ...] [--json] [--activations FORMAT] [--rounding KIND]

Each model is read, quantised by Ridgeline on calibration samples and run on other samples. The
quantised graph runs in ONNX Runtime as the QDQ file that Ridgeline writes, which is sooner done
than executing a program; on the first samples its outputs are compared bit for bit with the integer
meaning of the graph (`ops`), which compiled programs equal. Needs Pillow, and the network once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tasks.digits import digits
from tasks.faces import faces
from tasks.file_types import file_types
from tasks.pages import pages
from tasks.photos import photos
from tasks.sentences import sentences
from tasks.task import Array, Arrays, Measure, Task
from tasks.text import direction, recognition

from ridgeline import api
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Node, Value
from ridgeline.ops.evaluate import evaluate_node, is_quantized_node
from ridgeline.quant.choose import choose_observer
from ridgeline.quant.recipe import ACTIVATIONS, ROUNDINGS
from ridgeline.quant.report import layer_sqnr_db

TASKS: Mapping[str, Callable[[], Task]] = {
    "digits": digits,
    "direction": direction,
    "recognition": recognition,
    "file-types": file_types,
    "faces": faces,
    "pages": pages,
    "photos": photos,
    "sentences": sentences,
}
_COMPARED = 2
_BORDERS = ("QuantizeLinear", "DequantizeLinear")
_SQNR_SAMPLES = 16
_WORST = 3


@dataclass(frozen=True, slots=True)
class Result:
    """One task's figures. `worst_sqnr_db` names the layers farthest from float."""

    model: str
    about: str
    recipe: str
    measures: list[Measure]
    values_compared: int
    values_different: int
    worst_sqnr_db: dict[str, float] = field(default_factory=dict[str, float])


def measure(task: Task, activations: Any = "uint8", rounding: Any = "covariance") -> Result:
    """Quantise by the task's own recipe in these formats. Raises RidgelineError, FetchError."""
    recipe = replace(task.recipe, activations=activations, rounding=rounding)
    graph = api.read_onnx(task.model, shapes=task.shapes or None)
    if recipe.observer == "chosen":
        recipe = choose_observer(graph, task.calibration, recipe, api.quantize)
    quantised = api.quantize(graph, task.calibration, recipe)
    floating, int8 = _outputs(graph, task.inputs), _outputs(quantised, task.inputs)
    compared, different = _against_meaning(quantised, task.inputs, int8)
    some = {name: array[:_SQNR_SAMPLES] for name, array in task.inputs.items()}
    decibels = sorted(layer_sqnr_db(graph, quantised, some).items(), key=lambda pair: pair[1])
    measures = task.score(floating, int8)
    worst = dict(decibels[:_WORST])
    return Result(
        model=task.name,
        about=task.about,
        recipe=f"{recipe.activations}, {recipe.observer}, {recipe.rounding}",
        measures=measures,
        values_compared=compared,
        values_different=different,
        worst_sqnr_db=worst,
    )


def _outputs(graph: Graph, inputs: Arrays) -> dict[str, Array]:
    """Every output of every sample, in ONNX Runtime."""
    runner, parts = GraphRunner(graph), []
    for index in range(len(next(iter(inputs.values())))):
        parts.append(runner.run({n: a[index : index + 1] for n, a in inputs.items()}))
    names = [value.name for value in graph.outputs]
    return {n: np.concatenate(a) for n, a in zip(names, zip(*parts, strict=True), strict=True)}


def _against_meaning(graph: Graph, inputs: Arrays, found: Arrays) -> tuple[int, int]:
    """How many output values of the first samples were compared with `ops`, and how many differ."""
    compared = different = 0
    host = _Host()
    for index in range(_COMPARED):
        meant = _meaning(graph, {n: a[index : index + 1] for n, a in inputs.items()}, host)
        for output in graph.outputs:
            values = meant[id(output)]
            compared += values.size
            different += int((values != found[output.name][index : index + 1]).sum())
    return compared, different


def _meaning(graph: Graph, inputs: Arrays, host: _Host) -> dict[int, Array]:
    """Every value by id: quantised nodes in their integer meaning, the others on the host."""
    values = {id(v): v.data for v in graph.constants()}
    values |= {id(v): inputs[v.name] for v in graph.inputs}
    for node in graph.nodes:
        given = [None if v is None else values[id(v)] for v in node.inputs]
        integers = node.op in _BORDERS or is_quantized_node(node)
        made = evaluate_node(node, given) if integers else host(node, given)
        values |= {id(v): array for v, array in zip(node.outputs, made, strict=True)}
    return values


class _Host:
    """Operators that stay float, each in ONNX Runtime, as a program's host segments run them."""

    def __init__(self) -> None:
        self._runners: dict[int, tuple[GraphRunner, list[str]]] = {}

    def __call__(self, node: Node, inputs: Any) -> list[Array]:
        if id(node) not in self._runners:
            given = [v for v in node.inputs if v is not None and not v.is_constant]
            unique: dict[int, Value] = {id(v): v for v in given}
            graph = Graph(node.name, tuple(unique.values()), node.outputs, (node,))
            self._runners[id(node)] = GraphRunner(graph), [v.name for v in unique.values()]
        runner, _ = self._runners[id(node)]
        feeds = {v.name: a for v, a in zip(node.inputs, inputs, strict=True) if v is not None}
        return runner.run(feeds)


def _line(result: Result, found: Measure) -> str:
    verdict = "" if found.met else "  MISSED"
    return (
        f"{result.model:28}{found.name:44}{found.floating:10.4f}{found.int8:10.4f}  {found.bar}"
        f"{verdict}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--activations", default="uint8", choices=ACTIVATIONS)
    parser.add_argument("--rounding", default="covariance", choices=ROUNDINGS)
    options = parser.parse_args()
    unknown = set(options.tasks) - set(TASKS)
    if unknown:
        parser.error(
            f"no task is called {', '.join(sorted(unknown))}; there are {', '.join(TASKS)}"
        )
    results: list[Result] = []
    if not options.json:
        print(f"{'model':28}{'measure':44}{'float':>10}{'INT8':>10}  bar")
    for name in options.tasks or TASKS:
        result = measure(TASKS[name](), options.activations, options.rounding)
        results.append(result)
        if not options.json:
            for found in result.measures:
                print(_line(result, found))
            worst = ", ".join(f"{n} {db:.1f} dB" for n, db in result.worst_sqnr_db.items())
            bits = f"{result.values_different} of {result.values_compared} values differ from ops"
            print(
                f"{'':28}{result.about}; {result.recipe}; {bits}; farthest from float: {worst}",
                flush=True,
            )
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    return int(any(not m.met for r in results for m in r.measures) or _differ(results))


def _differ(results: list[Result]) -> bool:
    return any(result.values_different for result in results)


if __name__ == "__main__":
    sys.exit(main())
