"""What `ridgeline analyze` draws: the page, the roofline as SVG and as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ridgeline.advice.advise import Advised, advise_on
from ridgeline.advice.case import Case
from ridgeline.chips.sheet import Chip
from ridgeline.cli.analyze import AnalyzeOptions, target_of
from ridgeline.cli.model import parse_shapes
from ridgeline.cli.outputs import check_distinct, check_kept, check_writable, write_file
from ridgeline.errors import RidgelineError
from ridgeline.roofline.bound import Bound
from ridgeline.workload.layer import Workload
from ridgeline.workload.read import read_workloads

USUAL_BATCHES = (1, 8, 64, 256)


def check_pictures(options: AnalyzeOptions, chips: Sequence[Chip]) -> None:
    """Raise RidgelineError for a picture that could not be written after the work."""
    files = {"--html": options.html, "--svg": options.svg, "--png": options.png}
    for option, path in files.items():
        if path is not None and not chips:
            raise RidgelineError(
                "is given without a chip", where=option, fix="Name one with --chip"
            )
        check_writable(path, option)
    check_distinct(files)
    read = {"MODEL.onnx": options.model, "--machine": options.machine}
    check_kept(read, files)
    for sheet in options.chips:
        check_kept({"--chip": sheet}, files)
    if options.png is not None:
        from ridgeline.render.png import require_png

        require_png()


def write_pictures(
    options: AnalyzeOptions, workloads: Sequence[Workload], bounds: Sequence[Bound]
) -> None:
    """The pictures that the options name. `bounds` are the first workload's, on each chip."""
    drawn = ""
    if options.svg is not None or options.png is not None:
        from ridgeline.render.svg import render

        drawn = render(bounds)
    # What may still fail comes first, so that no picture is there without the others.
    page = _page(options, workloads, bounds) if options.html is not None else ""
    if options.png is not None:
        from ridgeline.render.png import png

        write_file(options.png, png(drawn))
    if options.svg is not None:
        write_file(options.svg, drawn)
    if options.html is not None:
        write_file(options.html, page)


def _page(options: AnalyzeOptions, workloads: Sequence[Workload], bounds: Sequence[Bound]) -> str:
    """Where no batch is given, the panel offers USUAL_BATCHES too if the model can be rewritten."""
    from ridgeline.render.html import advice
    from ridgeline.render.html import analysis as page
    from ridgeline.roofline.what_if import options_of

    found = list(workloads)
    shapes = parse_shapes(options.shapes)
    if options.batch is None:
        for batch in USUAL_BATCHES:
            # A file may fix its batch in a way that cannot be rewritten.
            with suppress(RidgelineError):
                found += read_workloads(options.model, [batch], shapes)
    by_batch = {workload.batch: workload for workload in reversed(found)}
    count = len(workloads[0].layers)
    alike = [by_batch[b] for b in sorted(by_batch) if len(by_batch[b].layers) == count]
    advised = advice.section(_advised(options, workloads[0], bounds))
    return page.render(bounds, alike, options_of(alike, [b.chip for b in bounds]), [advised])


def _advised(options: AnalyzeOptions, workload: Workload, bounds: Sequence[Bound]) -> list[Advised]:
    """Advice for each chip, as `ridgeline advise` gives it. The bounds' own workloads are stored in
    another precision already.
    """
    batch = workload.batch if options.batch is not None else None
    shapes = parse_shapes(options.shapes)
    (unfused,) = read_workloads(options.model, [batch], shapes, fused=False)
    model = str(options.model)
    return [
        advise_on(
            Case(workload, bound.chip, bound.precision),
            *(unfused, model, target_of(options, bound.chip)),
        )
        for bound in bounds
    ]
