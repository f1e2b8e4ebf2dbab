"""What `import ridgeline` offers: one function for each step of a model's way.

Every function raises `ridgeline.errors.RidgelineError` for what a user can mend.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ridgeline.advice import machines
from ridgeline.advice.advise import Advised, advise_on
from ridgeline.advice.case import Case
from ridgeline.advice.machines import Activations, Applied
from ridgeline.advice.source import Source
from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.compiler import pipeline as compiler_pipeline
from ridgeline.errors import RidgelineError
from ridgeline.frontend import onnx_reader
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph
from ridgeline.machine import execute as machine_execute
from ridgeline.machine import loader, tabulate
from ridgeline.machine import simulate as machine_simulate
from ridgeline.machine.description import Machine
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import Trace
from ridgeline.passes.pipeline import prepare
from ridgeline.predict.choose import Choice
from ridgeline.predict.choose import choose as choose_chips
from ridgeline.predict.demand import Demand, Job
from ridgeline.predict.gemm import Prediction, predict_gemm
from ridgeline.predict.jobs import (
    DEFAULT_PRECISION,
    check_precision,
    named_job,
    unknown_model,
)
from ridgeline.quant import quantize as quantizer
from ridgeline.quant.recipe import Recipe
from ridgeline.results.rows import Report
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.machines import chip_of
from ridgeline.roofline.roof import usual_precision
from ridgeline.roofline.served import job_of
from ridgeline.workload.build import workload_of
from ridgeline.workload.read import read_workloads

Arrays = Mapping[str, npt.NDArray[Any]]
Dump = Callable[[str, Any], None]
"""Called with a stage's name and what it made: a Graph, or the text of a plan or program."""


def read_onnx(
    source: Path | str | bytes,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    dump: Dump | None = None,
) -> Graph:
    """The graph of an ONNX file, folded and fused; a quantised (QDQ) file stays quantised.

    `shapes` gives dimensions by input name; `batch` binds an open first dimension, which is 1
    otherwise.
    """
    graph = onnx_reader.read_onnx(source, shapes=shapes, batch=batch)
    if dump is not None:
        dump("read", graph)
    return prepare(graph, dump)


def load_machine(name: str | Path, settings: Sequence[str] = ()) -> Machine:
    """The shipped machine of this name, or that of a TOML file; `settings` like "array.rows=32"."""
    return loader.load_machine(name, settings)


def quantize(
    graph: Graph,
    samples: Arrays,
    recipe: Recipe | None = None,
    done: Callable[[int], None] | None = None,
) -> Graph:
    """The graph with int8 weights and calibrated integer activations.

    `samples` holds, by input name, arrays of [samples, ...], preprocessed as the model expects.
    `done` is called with how many more of them have been run.
    """
    return quantizer.quantize(graph, samples, recipe, done)


def compile(
    graph: Graph,
    machine: Machine,
    *,
    dump: Dump | None = None,
    host_link: bool = True,
    done: Callable[[int], None] | None = None,
) -> Program:
    """A checked Program for `machine`. Without `host_link`, data start and end in device memory.

    `done` is called with how many more of the graph's nodes have been compiled.
    """
    return compiler_pipeline.compile(graph, machine, dump=dump, host_link=host_link, done=done)


def execute(program: Program, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Outputs by name, bit for bit; operators that fall back are run by ONNX Runtime."""
    return machine_execute.execute(program, inputs, OnnxRuntimeExecutor())


def simulate(program: Program) -> Trace:
    """When every instruction starts and ends, in cycles of the machine's clock."""
    return machine_simulate.simulate(program)


def report(program: Program, trace: Trace) -> Report:
    """A row for each layer: what it had to do, what limits it, where its cycles went."""
    return tabulate.report(program, trace)


def analyze(
    model: Path | str | bytes | Graph,
    chip: Chip | Machine | str,
    precision: str | None = None,
    *,
    batch: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Bound:
    """How long a model takes on a chip, layer by layer, as an interval, and what limits it.

    `chip` is a sheet, its name or TOML file, or a machine; `precision` one of its, 16 bits where
    it has them. An ONNX file may lack its weights, and a batch that it fixes is rewritten; `batch`
    and `shapes` bind what it leaves open. The totals are `analyze(...).workload.macs`,
    `.operations` (2 x MACs) and `.parameters`.
    """
    if isinstance(model, Graph):
        workload = workload_of(model)
    else:
        workload = read_workloads(model, [batch], shapes)[0]
    sheet = load_chip(chip) if isinstance(chip, str) else chip
    sheet = chip_of(sheet) if isinstance(sheet, Machine) else sheet
    return bound_of(workload, sheet, precision or usual_precision(sheet))


def advise(
    model: Path | str | bytes | Graph,
    chip: Chip | Machine | str,
    precision: str | None = None,
    *,
    batch: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Advised:
    """What would help a model on a chip: each change made and costed again, most saved first.

    Arguments are those of `analyze`. Of each change the seconds saved of a sample's time, as an
    interval (below 0: slower), and the latency of a run after it.
    """
    if isinstance(model, Graph):
        workload, unfused = workload_of(model), workload_of(model, fused=False)
    else:
        (workload,) = read_workloads(model, [batch], shapes)
        (unfused,) = read_workloads(model, [batch], shapes, fused=False)
    sheet = load_chip(chip) if isinstance(chip, str) else chip
    target = f"--machine {sheet.name}" if isinstance(sheet, Machine) else f"--chip {sheet.name}"
    sheet = chip_of(sheet) if isinstance(sheet, Machine) else sheet
    name = str(model) if isinstance(model, (Path, str)) else "MODEL.onnx"
    case = Case(workload, sheet, precision or usual_precision(sheet))
    return advise_on(case, unfused, name, target)


def advise_machine(
    model: Path | str | bytes,
    machine: Machine | str,
    *,
    apply: bool = False,
    samples: Arrays | None = None,
    activations: Activations = "uint8",
    batch: int | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> list[Applied]:
    """Changes of a machine file, the batch or the format, each predicted from the run as it is.

    With `apply` each is compiled and simulated too: `achieved` stands beside `predicted`, both in
    cycles for as many samples as one run now has, and `error` is that of the gain. What cannot be
    applied says why in `reason`. `samples` as for `quantize`; without them random numbers are
    taken, on which no time depends. Raises RidgelineError where the model does not compile as it
    is.
    """
    chosen = load_machine(machine) if isinstance(machine, str) else machine
    source = Source(model, samples, activations, batch, shapes or {})
    return machines.advise_machine(source.graph_at, chosen, apply=apply)


def choose(
    models: Sequence[str],
    *,
    chips: Sequence[str] | None = None,
    precision: str | None = None,
    context: int | None = None,
    demand: Demand | None = None,
) -> tuple[list[Choice], list[Job]]:
    """Which chips serve a mix of models, those that meet the demand first; and the mix.

    A model is a name as "llama-3-8b" or "resnet-50", or an ONNX file; "=2" after it is its share.
    `chips` are names or TOML files, all of the catalogue by default; `precision` is int8 for
    networks and fp16 for a language model's weights; `context` the tokens before the next one.
    """
    jobs = [_job(text, precision, context) for text in models]
    sheets = [load_chip(name) for name in (chip_names() if chips is None else chips)]
    return choose_chips(jobs, sheets, demand or Demand()), jobs


def _job(text: str, precision: str | None, context: int | None) -> Job:
    name, equals, tail = text.rpartition("=")
    share = 1.0
    if equals and re.fullmatch(r"[0-9]+(\.[0-9]+)?", tail):
        share = float(tail)
        if share <= 0:
            raise RidgelineError(f"'{text}' has no share", where="choose", fix="Give one above 0")
    else:
        name = text
    known = named_job(name, precision, context, share)
    if known is not None:
        return known
    if not name.endswith(".onnx") and not Path(name).is_file():
        raise unknown_model(name)
    graph = onnx_reader.read_onnx(name, weights=False)
    found = job_of(workload_of(graph), check_precision(precision or DEFAULT_PRECISION), share)
    return replace(found, name=Path(name).stem)


__all__ = [
    "Advised",
    "Bound",
    "Choice",
    "Demand",
    "Prediction",
    "advise",
    "advise_machine",
    "analyze",
    "choose",
    "compile",
    "execute",
    "load_machine",
    "predict_gemm",
    "quantize",
    "read_onnx",
    "report",
    "simulate",
]
