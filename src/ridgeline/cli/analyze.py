"""`ridgeline analyze`: what a model has to do, and what limits each layer on a chip."""

from __future__ import annotations

import json
import shlex
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
from ridgeline.workload.read import MOST_SAMPLES, read_workloads

MOST_BATCHES = 16
MOST_CHIPS = 6
"""Whose colours in a picture can be told apart."""


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    model: Path
    chips: tuple[str, ...]
    machine: str | None
    peaks: tuple[str, ...]
    bandwidth: str | None
    precision: str | None
    batch: str | None
    shapes: tuple[str, ...]
    layers: int
    json: bool
    html: Path | None = None
    svg: Path | None = None
    png: Path | None = None


def show_analysis(options: AnalyzeOptions) -> None:
    """Print the analysis for each chip and batch; without a chip only what the model has to do.

    The pictures are of the first batch.
    """
    chips = chosen_chips(options)
    drawing = any(path is not None for path in (options.html, options.svg, options.png))
    if drawing:
        from ridgeline.cli.analysis_pictures import check_pictures

        check_pictures(options, chips)
    shapes = parse_shapes(options.shapes)
    workloads = read_workloads(options.model, parse_batches(options.batch), shapes)
    if not chips:
        _show_work(workloads, options.json)
        return
    bounds = [
        [bound_of(workload, chip, options.precision or usual_precision(chip)) for chip in chips]
        for workload in workloads
    ]
    if drawing:
        from ridgeline.cli.analysis_pictures import write_pictures

        write_pictures(options, workloads, bounds[0])
    found = [bound for one in bounds for bound in one]
    if options.json:
        say(json.dumps(render.document([render.as_json(bound) for bound in found]), indent=2))
        return
    say("\n\n".join(render.analysis(bound, options.layers) for bound in found))


def chosen_chips(options: AnalyzeOptions) -> tuple[Chip, ...]:
    """The chips that the options name, each once. Raises RidgelineError for several kinds."""
    own = bool(options.peaks) or options.bandwidth is not None
    given = [bool(options.chips), options.machine is not None, own]
    if sum(given) > 1:
        raise RidgelineError(
            "names chips in several ways",
            where="--chip",
            fix="Give one of --chip, --machine, or --peak with --bandwidth",
        )
    if options.machine is not None:
        from ridgeline.machine.loader import load_machine
        from ridgeline.roofline.machines import chip_of

        return (chip_of(load_machine(options.machine)),)
    if own:
        return (custom_chip(options.peaks, options.bandwidth),)
    if not options.chips and options.precision is not None:
        raise RidgelineError(
            "is given without a chip", where="--precision", fix="Name one with --chip"
        )
    loaded = {chip.name: chip for chip in map(load_chip, options.chips)}
    if len(loaded) > MOST_CHIPS:
        raise RidgelineError(
            f"names {len(loaded)} chips", where="--chip", fix=f"Give at most {MOST_CHIPS}"
        )
    return tuple(loaded.values())


def target_of(options: AnalyzeOptions, chip: Chip) -> str:
    """The options that name this one of the chosen chips and the shapes, for commands."""
    shapes = [f" --shape {shlex.quote(shape)}" for shape in options.shapes]
    return _chip_of(options, chip) + "".join(shapes)


def _chip_of(options: AnalyzeOptions, chip: Chip) -> str:
    if options.machine is not None:
        return f"--machine {shlex.quote(options.machine)}"
    if options.chips:
        given = next(name for name in options.chips if load_chip(name).name == chip.name)
        return f"--chip {shlex.quote(given)}"
    peaks = [f"--peak {shlex.quote(peak)}" for peak in options.peaks]
    return " ".join([*peaks, f"--bandwidth {shlex.quote(options.bandwidth or '')}"])


def parse_batches(text: str | None) -> list[int | None]:
    """Batches such as "1,8". Raises RidgelineError for what is no such list."""
    if text is None:
        return [None]
    parts = [part.strip() for part in text.split(",")]
    if not all(p.isascii() and p.isdecimal() and len(p) < 8 and int(p) for p in parts):
        raise RidgelineError(
            f"'{text}' is not a list of whole numbers from 1 to {MOST_SAMPLES:,}",
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
        say(
            json.dumps(
                render.document(workloads=[render.work_as_json(w) for w in workloads]), indent=2
            )
        )
    else:
        say("\n\n".join(render.work(workload) for workload in workloads))
