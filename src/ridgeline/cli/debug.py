"""`ridgeline debug`: the first layer, instruction and value that are not what they should be."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline import api
from ridgeline.cli.arrays import Arrays, batches, fit_arrays, read_arrays, sample_count
from ridgeline.cli.model import check_formats, input_types, parse_shapes, prepare, read_graph
from ridgeline.cli.outputs import (
    check_distinct,
    check_kept,
    check_writable,
    note,
    say,
    write_arrays,
    write_file,
)
from ridgeline.cli.show import stage
from ridgeline.compiler.pipeline import Compiled, compile_located
from ridgeline.divergence.explain import first_divergence
from ridgeline.divergence.find import Divergence, executed_values
from ridgeline.divergence.references import (
    Reference,
    by_meaning,
    by_onnx_runtime,
    from_arrays,
)
from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.check import check
from ridgeline.machine.program import Program, load_program
from ridgeline.quant.recipe import Recipe
from ridgeline.render.plain import visible

BEYOND = 1
"""Exit code when a value differs; a fault is 2."""

INTEGERS, ONNX_RUNTIME = "integers", "onnxruntime"
CHAIN_SHOWN = 12


@dataclass(frozen=True, slots=True)
class DebugOptions:
    """The options of `ridgeline debug`, as the command line has them."""

    model: Path
    input: Path
    machine: str
    settings: tuple[str, ...]
    program: Path | None
    against: str
    calibrate: Path | None
    recipe: Recipe
    batch: int | None
    shapes: tuple[str, ...]
    dump: Path | None
    json: Path | None


def _check_paths(options: DebugOptions) -> None:
    """Raise RidgelineError if a file would be written over another that is read or written."""
    read = {
        "MODEL.onnx": options.model,
        "--input": options.input,
        "--machine": options.machine,
        "--program": options.program,
        "--against": options.against,
        "--calibrate": options.calibrate,
    }
    written = {"--dump": options.dump, "--json": options.json}
    check_distinct(written)
    check_kept(read, written)


def debug(options: DebugOptions) -> int:
    """Execute, compare value by value, print the first difference; 1 if there is one, else 0."""
    check_writable(options.dump, "--dump")
    check_writable(options.json, "--json")
    _check_paths(options)
    program = load_program(options.program) if options.program else None
    if program is not None:
        check(program)
    machine = program.machine if program else api.load_machine(options.machine, options.settings)
    check_formats(machine, options.recipe.activations, None)
    raw = read_arrays(options.input)
    batch = options.batch or _batch_of(program)
    with stage("reading"):
        graph = read_graph(options.model, parse_shapes(options.shapes), batch)
    data = fit_arrays(raw, input_types(graph), options.input)
    prepared = prepare(graph, options.recipe, options.calibrate, data)
    with stage("compiling", len(prepared.graph.nodes)) as done:
        compiled = compile_located(prepared.graph, machine, done=done)
    for remark in prepared.notes:
        note(f"note: {remark}")
    executed = program or compiled.program
    _check_same_form(compiled.program, executed, options)
    if options.dump is not None:
        part, _ = next(batches(data, _size(compiled)))
        write_arrays(options.dump, executed_values(compiled, part, OnnxRuntimeExecutor()))
    number, found = _search(compiled, executed, data, options.against)
    _tell(compiled, found, number, options)
    return BEYOND if found else 0


def _batch_of(program: Program | None) -> int | None:
    """Samples in one run of a program, which an open first dimension must be."""
    tensors = () if program is None else program.inputs + program.device_inputs
    return next((t.shape[0] for t in tensors if t.shape), None)


def _check_same_form(fresh: Program, given: Program, options: DebugOptions) -> None:
    layers = [layer.name for layer in fresh.layers]
    if [layer.name for layer in given.layers] != layers:
        raise RidgelineError(
            "has other layers than the model",
            where=str(options.program),
            fix="Give the model, calibration and batch that it was compiled from",
        )


def _size(compiled: Compiled) -> int:
    return next((v.type.shape[0] for v in compiled.graph.inputs if v.type.shape), 1)


def _search(
    compiled: Compiled, program: Program, data: Arrays, against: str
) -> tuple[int, Divergence | None]:
    """(samples looked at, the first divergence). A file holds the values of the first batch."""
    host, size, looked = OnnxRuntimeExecutor(), _size(compiled), 0
    with stage("comparing", sample_count(data)) as done:
        for part, samples in batches(data, size):
            looked += samples
            reference = _reference(compiled, part, against)
            found = first_divergence(compiled, program, part, reference, host)
            done(samples)
            if found is not None or against not in (INTEGERS, ONNX_RUNTIME):
                return looked, found
    return looked, None


def _reference(compiled: Compiled, part: Arrays, against: str) -> Reference:
    if against == INTEGERS:
        return by_meaning(compiled.graph, part)
    if against == ONNX_RUNTIME:
        return by_onnx_runtime(compiled.graph, part)
    return from_arrays(compiled.graph, read_arrays(Path(against)), against)


def _tell(
    compiled: Compiled, found: Divergence | None, samples: int, options: DebugOptions
) -> None:
    if options.json is not None:
        facts = _facts(compiled, found) if found else None
        report = {"against": options.against, "samples": samples, "first_difference": facts}
        write_file(options.json, json_text.dumps(report, indent=2) + "\n")
    if found is None:
        say(visible(f"no difference from {options.against} in {samples} samples"))
        return
    for line in _lines(compiled, found, options.against):
        say(visible(line))


def _lines(compiled: Compiled, found: Divergence, against: str) -> Iterator[str]:
    layer = compiled.program.layers[found.layer]
    yield f"first difference from {against}: layer '{layer.name}' ({layer.op})"
    yield f"value '{found.value.name}' {found.value.type}"
    yield f"  at {list(found.index)}: expected {found.expected}, got {found.got}"
    yield f"  {found.wrong:,} of {found.checked:,} elements differ so far"
    yield f"written by {found.step}"
    yield from (f"operand {text}" for text in found.inputs)
    if len(found.chain) > 1:
        yield "which used, of the same layer:"
        for step in found.chain[:-1][-CHAIN_SHOWN:]:
            yield f"  {step}"
    if found.changes:
        yield "not as the compiler makes it of this model:"
        yield from (f"  {change.step}: {change.text}" for change in found.changes[:CHAIN_SHOWN])


def _facts(compiled: Compiled, found: Divergence) -> dict[str, Any]:
    layer = compiled.program.layers[found.layer]
    return {
        "layer": layer.name,
        "op": layer.op,
        "value": found.value.name,
        "index": list(found.index),
        "expected": found.expected.item(),
        "got": found.got.item(),
        "elements_that_differ": found.wrong,
        "elements_compared": found.checked,
        "written_by": _step(found.step),
        "wrong_operands": list(found.inputs),
        "used": [_step(step) for step in found.chain[:-1]],
        "changed": [{**_step(c.step), "how": c.text} for c in found.changes],
    }


def _step(step: Any) -> dict[str, Any]:
    return {"segment": step.segment, "instruction": step.index, "unit": step.label}
