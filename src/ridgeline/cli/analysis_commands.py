"""The command that puts a model on a chip, and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def analyze(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="With weights or without.")],
    chip: Annotated[
        str | None, typer.Option("--chip", metavar="NAME|FILE", help="Of `chips list`.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", metavar="NAME|FILE", help="Of `machines`.")
    ] = None,
    peak: Annotated[
        list[str] | None,
        typer.Option("--peak", metavar="FORMAT=PEAK", help="Your own chip: --peak int8=100T."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option("--bandwidth", metavar="RATE", help="Its memory: --bandwidth 300GB/s."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="FORMAT", help="Such as fp16 or int8.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N,...", help="Samples in one run: 1,8.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=D0,D1,...", help="Dimensions of an input."),
    ] = None,
    layers: Annotated[
        int, typer.Option("--layers", min=0, metavar="N", help="Layers in the table.")
    ] = 12,
    json: Json = False,
) -> None:
    """Count a model's work, and say for each layer what limits it on a chip."""
    from ridgeline.cli.analyze import AnalyzeOptions, show_analysis

    show_analysis(
        AnalyzeOptions(
            *(model, chip, machine, tuple(peak or ()), bandwidth, precision, batch),
            *(tuple(shape or ()), layers, json),
        )
    )
