"""Whose rounding it is: the file in float64, beside ONNX Runtime's float32 and Ridgeline's graph.

    python benchmarks/float64.py [MODEL ...] [--samples N] [--json]

Every constant and operator of the file is widened to float64 and computed by ONNX's reference
evaluator, which shares no code with ONNX Runtime or Ridgeline. Beside it: ONNX Runtime on the file
with its optimisations and without any, and the graph that Ridgeline makes of the file. All
differences are of the largest output. Samples are the accuracy task's where the model has one,
rendered pages for detection, and random otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tasks.file_types import file_types
from tasks.photos import normalised
from tasks.rendered import page
from tasks.text import direction, recognition

from models import random_samples
from published.catalogue import listed, open_listed
from ridgeline import api
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph

Array = npt.NDArray[Any]
MODELS = ("ppocrv4_rec", "ppocrv4_det", "magika_v3_3", "minilm_l6_fp32", "stories260K_prefill")
TASKS = {"ppocrv4_rec": recognition, "ppocr_cls": direction, "magika_v3_3": file_types}
_PAGE_SIDE = 320


@dataclass(frozen=True, slots=True)
class Row:
    """Largest differences of any sample, each of the largest value of its output."""

    model: str
    samples: int
    file_from_float64: float
    unoptimised_from_float64: float
    ours_from_float64: float
    file_from_unoptimised: float
    ours_from_file: float


class BatchNormalization(OpRun):
    """Of trained statistics; before opset 14, onnx 1.23.2's own takes those of the batch."""

    op_domain = ""

    def _run(self, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, **given: Any) -> Any:
        along = (1, -1, *[1] * (x.ndim - 2))
        scaled = scale / np.sqrt(variance + given.get("epsilon", 1e-5))
        return ((x - mean.reshape(along)) * scaled.reshape(along) + bias.reshape(along),)


class GlobalMaxPool(OpRun):
    """Over the spatial axes; onnx 1.23.2's own drops one of them."""

    op_domain = ""

    def _run(self, x: Any) -> Any:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


def widened(model: Any) -> Any:
    """The ModelProto with float64 wherever it says float32; the same object."""
    _widen(model.graph)
    return model


def _widen(graph: Any) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            if attribute.type == onnx.AttributeProto.GRAPH:
                _widen(attribute.g)
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def in_float64(path: Path, inputs: Mapping[str, Array]) -> list[Array]:
    """Every output of the file."""
    evaluator = ReferenceEvaluator(
        widened(onnx.load(path)), new_ops=[BatchNormalization, GlobalMaxPool]
    )
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    return evaluator.run(None, wide)


def in_onnx_runtime(path: Path, inputs: Mapping[str, Array], *, optimised: bool) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    )
    return onnxruntime.InferenceSession(str(path), options).run(None, dict(inputs))


def difference(found: Sequence[Array], right: Sequence[Array]) -> float:
    """The largest of any output, of the largest value of that output."""
    return max(
        float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-30))
        for a, b in zip(found, right, strict=True)
    )


def measure(name: str, count: int) -> Row:
    """Raises FetchError, RidgelineError."""
    path = open_listed(name)
    shapes = {k: tuple(v) for k, v in listed()[name].get("shapes", {}).items()}
    graph = api.read_onnx(path, shapes=shapes or None)
    ours = GraphRunner(graph)
    given = _samples(name, count, graph)
    found: list[tuple[float, ...]] = []
    for index in range(min(map(len, given.values()))):
        one = {v.name: given[v.name][index : index + v.type.shape[0]] for v in graph.inputs}
        exact = in_float64(path, one)
        file = in_onnx_runtime(path, one, optimised=True)
        plain = in_onnx_runtime(path, one, optimised=False)
        made = ours.run(one)
        found.append(
            (
                difference(file, exact),
                difference(plain, exact),
                difference(made, exact),
                difference(file, plain),
                difference(made, file),
            )
        )
    return Row(name, len(found), *np.max(found, axis=0).tolist())


def _samples(name: str, count: int, graph: Graph) -> dict[str, Array]:
    """As many samples, by the name of the input, as there are; a model without a task has one."""
    if name in TASKS:
        return {n: a[:count] for n, a in TASKS[name]().inputs.items()}
    if name == "ppocrv4_det":
        sides = (_PAGE_SIDE, _PAGE_SIDE)
        pages = [normalised(page(seed).resize(sides)) for seed in range(count)]
        return {"x": np.stack(pages)}
    given = random_samples(graph)
    return {v.name: given[v.name][: v.type.shape[0]] for v in graph.inputs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    options = parser.parse_args()
    rows = [measure(name, options.samples) for name in options.models or MODELS]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print("Largest difference, of the largest output")
    print(
        "| model | samples | ONNX Runtime from float64 | without optimisations, from float64"
        " | Ridgeline's graph from float64 | ONNX Runtime with from without"
        " | Ridgeline's graph from ONNX Runtime |"
    )
    print("|---|" + "---:|" * 6)
    for row in rows:
        cells = list(asdict(row).values())
        print(f"| {cells[0]} | {cells[1]} | " + " | ".join(f"{c:.1e}" for c in cells[2:]) + " |")


if __name__ == "__main__":
    main()
