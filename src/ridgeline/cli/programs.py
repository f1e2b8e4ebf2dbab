"""The commands that make or take a file: quantize, compile, disassemble, execute and so on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ridgeline import api
from ridgeline.cli.arrays import fit_arrays, read_arrays, read_labels, sample_count
from ridgeline.cli.evaluate import accuracy, check_labels, execute_all
from ridgeline.cli.model import (
    check_formats,
    input_types,
    parse_shapes,
    prepare,
    read_graph,
    stage_dump,
)
from ridgeline.cli.outputs import (
    check_distinct,
    check_kept,
    check_writable,
    note,
    say,
    write_arrays,
    write_file,
)
from ridgeline.cli.report_files import ReportFiles
from ridgeline.cli.show import Format, show_report, stage
from ridgeline.compiler.device_part import device_part
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.machine import tabulate
from ridgeline.machine.check import check
from ridgeline.machine.instructions import Unit
from ridgeline.machine.program import DeviceSegment, Program, load_program
from ridgeline.machine.steady import steady_cycles, warm_cycles
from ridgeline.passes.pipeline import is_quantised
from ridgeline.quant.recipe import Recipe
from ridgeline.render.plain import visible
from ridgeline.render.units import percent, size
from ridgeline.results.columns import choose_columns


def quantize(
    model: Path,
    output: Path,
    calibrate: Path,
    recipe: Recipe,
    batch: int | None,
    shapes: tuple[str, ...],
) -> None:
    """Write the quantised model as a QDQ file."""
    check_writable(output, "--output")
    check_kept({"MODEL.onnx": model, "--calibrate": calibrate}, {"--output": output})
    samples = read_arrays(calibrate)
    with stage("reading"):
        graph = read_graph(model, parse_shapes(shapes), batch)
        fitting = fit_arrays(samples, input_types(graph), calibrate)
    with stage("quantising", sample_count(fitting)) as done:
        quantised = api.quantize(graph, fitting, recipe, done)
        if not is_quantised(quantised):
            raise RidgelineError(
                "nothing in this model can be quantised: no layer has a number format and an"
                " operator that the accelerator takes",
                where=str(model),
                fix="See docs/graph.md for the operators; run it with: ridgeline run",
            )
        write_file(output, onnx_bytes(quantised))
    say(visible(f"{output}: {len(quantised.nodes)} nodes, {recipe.activations} activations"))


def compile(
    model: Path,
    output: Path,
    machine_name: str,
    settings: tuple[str, ...],
    recipe: Recipe,
    calibrate: Path | None,
    batch: int | None,
    shapes: tuple[str, ...],
    dump_stages: Path | None,
    device_only: bool = False,
) -> None:
    """Write the program; `device_only`: of the accelerator's part, between stored integers."""
    check_writable(output, "--output")
    read = {"MODEL.onnx": model, "--machine": machine_name, "--calibrate": calibrate}
    check_kept(read, {"--output": output})
    check_distinct({"--output": output, "--dump-stages": dump_stages})
    machine = api.load_machine(machine_name, settings)
    check_formats(machine, recipe.activations, None)
    dump = stage_dump(dump_stages)
    with stage("reading"):
        graph = read_graph(model, parse_shapes(shapes), batch, dump)
    prepared = prepare(graph, recipe, calibrate, None, dump)
    compiled = device_part(prepared.graph, machine) if device_only else prepared.graph
    with stage("compiling", len(compiled.nodes)) as done:
        link = not device_only
        program = api.compile(compiled, machine, dump=dump, done=done, host_link=link)
        program.save(output)
    for remark in prepared.notes:
        note(f"note: {remark}")
    say(visible(f"{output}: {summary(program)}"))


def summary(program: Program) -> str:
    """One line: what a program holds."""
    host = sum(not isinstance(s, DeviceSegment) for s in program.segments)
    return (
        f"{program.name} for {program.machine.name}, {len(program.instructions):,} instructions,"
        f" {len(program.layers)} layers, {host} segments on the host,"
        f" {size(int(program.constants.size))} of constants"
    )


def disassemble(path: Path) -> None:
    """Print every instruction."""
    for line in disassembly(load_program(path)):
        say(visible(line))


def disassembly(program: Program) -> Iterator[str]:
    """A heading for each segment and each layer's stretch; a line for each instruction."""
    yield f"program {program.name} for {program.machine.name}, numeric mode {program.numeric_mode}"
    for tensor in program.inputs + program.device_inputs:
        yield f"input {tensor.name}: {tensor.dtype}{list(tensor.shape)} at {tensor.address:#x}"
    for tensor in program.outputs + program.device_outputs:
        yield f"output {tensor.name}: {tensor.dtype}{list(tensor.shape)} at {tensor.address:#x}"
    for number, segment in enumerate(program.segments):
        if not isinstance(segment, DeviceSegment):
            names = ", ".join(program.layers[i].name for i in segment.layers)
            yield f"segment {number}: host, {names or segment.name}"
            continue
        yield f"segment {number}: device, {len(segment.instructions):,} instructions"
        yield from _listing(program, segment)


def _listing(program: Program, segment: DeviceSegment) -> Iterator[str]:
    counts = [0] * len(Unit)
    layer = -1
    for index, instruction in enumerate(segment.instructions):
        if instruction.layer != layer:
            layer = instruction.layer
            name = program.layers[layer].name if 0 <= layer < len(program.layers) else "-"
            yield f"  {name}:"
        counts[instruction.unit] += 1
        label = f"{instruction.unit.name.lower()}.{counts[instruction.unit]}"
        yield f"  {index:6} {label:>12}  {instruction}"


def check_program(path: Path) -> None:
    """Say that the program is legal, or why not."""
    program = load_program(path)
    with stage("checking"):
        check(program)
    say(visible(f"{path}: legal: {summary(program)}"))


def execute(path: Path, input: Path, output: Path | None, labels: bool) -> None:
    """Compute the outputs of every sample."""
    check_writable(output, "--output")
    check_kept({"P.rlp": path, "--input": input}, {"--output": output})
    program = load_program(path)
    check(program)
    raw = read_arrays(input)
    tensors = program.inputs + program.device_inputs
    data = fit_arrays(raw, {t.name: (t.shape, t.dtype.numpy) for t in tensors}, input)
    count = sample_count(data)
    wanted = read_labels(raw, count, input) if labels else None
    if wanted is not None:
        scores = (program.outputs + program.device_outputs)[0]
        check_labels(wanted, scores.name, scores.shape)
    with stage("executing", count) as done:
        outputs = execute_all(program, data, done)
    if output is not None:
        write_arrays(output, outputs)
    for name, array in outputs.items():
        least, most = (f"{array.min():g}", f"{array.max():g}") if array.size else ("-", "-")
        say(visible(f"{name}: {array.dtype}{list(array.shape)}, {least} to {most}"))
    if wanted is not None:
        found = accuracy(wanted, outputs)
        right = f"{found.quantised_right} of {found.images}"
        say(f"accuracy: {percent(found.quantised_share, 2)} ({right})")


def simulate(
    path: Path,
    files: ReportFiles,
    form: Format,
    columns: tuple[str, ...],
    pipelined: bool,
) -> None:
    """Time the program and print the report."""
    files.check({"P.rlp": path})
    choose_columns(columns)
    program = load_program(path)
    check(program)
    with stage("simulating"):
        trace = api.simulate(program)
        warm = warm_cycles(program) if pipelined else None
        steady = steady_cycles(program) if pipelined else None
    report = tabulate.report(program, trace, warm_cycles=warm, steady_cycles=steady)
    files.write(report, trace)
    show_report(report, form, columns)
