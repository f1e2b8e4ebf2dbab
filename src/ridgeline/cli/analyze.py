"""`ridgeline analyze`: what a model has to do, and what limits each layer on a chip."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.cli.model import parse_shapes
from ridgeline.cli.outputs import say
from ridgeline.errors import RidgelineError
from ridgeline.render import analysis as render
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.roof import usual_precision
from ridgeline.workload.layer import Workload
from ridgeline.workload.read import read_workloads

MOST_BATCHES = 16


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    model: Path
    chip: str | None
    machine: str | None
    peaks: tuple[str, ...]
    bandwidth: str | None
    precision: str | None
    batch: str | None
    shapes: tuple[str, ...]
    layers: int
    json: bool


def show_analysis(options: AnalyzeOptions) -> None:
    """Print the analysis for each batch; without a chip only what the model has to do."""
    chip = chosen_chip(options)
    workloads = read_workloads(
        options.model, parse_batches(options.batch), parse_shapes(options.shapes)
    )
    if chip is None:
        _show_work(workloads, options.json)
        return
    precision = options.precision or usual_precision(chip)
    bounds = [bound_of(workload, chip, precision) for workload in workloads]
    if options.json:
        say(json.dumps({"analyses": [render.as_json(bound) for bound in bounds]}, indent=2))
        return
    say("\n\n".join(render.analysis(bound, options.layers) for bound in bounds))


def chosen_chip(options: AnalyzeOptions) -> Chip | None:
    """The one chip that the options name, or None. Raises RidgelineError for several."""
    own = bool(options.peaks) or options.bandwidth is not None
    given = [options.chip is not None, options.machine is not None, own]
    if sum(given) > 1:
        raise RidgelineError(
            "names several chips",
            where="analyze",
            fix="Give one of --chip, --machine, or --peak with --bandwidth",
        )
    if options.machine is not None:
        from ridgeline.machine.loader import load_machine
        from ridgeline.roofline.machines import chip_of

        return chip_of(load_machine(options.machine))
    if own:
        return custom_chip(options.peaks, options.bandwidth)
    if options.chip is None and options.precision is not None:
        raise RidgelineError(
            "is given without a chip", where="--precision", fix="Name one with --chip"
        )
    return load_chip(options.chip) if options.chip is not None else None


def parse_batches(text: str | None) -> list[int | None]:
    """Batches such as "1,8". Raises RidgelineError for what is no such list."""
    if text is None:
        return [None]
    parts = [part.strip() for part in text.split(",")]
    if not all(p.isascii() and p.isdecimal() and len(p) < 8 and int(p) for p in parts):
        raise RidgelineError(
            f"'{text}' is not a list of whole numbers above 0",
            where="--batch",
            fix="For example: --batch 1,8",
        )
    if len(parts) > MOST_BATCHES:
        raise RidgelineError(
            f"has {len(parts)} batches", where="--batch", fix=f"Give at most {MOST_BATCHES}"
        )
    return [int(part) for part in dict.fromkeys(parts)]


def _show_work(workloads: list[Workload], as_json: bool) -> None:
    if as_json:
        say(json.dumps({"workloads": [render.work_as_json(w) for w in workloads]}, indent=2))
    else:
        say("\n\n".join(render.work(workload) for workload in workloads))
