"""The options that say what a pipeline is to meet, shared by the commands that take --pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeline.errors import RidgelineError

_PANEL = "With --pipeline"

AsPipeline = Annotated[
    bool,
    typer.Option("--pipeline", help="Of MODEL.onnx itself: a stage for each layer, no array."),
]
Calibrate = Annotated[
    Path | None,
    typer.Option(
        "--calibrate", metavar="DATA.npz", help="Samples that set ranges.", rich_help_panel=_PANEL
    ),
]
Activations = Annotated[
    str | None,
    typer.Option("--activations", metavar="uint8|int8|int16", rich_help_panel=_PANEL),
]
Interval = Annotated[
    int | None,
    typer.Option(
        "--interval", metavar="CYCLES", help="From image to image.", rich_help_panel=_PANEL
    ),
]
Multipliers = Annotated[
    int | None,
    typer.Option("--multipliers", metavar="N", help="At most.", rich_help_panel=_PANEL),
]
MemoryBits = Annotated[
    int | None,
    typer.Option("--memory-bits", metavar="N", help="On chip, at most.", rich_help_panel=_PANEL),
]
Bits = Annotated[
    list[str] | None,
    typer.Option(
        "--bits",
        metavar="LAYER=N",
        help="Of a layer's weights, 2 to 8; * is every other.",
        rich_help_panel=_PANEL,
    ),
]


def only_with_pipeline(**given: Any) -> None:
    """Refuse options that say nothing without --pipeline."""
    for name, value in given.items():
        if value:
            raise RidgelineError(
                "says something about a pipeline only",
                where=f"--{name.replace('_', '-')}",
                fix="Add --pipeline",
            )


def not_with_pipeline(**given: Any) -> None:
    """Refuse options that say something about a machine, where there is none."""
    for name, value in given.items():
        if value:
            raise RidgelineError(
                "says something about a machine, and a pipeline has none",
                where=f"--{name.replace('_', '-')}",
                fix="Leave it out, or leave --pipeline out",
            )
