"""Whether a build is worth it, for people: the options, what each costs, where the answer turns."""

from __future__ import annotations

from typing import Any

from ridgeline.advice.worth import (
    EFFORT_SOURCE,
    PERSON_MONTH_SOURCE,
    PERSON_MONTH_USD,
    Judged,
    Option,
    Plan,
    Turning,
    Verdict,
)
from ridgeline.render.plain import shorten, wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import seconds, small

_NAME = 22


def worth(model: str, plan: Plan, verdict: Verdict, assumed: bool, width: int) -> str:
    """The plan, a line for each option, the verdict, where it turns; `assumed`: with defaults."""
    lines = [*wrapped(_asked(model, plan), width, "  "), "", *_table(verdict.judged), ""]
    for one in verdict.judged:
        for fault in one.faults:
            lines += wrapped(f"{one.option.name} will not do: {fault}", width, "  ")
    lines += wrapped(_answer(verdict, plan), width, "  ")
    for turning in verdict.turnings:
        lines += wrapped(turning_text(turning, plan), width, "  ")
    if assumed:
        lines += [
            "",
            *wrapped(
                f"Development where you gave none: a person-month is USD {PERSON_MONTH_USD:,.0f}"
                f" ({PERSON_MONTH_SOURCE}); months and days {EFFORT_SOURCE}.",
                width,
            ),
        ]
    return "\n".join(lines)


def _asked(model: str, plan: Plan) -> str:
    parts = [f"{model}: {plan.units:,} units for {plan.years:g} years"]
    parts.append(f"the model changes {plan.changes_per_year:g} times a year")
    if plan.latency_seconds is not None:
        how = "always" if plan.guaranteed else "as a rule"
        parts.append(f"{how} within {seconds(plan.latency_seconds)}")
    if plan.inferences_per_s:
        parts.append(f"{plan.inferences_per_s:,.4g} inferences a second each")
    return ", ".join(parts)


def _table(judged: tuple[Judged, ...]) -> list[str]:
    rows = [("option", "kind", "latency", "energy", "develop", "a change", "a unit", "total USD")]
    for one in judged:
        option = one.option
        rows.append(
            (
                *(shorten(option.name, _NAME), option.kind, _latency(option)),
                small(option.joules, "J") if option.joules is not None else "-",
                *(money(option.first_usd), money(option.change_usd)),
                *(money(option.unit_usd), money(one.total_usd)),
            )
        )
    return aligned(rows, (0, 1), gap=" ")


def _latency(option: Option) -> str:
    if option.exact:
        return f"{seconds(option.seconds.likely)} exact"
    return f"{seconds(option.seconds.likely)}-{seconds(option.seconds.high)}"


def money(value: float | None) -> str:
    """US dollars, three figures and a prefix from 10,000 on."""
    if value is None:
        return "?"
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 10 * size or (prefix != "k" and value >= size):
            scaled = value / size
            return f"{scaled:.3g} {prefix}" if scaled < 1000 else f"{scaled:,.0f} {prefix}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def _answer(verdict: Verdict, plan: Plan) -> str:
    if verdict.unpriced:
        names = ", ".join(verdict.unpriced)
        return f"No answer: a unit of {names} has no price. Give --unit NAME=USD."
    if verdict.chosen is None:
        return "No answer: none of these will do. Add other chips with --chip, or relax the limits."
    name = verdict.chosen.name
    if verdict.worth:
        return f"Build it: {name} costs least of those that will do."
    builds = [one for one in verdict.judged if one.option.is_build]
    if all(one.option.change_days >= plan.days_between_changes for one in builds):
        return (
            "Do not build: the model would be out of date before the hardware runs it."
            f" {name} costs least."
        )
    return f"Do not build: {name} costs least of those that will do."


def turning_text(turning: Turning, plan: Plan) -> str:
    """From how many units on, and up to how many changes a year, the build costs less."""
    names = f"{turning.build} against {turning.chip}"
    if not turning.priced:
        return f"{names}: unknown while one has no price"
    units = "at any number of units" if turning.units == 0 else None
    if turning.units:
        units = f"from {turning.units:,.0f} units on"
    text = f"{names}: costs less {units}" if units else f"{names}: dearer at any number of units"
    if turning.changes_per_year is not None:
        text += f"; at {plan.units:,} units up to {turning.changes_per_year:,.3g} changes a year"
    return text


def worth_as_json(model: str, plan: Plan, verdict: Verdict) -> dict[str, Any]:
    """All figures of the text."""
    return {
        "model": model,
        "units": plan.units,
        "years": plan.years,
        "changes_per_year": plan.changes_per_year,
        "latency_seconds": plan.latency_seconds,
        "guaranteed": plan.guaranteed,
        "inferences_per_s": plan.inferences_per_s,
        "usd_per_kwh": plan.usd_per_kwh,
        "chosen": verdict.chosen.name if verdict.chosen else None,
        "worth_building": verdict.worth,
        "unpriced": list(verdict.unpriced),
        "options": [_option(one) for one in verdict.judged],
        "break_even": [
            {
                "build": one.build,
                "chip": one.chip,
                "units": one.units,
                "changes_per_year": one.changes_per_year,
            }
            for one in verdict.turnings
        ],
        "sources": {"person_month": PERSON_MONTH_SOURCE, "effort": EFFORT_SOURCE},
    }


def _option(one: Judged) -> dict[str, Any]:
    option = one.option
    return {
        "name": option.name,
        "kind": option.kind,
        "exact": option.exact,
        "seconds": {
            "low": option.seconds.low,
            "likely": option.seconds.likely,
            "high": option.seconds.high,
        },
        "joules": option.joules,
        "unit_usd": option.unit_usd,
        "first_usd": option.first_usd,
        "change_usd": option.change_usd,
        "change_days": option.change_days,
        "energy_usd_per_unit": one.energy_usd_per_unit,
        "total_usd": one.total_usd,
        "faults": list(one.faults),
    }
