"""Commands that read a spec sheet for whole models: `scoreboard`, `choose` and `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def scoreboard(
    full: Annotated[bool, typer.Option("--full", help="Every figure, not only classes.")] = False,
    json: Json = False,
) -> None:
    """Show published times of whole models beside those predicted without their chip."""
    from ridgeline.cli.scoreboard import show_scoreboard

    show_scoreboard(full, json)
