"""`ridgeline analyze`: what a model has to do, and what limits each layer on a chip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.cli.model import parse_shapes
from ridgeline.cli.outputs import check_distinct, check_writable, say, write_file
from ridgeline.errors import RidgelineError
from ridgeline.render import analysis as render
from ridgeline.roofline.bound import Bound
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.roof import usual_precision
from ridgeline.workload.layer import Workload
from ridgeline.workload.read import read_workloads

MOST_BATCHES = 16
MOST_CHIPS = 6
"""Whose colours in a picture can be told apart."""
USUAL_BATCHES = (1, 8, 64, 256)


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


def show_analysis(options: AnalyzeOptions) -> None:
    """Print the analysis for each chip and batch; without a chip only what the model has to do.

    The pictures are of the first batch.
    """
    chips = chosen_chips(options)
    files = {"--html": options.html, "--svg": options.svg}
    for option, path in files.items():
        if path is not None and not chips:
            raise RidgelineError(
                "is given without a chip", where=option, fix="Name one with --chip"
            )
        check_writable(path, option)
    check_distinct(files)
    shapes = parse_shapes(options.shapes)
    workloads = read_workloads(options.model, parse_batches(options.batch), shapes)
    if not chips:
        _show_work(workloads, options.json)
        return
    bounds = [
        [bound_of(workload, chip, options.precision or usual_precision(chip)) for chip in chips]
        for workload in workloads
    ]
    if options.svg is not None:
        from ridgeline.render import svg

        write_file(options.svg, svg.render(bounds[0]))
    if options.html is not None:
        write_file(options.html, _page(options, chips, workloads, bounds[0]))
    found = [bound for one in bounds for bound in one]
    if options.json:
        say(json.dumps(render.document([render.as_json(bound) for bound in found]), indent=2))
        return
    say("\n\n".join(render.analysis(bound, options.layers) for bound in found))


def _page(
    options: AnalyzeOptions,
    chips: Sequence[Chip],
    workloads: Sequence[Workload],
    bounds: Sequence[Bound],
) -> str:
    """Where no batch is given, the panel offers USUAL_BATCHES too if the model can be rewritten."""
    from ridgeline.render.html import analysis as page
    from ridgeline.roofline.what_if import options_of

    found = list(workloads)
    if options.batch is None:
        shapes = parse_shapes(options.shapes)
        for batch in USUAL_BATCHES:
            # A file may fix its batch in a way that cannot be rewritten.
            with suppress(RidgelineError):
                found += read_workloads(options.model, [batch], shapes)
    by_batch = {workload.batch: workload for workload in reversed(found)}
    count = len(workloads[0].layers)
    alike = [by_batch[b] for b in sorted(by_batch) if len(by_batch[b].layers) == count]
    return page.render(bounds, alike, options_of(alike, chips))


def chosen_chips(options: AnalyzeOptions) -> tuple[Chip, ...]:
    """The chips that the options name, each once. Raises RidgelineError for several kinds."""
    own = bool(options.peaks) or options.bandwidth is not None
    given = [bool(options.chips), options.machine is not None, own]
    if sum(given) > 1:
        raise RidgelineError(
            "names chips in several ways",
            where="analyze",
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
        say(
            json.dumps(
                render.document(workloads=[render.work_as_json(w) for w in workloads]), indent=2
            )
        )
    else:
        say("\n\n".join(render.work(workload) for workload in workloads))
