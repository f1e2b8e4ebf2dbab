"""Chips for a demand, for people: how many and how busy, what to buy, what must be measured."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.predict.choose import FIGURES, Choice, Gain, Run
from ridgeline.predict.demand import Demand, Job
from ridgeline.render.plain import wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import percent, quantity, seconds, small

SHOWN = 12
"""Chips of each kind that are listed without --all."""
NOTHING = 0.02
"""Gains below this are none."""


def choices(
    found: Sequence[Choice], jobs: Sequence[Job], demand: Demand, every: bool, width: int
) -> str:
    """The demand, chips that meet it, what would speed them up, open ones, refused ones."""
    yes = [one for one in found if one.verdict == "yes"]
    unsure = [one for one in found if one.verdict == "open"]
    refused = [one for one in found if one.verdict == "no"]
    most = len(found) if every else SHOWN
    lines = [*wrapped(_asked(jobs, demand), width, "  "), ""]
    if yes:
        lines += [*_table(yes[:most], demand), *_more(len(yes), most, "meet it")]
        lines += [*_costs(yes[:most], demand, jobs, width), ""]
        lines += [*_buy(yes[:most]), ""]
        lines += [*wrapped(_foot(yes, demand), width), ""]
    else:
        lines += ["No chip is known to meet it.", ""]
    if unsure:
        lines += [*_open(unsure[:most], demand, width), *_more(len(unsure), most, "are open"), ""]
    lines += _refused(refused, every, width)
    return "\n".join(lines).rstrip("\n")


def _asked(jobs: Sequence[Job], demand: Demand) -> str:
    total = sum(job.share for job in jobs)
    names = [
        job.name + (f" ({percent(job.share / total, 0)})" if len(jobs) > 1 else "") for job in jobs
    ]
    parts = [f"{', '.join(names)} at batch {demand.batch}"]
    if demand.latency_seconds is not None:
        parts.append(f"within {seconds(demand.latency_seconds)}")
    if demand.items_per_s is not None:
        parts.append(f"{demand.items_per_s:,.4g} {_items(jobs)} a second")
    if demand.watts is not None:
        parts.append(f"at most {demand.watts:,.3g} W a chip")
    return ", ".join(parts)


def _items(jobs: Sequence[Job]) -> str:
    kinds = dict.fromkeys(job.work(1).per + "s" for job in jobs)
    return " and ".join(kinds)


def _table(found: Sequence[Choice], demand: Demand) -> list[str]:
    asked = demand.items_per_s is not None
    rows = [["chip", *(("chips", "range", "busy") if asked else ()), "time", "at most", "each"]]
    rows[0] += ["power"] if asked else []
    for one in found:
        slowest = max(one.runs, key=lambda run: run.estimate.seconds or 0.0)
        cells = [one.chip.name]
        if asked:
            ends = f"{one.least:,}-{one.most:,}" if one.least and one.most else "-"
            busy = percent(one.utilisation, 0) if one.utilisation is not None else "-"
            cells += [f"{one.count:,}" if one.count else "-", ends, busy]
        made = slowest.estimate
        cells += [_time(s) for s in (made.seconds, made.high_seconds)]
        cells.append(small(one.joules_per_item, "J") if one.joules_per_item is not None else "-")
        if asked:
            cells.append(quantity(one.watts, "W") if one.watts is not None else "-")
        rows.append(cells)
    return aligned(rows)


def _time(value: float | None) -> str:
    return seconds(value) if value is not None else "-"


def _costs(found: Sequence[Choice], demand: Demand, jobs: Sequence[Job], width: int) -> list[str]:
    """What a million items cost at the user's prices."""
    priced = [one for one in found if one.usd_per_million is not None]
    if not priced:
        return []
    parts = [f"{one.chip.name} {one.usd_per_million:,.3g}" for one in priced]
    bought = any(not price.hourly for price in demand.prices.values())
    spread = f", what is bought spread over {demand.years:g} years" if bought else ""
    text = (
        f"USD for a million {_items(jobs)}, by your prices{spread}, without power:"
        f" {', '.join(parts)}."
    )
    return ["", *wrapped(text, width)]


def _buy(found: Sequence[Choice]) -> list[str]:
    rows = [["10 % more of", "bandwidth", "peak", "on-chip", "link", "procs", "buy", "batch"]]
    for one in found:
        gains = {gain.figure: gain for gain in one.gains}
        cells = [_change(gains.get(figure)) for figure in FIGURES]
        rows.append([one.chip.name, *cells, advice(one), _crossover(one.runs)])
    return aligned(rows, (0, 6))


def _change(gain: Gain | None) -> str:
    return (
        "-"
        if gain is None
        else f"{10 * gain.elasticity:+.1f}%".replace("+0.0%", "0.0%").replace("-0.0%", "0.0%")
    )


def advice(one: Choice) -> str:
    """What shortens the time most, by the mix costed again."""
    best = one.gains[0] if one.gains else None
    if best is None or best.elasticity > -NOTHING:
        return "none: launches"
    return {"peak": "arithmetic", "on-chip memory": "on-chip"}.get(best.figure, best.figure)


def _crossover(runs: Sequence[Run]) -> str:
    """Of several models, that of the one that needs the largest."""
    found = [run.crossover_batch for run in runs]
    known = [batch for batch in found if batch is not None]
    return f"{max(known):,}" if len(known) == len(found) else "never"


def _foot(found: Sequence[Choice], demand: Demand) -> str:
    text = (
        "at most: the slow end of the interval, which holds 85 of 100 times of chips left out; a"
        " chip meets the latency if it does. range: chips by both ends. each: power of the sheet x"
        " time, an upper bound while busy; what an idle chip draws is on no sheet. Percentages:"
        " what it does to the time, costed again; procs: processors, which bring in only so much"
        " at once. batch: from which on arithmetic takes as long as memory, by the roofline."
    )
    if demand.batch > 1 and any(run.per == "token" for run in found[0].runs):
        text += " Language models were measured at batch 1: larger ones are not tested."
    several = len(found[0].runs) > 1
    for run in found[0].runs:
        if run.crossover_context is not None:
            whose = f"{run.name}'s keys" if several else "keys"
            text += (
                f" From a context of {run.crossover_context:,} tokens on, {whose} and values"
                " weigh more than weights."
            )
    return text


def _open(found: Sequence[Choice], demand: Demand, width: int) -> list[str]:
    asked = demand.items_per_s is not None
    rows = [["chip", "low", "high", *(("at least",) if asked else ()), "why"]]
    for one in found:
        slowest = max(one.runs, key=lambda run: run.estimate.low_seconds).estimate
        cells = [one.chip.name, _time(slowest.low_seconds), _time(slowest.high_seconds)]
        if asked:
            cells.append(f"{one.least:,}" if one.least is not None else "-")
        rows.append([*cells, one.reason])
    first = wrapped(f"First measure {found[0].measure}.", width)
    head = "It depends on measurements that nobody made here:"
    return [head, *aligned(rows, (0, len(rows[0]) - 1)), *first]


def _refused(refused: Sequence[Choice], every: bool, width: int) -> list[str]:
    if not refused:
        return []
    reasons: dict[str, list[str]] = {}
    for one in refused:
        reasons.setdefault(_kind(one.reason, one.chip.name), []).append(one.chip.name)
    lines = [f"{len(refused)} {'chip does' if len(refused) == 1 else 'chips do'} not:"]
    for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        shown = names if every else names[:3]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        text = f"{len(names)}: {reason} ({', '.join(shown)}{more})"
        lines += ["  " + line for line in wrapped(text, width - 2, "  ")]
    return lines


def _kind(reason: str, chip: str) -> str:
    """The reason without this chip's own figures, so that chips gather."""
    text = reason.removeprefix(f"{chip} ")
    if text.startswith("it takes"):
        return "its power is higher"
    if "do not fit into" in text:
        return text[: text.index(" into")] + " into its memory"
    return text


def _more(count: int, shown: int, what: str) -> list[str]:
    return [f"{count - shown} more {what}; --all shows them"] if count > shown else []
