"""The commands of `ridgeline chips` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

chips_app = typer.Typer(
    name="chips",
    help="Read spec sheets: what a headline is worth, balance points, chips side by side.",
    rich_markup_mode=None,
)


def _chips(begun: str) -> list[str]:
    """Names of the catalogue, for the shell's completion."""
    from ridgeline.chips.loader import chip_names

    return [name for name in chip_names() if name.startswith(begun)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Precision = Annotated[
    str | None, typer.Option("--precision", metavar="FORMAT", help="Such as bf16 or int8.")
]
Peaks = Annotated[
    list[str] | None,
    typer.Option("--peak", metavar="FORMAT=PEAK", help="Your own chip: --peak int8=100T."),
]
Bandwidth = Annotated[
    str | None,
    typer.Option("--bandwidth", metavar="RATE", help="Its memory: --bandwidth 300GB/s."),
]


@chips_app.callback(invoke_without_command=True)
def chips(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from ridgeline.cli.chips import show_list

        show_list(None, None, False)


@chips_app.command("list")
def list_chips(
    chip_class: Annotated[
        str | None, typer.Option("--class", metavar="CLASS", help="Only gpu, tpu, npu, cpu, ...")
    ] = None,
    precision: Precision = None,
    json: Json = False,
) -> None:
    """List the catalogue: headline, dense, attainable, balance point."""
    from ridgeline.cli.chips import show_list

    show_list(chip_class, precision, json)


@chips_app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME|FILE", help="A chip, or a TOML.", autocompletion=_chips),
    ] = None,
    peak: Peaks = None,
    bandwidth: Bandwidth = None,
    json: Json = False,
) -> None:
    """Show a sheet: every figure, what contradicts it, and where it comes from."""
    from ridgeline.cli.chips import show_chip

    show_chip(name, tuple(peak or ()), bandwidth, json)


@chips_app.command()
def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="A B ...", help="Chips or TOML files.", autocompletion=_chips),
    ] = None,
    precision: Precision = None,
    peak: Peaks = None,
    bandwidth: Bandwidth = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="MODEL.onnx", help="Put this workload on each."),
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, metavar="N")] = None,
    json: Json = False,
) -> None:
    """Put chips side by side, and say what each is good for."""
    from ridgeline.cli.chips import show_comparison, show_model_on

    chosen = (tuple(names or ()), precision, tuple(peak or ()), bandwidth)
    if model is None:
        show_comparison(*chosen, json)
    else:
        show_model_on(model, batch, *chosen, json)


@chips_app.command()
def timeline(
    every: Annotated[bool, typer.Option("--all", help="Every chip, not the firsts only.")] = False,
    json: Json = False,
) -> None:
    """Show the firsts by year, with their balance points."""
    from ridgeline.cli.chips import show_timeline

    show_timeline(every, json)
