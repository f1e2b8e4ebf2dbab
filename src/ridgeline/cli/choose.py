"""`ridgeline choose`: which chips serve a mix of models, how many, and what to buy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ridgeline.api import choose
from ridgeline.chips.loader import find, load_chip
from ridgeline.cli.outputs import say
from ridgeline.cli.show import terminal_width
from ridgeline.errors import RidgelineError
from ridgeline.predict.choose import Choice, Gain, Run
from ridgeline.predict.demand import Demand, Price, price_of, seconds_of
from ridgeline.render import choose as render


def show_choices(
    models: Sequence[str],
    chips: Sequence[str],
    precision: str | None,
    context: int | None,
    demand: Demand,
    every: bool,
    as_json: bool,
) -> None:
    """Print chips that meet the demand, open ones and why others do not, or JSON."""
    found, jobs = choose(
        models, chips=chips or None, precision=precision, context=context, demand=demand
    )
    if as_json:
        say(json.dumps([_row(one) for one in found], indent=2))
    else:
        say(render.choices(found, jobs, demand, every, terminal_width()))


def demand_of(
    batch: int,
    latency: str | None,
    qps: float | None,
    watts: float | None,
    prices: Sequence[str],
    years: float,
) -> Demand:
    """The demand that options say. Raises RidgelineError naming the option at fault."""
    found: dict[str, Price] = {}
    for text in prices:
        name, price = price_of(text)
        chip = load_chip(name).name if name.endswith(".toml") else find(name)
        if chip in found:
            raise RidgelineError(f"'{chip}' is given twice", where="--price")
        found[chip] = price
    seconds = seconds_of(latency) if latency is not None else None
    return Demand(batch, seconds, qps, watts, found, years)


def _row(one: Choice) -> dict[str, Any]:
    return {
        "chip": one.chip.name,
        "verdict": one.verdict,
        "reason": one.reason or None,
        "measure": one.measure or None,
        "basis": one.basis if one.runs else None,
        "chips": one.count,
        "least_chips": one.least,
        "most_chips": one.most,
        "utilisation": one.utilisation,
        "joules_per_item": one.joules_per_item,
        "watts": one.watts,
        "usd_per_million": one.usd_per_million,
        "buy": render.advice(one) if one.gains else None,
        "gains": [_gain(gain) for gain in one.gains],
        "models": [_run(run) for run in one.runs],
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return {
        "figure": gain.figure,
        "elasticity": gain.elasticity,
        "seconds_per_unit": gain.seconds_per_unit,
        "unit": gain.unit,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "model": run.name,
        "per": run.per,
        "items": run.work.items,
        "low_seconds": run.estimate.low_seconds,
        "seconds": run.estimate.seconds,
        "high_seconds": run.estimate.high_seconds,
        "roofline_seconds": run.estimate.roofline_seconds,
        "side": run.estimate.side,
        "basis": run.estimate.basis,
        "operations": run.work.operations,
        "stored_bytes": run.work.stored_bytes,
        "crossover_batch": run.crossover_batch,
        "crossover_context": run.crossover_context,
    }
