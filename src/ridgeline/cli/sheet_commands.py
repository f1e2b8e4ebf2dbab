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


def explain(
    chip: Annotated[str, typer.Option("--chip", metavar="NAME|FILE", help="Of `chips list`.")],
    precision: Annotated[
        str | None, typer.Option("--precision", metavar="FORMAT", help="Such as bf16 or int8.")
    ] = None,
    json: Json = False,
) -> None:
    """Say on which side of a chip's ridge common operations lie, and why."""
    from ridgeline.cli.explain import show_card

    show_card(chip, precision, json)


Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL[=SHARE]...", help="ONNX files, or names as llama-3-8b."),
]
Latency = Annotated[
    str | None, typer.Option("--latency", metavar="TIME", help="Of one run: 10ms, 1.5s.")
]
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="Samples in one run.")]
Rate = Annotated[
    float | None,
    typer.Option("--qps", metavar="RATE", help="Samples or tokens a second, of the mix."),
]
Watts = Annotated[
    float | None, typer.Option("--watts", metavar="W", help="Most power of one chip.")
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", metavar="FORMAT", help="int8; of a language model fp16."),
]
Context = Annotated[
    int | None, typer.Option("--context", metavar="N", help="Tokens before the next.")
]
Chips = Annotated[
    list[str] | None, typer.Option("--chip", metavar="NAME|FILE", help="Only this; repeat.")
]
Prices = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="CHIP=USD[/h]", help="Your price: to buy, or an hour."),
]
Years = Annotated[float, typer.Option("--years", metavar="N", help="That a bought chip is used.")]
Every = Annotated[bool, typer.Option("--all", help="List every chip.")]


def choose(
    models: Models,
    latency: Latency = None,
    batch: Batch = 1,
    qps: Rate = None,
    watts: Watts = None,
    precision: Precision = None,
    context: Context = None,
    chip: Chips = None,
    price: Prices = None,
    years: Years = 3.0,
    every: Every = False,
    json: Json = False,
) -> None:
    """Choose hardware: which chips meet a demand, how many, bandwidth or arithmetic."""
    from ridgeline.cli import choose as command

    demand = command.demand_of(batch, latency, qps, watts, tuple(price or ()), years)
    command.show_choices(models, tuple(chip or ()), precision, context, demand, every, json)
