"""`ridgeline advise`: what would help a model on a chip, and what would not."""

from __future__ import annotations

import json

from ridgeline.advice.advise import advise_on
from ridgeline.advice.case import Case
from ridgeline.advice.machines import Activations, advise_machine
from ridgeline.cli.analyze import AnalyzeOptions, chosen_chips, parse_batches, target_of
from ridgeline.cli.model import parse_shapes, prepare, read_graph
from ridgeline.cli.outputs import say
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.loader import load_machine
from ridgeline.quant.recipe import Recipe
from ridgeline.render import advice as render
from ridgeline.roofline.roof import usual_precision
from ridgeline.workload.read import read_workloads


def show_advice(options: AnalyzeOptions, *, apply: bool = False) -> None:
    """Print the advice, most saved first. Raises RidgelineError without a chip.

    With `apply` it is that of a machine file, each change compiled and simulated.
    """
    batches = parse_batches(options.batch)
    if len(batches) > 1:
        raise RidgelineError(
            f"'{options.batch}' are several batches",
            where="--batch",
            fix="Give one: larger ones are tried anyway",
        )
    if apply:
        _show_applied(options, batches[0])
        return
    chips = chosen_chips(options)
    if not chips:
        raise RidgelineError(
            "needs a chip",
            where="advise",
            fix="Name one with --chip or --machine, or give --peak and --bandwidth",
        )
    shapes = parse_shapes(options.shapes)
    (workload,) = read_workloads(options.model, batches, shapes)
    (unfused,) = read_workloads(options.model, batches, shapes, fused=False)
    case = Case(workload, chips[0], options.precision or usual_precision(chips[0]))
    made = advise_on(case, unfused, str(options.model), target_of(options, chips[0]))
    if options.json:
        say(json.dumps(render.advised_as_json(made), indent=2))
    else:
        say(render.advised(made))


def _show_applied(options: AnalyzeOptions, batch: int | None) -> None:
    """Changes of a machine file, predicted from the run as it is and beside that simulated."""
    if options.machine is None or options.chips or options.peaks or options.bandwidth:
        raise RidgelineError(
            "changes can be applied to a machine file only",
            where="--apply",
            fix="Name one with --machine; `ridgeline machines` lists them",
        )
    machine = load_machine(options.machine)
    form = _activations(options.precision, machine)
    shapes = parse_shapes(options.shapes)

    def graph_at(times: int, activations: Activations | None = None) -> Graph:
        # A batch is of every shape that is given, too.
        larger = {name: (times * shape[0], *shape[1:]) for name, shape in shapes.items()}
        wanted = times * (batch or 1) if batch is not None or (times > 1 and not shapes) else None
        graph = read_graph(options.model, larger, wanted)
        return prepare(graph, Recipe(activations=activations or form), None, None, None).graph

    made = advise_machine(graph_at, machine, apply=True)
    name, samples = options.model.stem, batch or 1
    if options.json:
        say(json.dumps(render.applied_as_json(name, machine.name, samples, made), indent=2))
    else:
        say(render.applied(name, machine.name, samples, made))


def _activations(precision: str | None, machine: Machine) -> Activations:
    """Activations of the run as it is. Raises RidgelineError where the array has no such format."""
    formats = list(machine.array.macs_per_pe_per_cycle)
    if precision is None or precision == "int8":
        return "uint8"
    if precision == "int16" and precision in formats:
        return "int16"
    raise RidgelineError(
        f"the array of machine {machine.name} has no '{precision}'",
        where="--precision",
        fix=f"It has: {', '.join(formats)}. Leave it out for int8",
    )
