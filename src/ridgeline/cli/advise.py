"""`ridgeline advise`: what would help a model on a chip, and what would not."""

from __future__ import annotations

import json
import shlex

from ridgeline.advice.advise import advise_on
from ridgeline.advice.case import Case
from ridgeline.cli.analyze import AnalyzeOptions, chosen_chips, parse_batches
from ridgeline.cli.model import parse_shapes
from ridgeline.cli.outputs import say
from ridgeline.errors import RidgelineError
from ridgeline.render import advice as render
from ridgeline.roofline.roof import usual_precision
from ridgeline.workload.read import read_workloads


def show_advice(options: AnalyzeOptions) -> None:
    """Print the advice, most saved first. Raises RidgelineError without a chip."""
    batches = parse_batches(options.batch)
    if len(batches) > 1:
        raise RidgelineError(
            f"'{options.batch}' are several batches",
            where="--batch",
            fix="Give one: larger ones are tried anyway",
        )
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
    made = advise_on(case, unfused, str(options.model), _target(options))
    if options.json:
        say(json.dumps(render.advised_as_json(made), indent=2))
    else:
        say(render.advised(made))


def _target(options: AnalyzeOptions) -> str:
    """The options that name the chip, for commands."""
    if options.machine is not None:
        return f"--machine {shlex.quote(options.machine)}"
    if options.chips:
        return f"--chip {shlex.quote(options.chips[0])}"
    peaks = [f"--peak {shlex.quote(peak)}" for peak in options.peaks]
    return " ".join([*peaks, f"--bandwidth {shlex.quote(options.bandwidth or '')}"])
