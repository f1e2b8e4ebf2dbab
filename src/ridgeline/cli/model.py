"""From the options of a command to a quantised graph: read, calibrate, quantise, dump."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline import api
from ridgeline.cli.arrays import Arrays, fit_arrays, read_arrays, sample_count
from ridgeline.cli.outputs import make_folder, write_file
from ridgeline.cli.show import stage
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.numerics.formats import FORMATS
from ridgeline.passes.pipeline import is_quantised
from ridgeline.quant.recipe import Recipe

RANDOM_SAMPLES = 16
RANDOM_SEED = 0
EXECUTED_TOGETHER = 30
"""Samples of --input that one program takes, where --batch leaves that open: sooner done."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A quantised graph and how it came about. `floating` is None for a model quantised before."""

    graph: Graph
    floating: Graph | None
    notes: tuple[str, ...] = ()
    samples: Arrays | None = None


@dataclass(slots=True)
class StageDump:
    """Numbered files for --dump-stages: every stage as text, graphs also as ONNX."""

    folder: Path
    written: list[str] = field(default_factory=list[str])

    def __call__(self, stage: str, made: Any) -> None:
        name = f"{len(self.written) + 1:02d}-{stage}"
        try:
            write_file(self.folder / f"{name}.txt", str(made))
            if isinstance(made, Graph):
                write_file(self.folder / f"{name}.onnx", onnx_bytes(made))
        except RidgelineError as error:
            raise RidgelineError(
                f"{error.what}; whole stages written: {', '.join(self.written) or 'none'}",
                where=error.where,
                fix="Choose another --dump-stages",
            ) from error
        self.written.append(name)


Dump = Callable[[str, Any], None]


def stage_dump(folder: Path | None) -> Dump | None:
    """The dump into `folder`, made first; None without one."""
    if folder is None:
        return None
    make_folder(folder, "--dump-stages")
    return StageDump(folder)


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name from texts such as "x=1,3,224,224"."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, equals, dims = text.rpartition("=")
        try:
            shape = tuple(int(d) for d in dims.replace("x", ",").split(","))
        except ValueError:
            shape = ()
        if not equals or not name or not shape:
            raise RidgelineError(
                f"'{text}' is not NAME=D0,D1,...",
                where="--shape",
                fix="For example: --shape image=1,3,224,224",
            )
        if name in shapes:
            raise RidgelineError(
                f"'{name}' is given twice: {_listed(shapes[name])} and {_listed(shape)}",
                where="--shape",
                fix="Give one shape for each input",
            )
        shapes[name] = shape
    return shapes


def read_graph(
    model: Path,
    shapes: dict[str, tuple[int, ...]],
    batch: int | None,
    dump: Dump | None = None,
) -> Graph:
    """The folded and fused graph. Without --batch, an open first dimension is 1."""
    for name, shape in shapes.items():
        if batch is not None and shape[0] != batch:
            raise RidgelineError(
                f"--batch {batch} and --shape {name}={_listed(shape)} differ in the number of"
                " samples, the first dimension",
                fix="Leave one of them out",
            )
    graph = api.read_onnx(model, shapes=shapes, batch=batch, dump=dump)
    for what, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if not values:
            raise RidgelineError(
                f"the model has no {what}, so there is nothing to compute",
                where=str(model),
                fix=f"Export it with its {what}",
            )
    return graph


def _listed(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def batched_graph(model: Path, prepared: Prepared, data: Arrays, recipe: Recipe) -> Graph | None:
    """The same quantised graph for many samples at a time, where the model leaves that open.

    None where it does not, where there is one sample, or where calibration in other batches gave
    other parameters: then the samples run one by one.
    """
    count = min((len(a) for a in data.values() if a.ndim), default=1)
    if count < 2:
        return None
    try:
        graph = api.read_onnx(model, batch=min(count, EXECUTED_TOGETHER))
        if prepared.samples is not None:
            graph = api.quantize(graph, prepared.samples, recipe)
    except RidgelineError:
        return None
    return graph if _parameters(graph) == _parameters(prepared.graph) else None


def _parameters(graph: Graph) -> list[tuple[str, str, bytes, bytes, bytes]]:
    """Every quantisation of the graph, by node, and the integers of weights and biases."""
    return [
        (
            node.name,
            value.name,
            value.type.quant.scale.tobytes(),
            value.type.quant.zero_point.tobytes(),
            b"" if value.data is None else value.data.tobytes(),
        )
        for node in graph.nodes
        for value in (*node.inputs, *node.outputs)
        if value is not None and value.type.quant is not None
    ]


def input_types(graph: Graph) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape and NumPy type of each input, by name."""
    return {v.name: (v.type.shape, v.type.dtype.numpy) for v in graph.inputs}


def check_formats(machine: Machine, activations: str, floating: str | None) -> None:
    """Refuse number formats that the machine's array does not have, naming those it has."""
    formats = list(machine.array.macs_per_pe_per_cycle)
    have = "It has: " + ", ".join(formats)
    known = FORMATS.get(floating) if floating is not None else None
    if floating is not None and (known is None or not known.is_float):
        raise RidgelineError(
            f"'{floating}' is not a floating-point format",
            where="--float",
            fix=did_you_mean(floating, [name for name, d in FORMATS.items() if d.is_float]),
        )
    if floating is not None and floating not in formats:
        raise RidgelineError(
            f"the array of machine {machine.name} has no {floating}",
            where="--float",
            fix=f"{have}. Leave --float out to quantise the model",
        )
    needed = "int16" if activations == "int16" else "int8"
    if needed not in formats:
        raise RidgelineError(
            f"the array of machine {machine.name} has no {needed}",
            where="--activations",
            fix=f"{have}. Or add it: --set array.macs_per_pe_per_cycle.{needed}=0.5",
        )


def prepare(
    graph: Graph,
    recipe: Recipe,
    calibrate: Path | None,
    data: Arrays | None,
    dump: Dump | None = None,
) -> Prepared:
    """The quantised graph; a model that is quantised already is taken as it is."""
    if is_quantised(graph):
        return Prepared(graph, None, tuple(_unused(recipe, calibrate)))
    samples, notes = _samples(graph, calibrate, data)
    with stage("quantising", sample_count(samples)) as done:
        quantised = api.quantize(graph, samples, recipe, done)
    if dump is not None:
        dump("quantize", quantised)
    return Prepared(quantised, graph, notes, samples)


def _unused(recipe: Recipe, calibrate: Path | None) -> Iterator[str]:
    """A remark on each option that says nothing to a model that is quantised already."""
    if calibrate is not None:
        read_arrays(calibrate)
        yield "the model is quantised already: --calibrate is not used"
    for option in ("activations", "observer"):
        chosen = getattr(recipe, option)
        if chosen != getattr(Recipe(), option):
            yield f"the model is quantised already: --{option} {chosen} is not used"


def _samples(
    graph: Graph, calibrate: Path | None, data: Arrays | None
) -> tuple[Arrays, tuple[str, ...]]:
    if calibrate is not None:
        return fit_arrays(read_arrays(calibrate), input_types(graph), calibrate), ()
    if data is not None:
        return data, ("calibrated on --input itself; give other samples with --calibrate",)
    note = (
        "WARNING: calibrated on random numbers, so the results mean nothing and only the timing"
        " does; give samples with --calibrate"
    )
    return _random_samples(graph), (note,)


def _random_samples(graph: Graph) -> Arrays:
    random = np.random.default_rng(RANDOM_SEED)
    arrays: Arrays = {}
    for value in graph.inputs:
        # A single number is the same for all samples.
        shape = (RANDOM_SAMPLES, *value.type.shape[1:]) if value.type.shape else ()
        numbers: npt.NDArray[Any] = np.asarray(random.standard_normal(shape))
        if not value.type.dtype.is_float:
            numbers = np.abs(numbers)
        arrays[value.name] = numbers.astype(value.type.dtype.numpy)
    return arrays
