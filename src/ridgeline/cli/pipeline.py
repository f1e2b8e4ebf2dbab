"""A model as a pipeline: `ridgeline rtl`, `cosim` and `fpga` with --pipeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline import api
from ridgeline.cli.arrays import fit_arrays, read_arrays, sample_count
from ridgeline.cli.model import input_types, parse_shapes, prepare, read_graph
from ridgeline.cli.outputs import check_kept, check_writable, note, say, write_file
from ridgeline.cli.show import stage, terminal_width
from ridgeline.compiler.device_part import device_part
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.ops.evaluate import evaluate
from ridgeline.quant.recipe import Recipe
from ridgeline.render.plain import visible, wrapped
from ridgeline.render.table import aligned
from ridgeline.rtl.build import require_tools
from ridgeline.rtl.pipeline.beside import Cost, array_cost, pipeline_cost
from ridgeline.rtl.pipeline.choose import Target, choose
from ridgeline.rtl.pipeline.layers import layers_of, pixels_of
from ridgeline.rtl.pipeline.narrow import narrowed
from ridgeline.rtl.pipeline.plan import Plan
from ridgeline.rtl.pipeline.timing import times

DIFFERS = 1
"""Exit code when the hardware differs; a fault is 2."""

BESIDE = "tiny-16"
"""The array that a pipeline is set beside, and whose clock and prices it is given."""

_SIXTEEN_BITS = ("array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48")

MAX_NAME = 22


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Which model, and what the pipeline is to meet."""

    model: Path
    calibrate: Path | None = None
    activations: str = "uint8"
    shapes: tuple[str, ...] = ()
    interval: int | None = None
    multipliers: int | None = None
    memory_bits: int | None = None
    bits: tuple[str, ...] = ()
    json: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A pipeline before it is hardware, with the part of the graph that it computes."""

    part: Graph
    plan: Plan
    machine: Machine
    notes: tuple[str, ...] = field(default=())


def parse_bits(texts: Sequence[str]) -> dict[str, int]:
    """Bits by layer from texts such as "conv1=4" or "*=4"."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.rpartition("=")
        if not equals or not name or not count.strip().isdigit():
            raise RidgelineError(
                f"'{text}' is not LAYER=BITS", where="--bits", fix="For example: --bits '*=4'"
            )
        if name in found:
            raise RidgelineError(f"'{name}' is given twice", where="--bits")
        found[name] = int(count)
    return found


def make(options: PipelineOptions) -> Made:
    """Read, quantise, narrow, and choose folds and buffers."""
    bits = parse_bits(options.bits)
    for name in ("interval", "multipliers", "memory_bits"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise RidgelineError("must be at least 1", where=f"--{name.replace('_', '-')}")
    recipe = Recipe(activations=options.activations)  # pyright: ignore[reportArgumentType]
    settings = _SIXTEEN_BITS if options.activations == "int16" else ()
    machine = api.load_machine(BESIDE, settings)
    with stage("reading"):
        graph = read_graph(options.model, parse_shapes(options.shapes), None)
    prepared = prepare(graph, recipe, options.calibrate, None)
    part = device_part(narrowed(prepared.graph, bits), machine)
    target = Target(options.interval, options.multipliers, options.memory_bits)
    with stage("choosing folds and buffers"):
        plan = choose(part.name, layers_of(part), target)
    return Made(part, plan, machine, prepared.notes)


def write_pipeline(options: PipelineOptions, output: Path) -> None:
    """Write the pipeline as Verilog and show its stages."""
    check_writable(output, "--output")
    if output.suffix != ".v":
        raise RidgelineError(
            "a pipeline is one file, whose name ends in .v", where=f"--output {output}"
        )
    check_kept({"MODEL.onnx": options.model, "--calibrate": options.calibrate},
               {"--output": output})  # fmt: skip
    require_tools("amaranth")
    made = make(options)
    with stage("generating"):
        from ridgeline.rtl.pipeline.simulate import generate

        text, ports = generate(made.plan)
    write_file(output, text)
    costs = _costs(made)
    if options.json:
        pins = [
            {"name": p.name, "direction": p.direction, "bits": p.bits, "meaning": p.meaning}
            for p in ports
        ]
        say(json.dumps({"file": str(output), **_as_json(made, costs), "pins": pins}, indent=2))
        return
    for remark in made.notes:
        note(f"note: {remark}")
    for line in (*_text(made, costs), f"written to {output}"):
        say(line)


def _costs(made: Made) -> tuple[Cost, Cost]:
    with stage("timing the array beside it"):
        return pipeline_cost(made.plan, made.machine), array_cost(made.part, made.machine)


def _text(made: Made, costs: tuple[Cost, Cost]) -> list[str]:
    plan, (ours, array) = made.plan, costs
    width = terminal_width()
    lines = wrapped(
        f"{visible(plan.name)} as a pipeline: {len(plan.stages)} stages, {plan.multipliers:,}"
        f" multipliers, {plan.memory_bits:,} bits of memory",
        width,
    )
    head = ("stage", "fold", "bits", "multipliers", "lanes", "memory bits", "cycles")
    rows: list[tuple[str, ...]] = [head]
    for one in plan.stages:
        name = visible(one.layer.name)
        rows.append(
            (
                name if len(name) <= MAX_NAME else "…" + name[1 - MAX_NAME :],
                f"{one.fold.outputs}x{one.fold.inputs}",
                str(one.layer.weight_bits or "-"),
                str(one.multipliers or "-"),
                str(one.lanes),
                f"{one.memory_bits:,}",
                f"{one.image_cycles:,}",
            )
        )
    lines += ["", *aligned(rows), ""]
    hertz = made.machine.clock_hz
    rows = [
        (f"at {hertz / 1e6:g} MHz", "latency", "µs", "interval", "images/s", "µJ/image"),
        _cost_row("this pipeline", ours, hertz),
        _cost_row(f"array {made.machine.name}", array, hertz),
    ]
    lines += aligned(rows)
    lines += wrapped(
        f"Energy is an estimate at the prices of {made.machine.name}, idle power for an interval"
        " included, for both; nothing for the wires between stages.",
        width,
    )
    return lines


def _cost_row(name: str, cost: Cost, hertz: float) -> tuple[str, ...]:
    return (
        name,
        f"{cost.latency_cycles:,}",
        f"{cost.latency_cycles / hertz * 1e6:.1f}",
        f"{cost.interval_cycles:,}",
        f"{hertz / cost.interval_cycles:,.0f}",
        "-" if cost.joules is None else f"{cost.joules * 1e6:.2f}",
    )


def _as_json(made: Made, costs: tuple[Cost, Cost]) -> dict[str, Any]:
    plan = made.plan
    named = zip(("pipeline", made.machine.name), costs, strict=True)
    return {
        "pipeline": plan.name,
        "multipliers": plan.multipliers,
        "memory_bits": plan.memory_bits,
        "stages": [
            {
                "name": one.layer.name,
                "kind": one.layer.kind,
                "outputs_together": one.fold.outputs,
                "inputs_together": one.fold.inputs,
                "weight_bits": one.layer.weight_bits,
                "multipliers": one.multipliers,
                "lanes": one.lanes,
                "memory_bits": one.memory_bits,
                "buffer_pixels": list(one.depths),
                "cycles": one.image_cycles,
            }
            for one in plan.stages
        ],
        "costs": [
            {
                "of": name,
                "latency_cycles": cost.latency_cycles,
                "interval_cycles": cost.interval_cycles,
                "joules": cost.joules,
                "clock_hz": made.machine.clock_hz,
            }
            for name, cost in named
        ],
        "notes": list(made.notes),
    }


def cosim_pipeline(
    options: PipelineOptions, input: Path | None, stalls: int | None, seed: int
) -> int:
    """Stream images through the hardware; say what differs from the graph's integers and from the
    cycles that the plan says. Returns the exit code.
    """
    require_tools()
    made = make(options)
    from ridgeline.rtl.pipeline.simulate import stream

    images = _images(made.part, input, seed)
    given, last = made.plan.stages[0].layer.given[0], made.plan.stages[-1].layer.made
    value, output = made.part.inputs[0], made.part.outputs[0]
    with stage("computing what the graph says"):
        wanted = [evaluate(made.part, {value.name: image})[id(output)] for image in images]
    expected = np.concatenate([pixels_of(one, last) for one in wanted])
    with stage("building and running the hardware"):
        streamed = stream(made.plan, np.concatenate([pixels_of(i, given) for i in images]), stalls)
    wrong = int((streamed.pixels != expected).sum())
    planned = None if stalls is not None else times(made.plan, len(images))
    same = planned is None or (planned.taken, planned.given) == (streamed.taken, streamed.given)
    found = {
        "pipeline": made.plan.name,
        "images": len(images),
        "integers": int(expected.size),
        "integers_that_differ": wrong,
        "cycles": streamed.given[-1] + 1,
        "planned_cycles": None if planned is None else planned.given[-1] + 1,
        "equal": wrong == 0 and same,
    }
    if options.json:
        say(json.dumps(found, indent=2))
    else:
        for line in _compared_text(found, same):
            say(line)
    return 0 if found["equal"] else DIFFERS


def _compared_text(found: dict[str, Any], same: bool) -> list[str]:
    count = f"{found['images']} images" if found["images"] > 1 else "one image"
    lines = [f"{visible(found['pipeline'])} as a pipeline: {count}"]
    wrong, all_of_them = found["integers_that_differ"], found["integers"]
    bits = "equal" if not wrong else f"{wrong:,} of {all_of_them:,} integers differ"
    lines.append(f"bits    {bits}")
    if found["planned_cycles"] is None:
        lines.append(f"cycles  {found['cycles']:,} with random stalls: not compared")
    elif same:
        lines.append(f"cycles  equal: {found['cycles']:,}, and those of every pixel in and out")
    else:
        lines.append(f"cycles  planned {found['planned_cycles']:,}, hardware {found['cycles']:,}")
    return lines


def _images(part: Graph, input: Path | None, seed: int) -> list[npt.NDArray[Any]]:
    """Stored integers, an image at a time; without a file, four random ones."""
    value = part.inputs[0]
    shape, kind = value.type.shape, value.type.dtype
    if input is None:
        rng = np.random.default_rng(seed)
        return [rng.integers(kind.low, kind.high + 1, shape).astype(kind.numpy) for _ in range(4)]
    data = fit_arrays(read_arrays(input), input_types(part), input)
    count = sample_count(data)
    return [data[value.name][i : i + 1].reshape(shape) for i in range(count)]


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """On which part, how fast; `count`: synthesis alone."""

    part: str
    clock_mhz: float
    seed: int
    count: bool


def place_pipeline(options: PipelineOptions, wanted: PlaceOptions) -> None:
    """Place the pipeline on an FPGA and say its resources, clock and images a second."""
    from ridgeline.rtl.fpga.build import place, synthesise
    from ridgeline.rtl.fpga.design import Design
    from ridgeline.rtl.fpga.parts import part
    from ridgeline.rtl.fpga.synthesis import RESOURCES
    from ridgeline.rtl.fpga.tools import YOSYS, require_fpga_tools
    from ridgeline.rtl.pipeline.simulate import generate
    from ridgeline.rtl.verilog import TOP

    target = part(wanted.part)
    counted = wanted.count or not target.is_placed
    require_fpga_tools(*(("amaranth", YOSYS) if counted else ()))
    made = make(options)
    with ExitStack() as shown:

        def progress(what: str) -> None:
            shown.close()
            shown.enter_context(stage(f"{what} (minutes)"))

        progress("generating")
        text, ports = generate(made.plan)
        design = Design(f"{made.plan.name} as a pipeline", text, TOP, tuple(ports))
        build = (
            synthesise(design, target, progress)
            if counted
            else place(
                design, target, target_hz=wanted.clock_mhz * 1e6, seed=wanted.seed,
                progress=progress,
            )
        )  # fmt: skip
    resources = {name: int(getattr(build.synthesis.resources, name)) for name in RESOURCES}
    hertz = None if build.placement is None else build.placement.most_hz
    cost = pipeline_cost(made.plan, made.machine)
    if options.json:
        say(json.dumps({
            "pipeline": made.plan.name, "part": target.full_name, "resources": resources,
            "clock_hz": hertz, "latency_cycles": cost.latency_cycles,
            "interval_cycles": cost.interval_cycles, "multipliers": made.plan.multipliers,
            "memory_bits": made.plan.memory_bits,
        }, indent=2))  # fmt: skip
        return
    say(visible(f"{design.name} on {target.full_name}"))
    rows = [("", "design", "part")]
    rows += [(RESOURCES[n], f"{c:,}", f"{target.holds(n):,}") for n, c in resources.items()]
    for line in aligned(rows):
        say(line)
    if hertz is not None:
        say(f"clock    {hertz / 1e6:.1f} MHz of {wanted.clock_mhz:g} asked for")
        say(
            f"latency  {cost.latency_cycles:,} cycles, {cost.latency_cycles / hertz * 1e6:.1f} µs;"
            f" {hertz / cost.interval_cycles:,.0f} images a second"
        )
