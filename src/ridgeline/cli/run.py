"""`ridgeline run`: a model's whole way, from the file to the report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ridgeline import api
from ridgeline.cli.arrays import Arrays, fit_arrays, read_arrays, read_labels, sample_count
from ridgeline.cli.evaluate import accuracy, check_labels, execute_all, number_format, run_float
from ridgeline.cli.model import (
    Prepared,
    batched_graph,
    check_formats,
    input_types,
    parse_shapes,
    prepare,
    read_graph,
    stage_dump,
)
from ridgeline.cli.outputs import check_distinct, check_kept, check_writable, write_arrays
from ridgeline.cli.report_files import ReportFiles
from ridgeline.cli.show import Done, Format, show_report, stage
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine import tabulate
from ridgeline.machine.description import Machine
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import Trace
from ridgeline.machine.steady import steady_cycles, warm_cycles
from ridgeline.quant.recipe import Recipe
from ridgeline.quant.report import layer_sqnr_db
from ridgeline.results.columns import choose_columns
from ridgeline.results.rows import Accuracy, Report

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `ridgeline run`, as the command line has them."""

    model: Path
    machine: str
    settings: tuple[str, ...]
    batch: int | None
    shapes: tuple[str, ...]
    input: Path | None
    output: Path | None
    calibrate: Path | None
    labels: bool
    recipe: Recipe
    floating: str | None
    dump_stages: Path | None
    files: ReportFiles
    format: Format
    columns: tuple[str, ...]
    pipelined: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What executing the samples gave; empty without --input."""

    outputs: Arrays
    accuracy: Accuracy | None = None


def run(options: RunOptions) -> None:
    """Do it all and print the report. Raises RidgelineError before the long work where it can."""
    _check_options(options)
    machine = api.load_machine(options.machine, options.settings)
    check_formats(machine, options.recipe.activations, options.floating)
    raw = read_arrays(options.input) if options.input else None
    dump = stage_dump(options.dump_stages)
    with stage("reading"):
        graph = read_graph(options.model, parse_shapes(options.shapes), options.batch, dump)
    data = labels = None
    if raw is not None and options.input is not None:
        data = fit_arrays(raw, input_types(graph), options.input)
        labels = _labels(options, raw, sample_count(data), graph)
    prepared = prepare(graph, options.recipe, options.calibrate, data, dump)
    with stage("compiling", len(prepared.graph.nodes)) as done:
        program = api.compile(prepared.graph, machine, dump=dump, done=done)
    outcome = Outcome({})
    if data is not None:
        executed = _batched_program(options, machine, prepared, data) or program
        with stage("executing", sample_count(data)) as done:
            outcome = _execute(executed, prepared, data, labels, done)
    with stage("simulating"):
        trace = api.simulate(program)
        report = _report(options, program, trace, prepared, data)
    report = replace(report, accuracy=outcome.accuracy)
    if options.output is not None:
        write_arrays(options.output, outcome.outputs)
    options.files.write(report, trace)
    show_report(report, options.format, options.columns)


def _check_options(options: RunOptions) -> None:
    choose_columns(options.columns)
    read = {
        "MODEL.onnx": options.model,
        "--machine": options.machine,
        "--input": options.input,
        "--calibrate": options.calibrate,
    }
    check_writable(options.output, "--output")
    check_kept(read, {"--output": options.output})
    options.files.check(read)
    folder = {"--dump-stages": options.dump_stages}
    check_distinct({"--output": options.output, **options.files.paths(), **folder})
    for option, given in (("--output", options.output), ("--labels", options.labels)):
        if given and options.input is None:
            raise RidgelineError(
                "needs samples to execute", where=option, fix="Give them with --input DATA.npz"
            )


def _labels(options: RunOptions, raw: Arrays, count: int, graph: Graph) -> Labels | None:
    """The labels, if they are asked for; checked before the long work."""
    if not options.labels or options.input is None:
        return None
    labels = read_labels(raw, count, options.input)
    scores = graph.outputs[0]
    check_labels(labels, scores.name, scores.type.shape)
    return labels


def _batched_program(
    options: RunOptions, machine: Machine, prepared: Prepared, data: Arrays
) -> Program | None:
    """A program for many samples at a time, when --batch and --shape leave their number open."""
    if options.batch is not None or options.shapes:
        return None
    graph = batched_graph(options.model, prepared, data, options.recipe)
    return None if graph is None else api.compile(graph, machine)


def _execute(
    program: Program, prepared: Prepared, data: Arrays, labels: Labels | None, done: Done
) -> Outcome:
    outputs = execute_all(program, data, done)
    if labels is None:
        return Outcome(outputs)
    floating = run_float(prepared.floating, data) if prepared.floating else None
    found = accuracy(labels, outputs, floating, number_format(prepared.graph))
    return Outcome(outputs, found)


def _report(
    options: RunOptions, program: Program, trace: Trace, prepared: Prepared, data: Arrays | None
) -> Report:
    sqnr_db = None
    if prepared.floating is not None and data is not None:
        sqnr_db = layer_sqnr_db(prepared.floating, prepared.graph, data)
    warm = warm_cycles(program) if options.pipelined else None
    steady = steady_cycles(program) if options.pipelined else None
    return tabulate.report(
        program,
        trace,
        warm_cycles=warm,
        steady_cycles=steady,
        sqnr_db=sqnr_db,
        notes=prepared.notes,
    )
