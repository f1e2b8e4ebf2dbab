"""The scoreboard for people: errors by class, then each figure, then those not predicted."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.predict.scoreboard import Score, Summary
from ridgeline.predict.whole_models import Figure
from ridgeline.render.plain import shorten, wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import percent


def scoreboard(found: Sequence[Score], summed: Sequence[Summary], full: bool, width: int) -> str:
    """What the errors are; with `full`, every figure."""
    rows = [("chip left out of its class", "chips", "figures", "median", "mean", "inside", "half")]
    for one in summed:
        rows.append(
            (
                *(one.group, str(one.chips), str(one.figures), percent(one.median_error, 0)),
                *(percent(one.mean_error, 0), percent(one.covered, 0), percent(one.half_width, 0)),
            )
        )
    lines = [*aligned(rows), ""]
    lines += wrapped(
        "median and mean are errors of the time, inside the part of figures that the interval"
        " holds (85 % wanted), half the median half-width of it.",
        width,
    )
    if full:
        lines += ["", *_figures([one for one in found if one.scored])]
    return "\n".join([*lines, "", *_refused([o for o in found if not o.scored], full, width)])


def _figures(scored: Sequence[Score]) -> list[str]:
    """A line for each, its class above; in the widths that all share."""
    heads = ("model", "chip", "", "actual", "ours", "low", "high", "")
    groups = list(dict.fromkeys(one.figure.group for one in scored))
    ordered = [[one for one in scored if one.figure.group == group] for group in groups]
    body = aligned([heads, *(_row(one) for rows in ordered for one in rows)], (0, 1, 2, 7))
    lines, place = [body[0]], 1
    for group, rows in zip(groups, ordered, strict=True):
        lines += ["", group, *body[place : place + len(rows)]]
        place += len(rows)
    return [*lines, "", "Tokens or samples a second; * lies outside of its interval."]


def _row(one: Score) -> tuple[str, ...]:
    figure = one.figure
    low, middle, high = (_shown(figure, seconds) for seconds in _times(one))
    what = f"{figure.precision} {figure.metric}" if figure.unit == "tokens/s" else figure.precision
    value = figure.value if figure.unit != "s" else 1 / figure.value
    cells = (shorten(figure.model, 12), figure.chip, what, _number(value), middle, low, high)
    return (*cells, "" if one.inside else "*")


def _times(one: Score) -> tuple[float, float, float]:
    """Of the low, middle and high rate: a rate is lowest where time is longest."""
    assert one.seconds is not None
    assert one.low_seconds is not None
    assert one.high_seconds is not None
    return one.high_seconds, one.seconds, one.low_seconds


def _shown(figure: Figure, seconds: float) -> str:
    assert figure.work is not None
    return _number(figure.work.items / seconds)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _refused(refused: Sequence[Score], full: bool, width: int) -> list[str]:
    reasons: dict[str, list[Figure]] = {}
    for one in refused:
        reasons.setdefault(one.refused, []).append(one.figure)
    lines = [f"{len(refused)} figures are not predicted:"]
    for reason, figures in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        text = f"{len(figures)}: {reason}"
        if full:
            names = dict.fromkeys(f"{f.model} on {f.chip}" for f in figures)
            text += f" ({'; '.join(names)})"
        lines += ["  " + line for line in wrapped(text, width - 2, "  ")]
    if not full:
        lines += ["", "--full shows every figure, --json all with their sources."]
    return lines
