"""The commands that put a model on a chip, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Model = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="With weights or without.")]
OnChip = Annotated[str | None, typer.Option("--chip", metavar="NAME|FILE", help="Of `chips list`.")]
OnChips = Annotated[
    list[str] | None,
    typer.Option("--chip", metavar="NAME|FILE", help="Of `chips list`; may be given again."),
]
OnMachine = Annotated[
    str | None, typer.Option("--machine", "-m", metavar="NAME|FILE", help="Of `machines`.")
]
Peaks = Annotated[
    list[str] | None,
    typer.Option("--peak", metavar="FORMAT=PEAK", help="Your own chip: --peak int8=100T."),
]
Bandwidth = Annotated[
    str | None,
    typer.Option("--bandwidth", metavar="RATE", help="Its memory: --bandwidth 300GB/s."),
]
Precision = Annotated[
    str | None, typer.Option("--precision", metavar="FORMAT", help="Such as fp16 or int8.")
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=D0,D1,...", help="Dimensions of an input."),
]


def analyze(
    model: Model,
    chip: OnChips = None,
    machine: OnMachine = None,
    peak: Peaks = None,
    bandwidth: Bandwidth = None,
    precision: Precision = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N,...", help="Samples in one run: 1,8.")
    ] = None,
    shape: Shapes = None,
    layers: Annotated[
        int, typer.Option("--layers", min=0, metavar="N", help="Layers in the table.")
    ] = 12,
    json: Json = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page: roofline, what-if, advice."),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the roofline.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Write it as a bitmap.")
    ] = None,
) -> None:
    """Count a model's work, and say for each layer what limits it on a chip."""
    from ridgeline.cli.analyze import AnalyzeOptions, show_analysis

    show_analysis(
        AnalyzeOptions(
            *(model, tuple(chip or ()), machine, tuple(peak or ()), bandwidth, precision, batch),
            *(tuple(shape or ()), layers, json, html, svg, png),
        )
    )


def advise(
    model: Model,
    chip: OnChip = None,
    machine: OnMachine = None,
    peak: Peaks = None,
    bandwidth: Bandwidth = None,
    precision: Precision = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N", help="Samples in one run.")
    ] = None,
    shape: Shapes = None,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="On a machine file: change it, compile and simulate again."),
    ] = False,
    json: Json = False,
) -> None:
    """Say what would make a model faster on a chip, by how much, and what would not."""
    from ridgeline.cli.advise import show_advice
    from ridgeline.cli.analyze import AnalyzeOptions

    show_advice(
        AnalyzeOptions(
            *(
                model,
                (chip,) if chip is not None else (),
                machine,
                tuple(peak or ()),
                bandwidth,
                precision,
                batch,
            ),
            *(tuple(shape or ()), 0, json),
        ),
        apply=apply,
    )
