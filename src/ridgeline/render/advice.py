"""Advice for people and for programs: what saves most first, and what gains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.advice.advise import Advised, LayerAdvice
from ridgeline.advice.case import GAIN, Advice
from ridgeline.advice.machines import Applied
from ridgeline.render.analysis import WIDTH, main_cause
from ridgeline.render.plain import shorten, visible, wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import percent, seconds
from ridgeline.roofline.bound import Interval

_LAYER = 28
_CHANGE = 33


def advised(made: Advised) -> str:
    """One model on one chip, in 80 columns."""
    bound = made.bound
    cause, share = main_cause(bound)
    title = (
        f"{visible(bound.workload.name)} on {visible(bound.chip.title)}, {bound.precision},"
        f" batch {bound.batch}: {_range(bound.seconds)}"
    )
    lines = wrapped(title, WIDTH)
    lines += wrapped(f"{percent(share, 0)} of the time is for one cause: {cause}", WIDTH)
    lines += ["", *_table(made.advice), ""]
    for one in made.held:
        lines += wrapped(held_text(one), WIDTH, "  ")
    if made.held:
        lines.append("")
    for layer in made.layers:
        lines += wrapped(layer_text(layer), WIDTH, "  ")
    lines += ["", "how to check"]
    for one in made.advice:
        if one.bound is not None:
            lines += wrapped(f"  {one.change.name}: {visible(one.change.check)}", WIDTH, "    ")
    lines += ["", *wrapped(EXPLAINED, WIDTH)]
    return "\n".join(lines)


EXPLAINED = (
    "saved, time, least, most: of the time for one sample, by the model or chip changed and costed"
    " again; below 0 it takes longer. run: how long one run takes then, its latency."
)


def held_text(one: Advice) -> str:
    """What the estimate counts on already."""
    saved = f"saves {percent(one.share, 0)} against a run node by node ({signed(one.saved)})"
    return f"counted already: {one.change.name} {saved}"


def _table(advice: tuple[Advice, ...]) -> list[str]:
    rows = [("saved", "time", "least", "most", "run", "change")]
    rows += [
        (
            share_text(one.share) if one.bound else "-",
            *(signed_text(t) if one.bound else "-" for t in _ends(one.saved)),
            seconds(one.latency.likely) if one.bound else "-",
            shorten(one.change.name, _CHANGE),
        )
        for one in advice
    ]
    lines = aligned(rows, (5,))
    for one in advice:
        if one.bound is None:
            reason = f"not possible: {one.change.name}: {visible(one.reason)}"
            lines += wrapped(reason, WIDTH, "  ")
    return lines


def _ends(time: Interval) -> tuple[float, float, float]:
    return time.likely, time.low, time.high


def share_text(share: float) -> str:
    """In whole per cent, and without a sign where it is none."""
    return f"{100 * share:.0f} %" if abs(share) >= GAIN else "0 %"


def signed_text(value: float) -> str:
    if abs(value) < 1e-9:
        return "0 s"
    return f"-{seconds(-value)}" if value < 0 else seconds(value)


def signed(time: Interval) -> str:
    return f"{signed_text(time.likely)}, {signed_text(time.low)} to {signed_text(time.high)}"


def _range(time: Interval) -> str:
    return f"{seconds(time.likely)} ({seconds(time.low)} to {seconds(time.high)})"


def layer_text(one: LayerAdvice) -> str:
    """What helps one layer, and what does not."""
    layer = one.time.layer
    text = (
        f"{shorten(layer.name, _LAYER)} ({layer.op}), {percent(one.share, 0)} of the time, limited"
        f" by {one.time.limit}: "
    )
    if one.best_share >= GAIN:
        text += f"{one.best} saves {share_text(one.best_share)} of that; "
    else:
        text += "none of these helps; "
    least = "gains" if abs(one.idle_share) < GAIN else "gains least,"
    return f"{text}{one.idle} {least} {share_text(one.idle_share)}."


def advised_as_json(made: Advised) -> dict[str, Any]:
    """Everything, for programs. Seconds are of one sample, `run_seconds` of a whole run."""
    bound = made.bound
    return {
        "model": bound.workload.name,
        "chip": bound.chip.name,
        "precision": bound.precision,
        "batch": bound.batch,
        "basis": bound.basis,
        "run_seconds": _interval(bound.seconds),
        "advice": [_advice(one) for one in made.advice],
        "counted_already": [_advice(one) for one in made.held],
        "layers": [
            {
                "name": one.time.layer.name,
                "limit": one.time.limit,
                "share": one.share,
                "best": {"change": one.best, "share": one.best_share},
                "gains_nothing": {"change": one.idle, "share": one.idle_share},
            }
            for one in made.layers
        ],
    }


def _advice(one: Advice) -> dict[str, Any]:
    possible = one.bound is not None
    return {
        "kind": one.change.kind,
        "change": one.change.name,
        "verdict": one.verdict,
        "saved_seconds": _interval(one.saved) if possible else None,
        "saved_share": one.share if possible else None,
        "run_seconds": _interval(one.latency) if possible else None,
        "batch": one.change.after.workload.batch,
        "check": one.change.check,
        "reason": one.reason,
    }


def _interval(time: Interval) -> dict[str, float]:
    return {"low": time.low, "likely": time.likely, "high": time.high}


def applied(model: str, machine: str, batch: int, made: Sequence[Applied]) -> str:
    """Changes of a machine: the gain predicted and, where it was tried, that achieved."""
    title = (
        f"{visible(model)} on {visible(machine)}, batch {batch}: {made[0].before:,.0f} cycles for"
        " a run"
    )
    rows = [("predicted", "achieved", "error", "cycles", "change")]
    rows += [
        (
            _gain(one.before, one.predicted),
            _gain(one.before, one.achieved),
            "-" if one.error is None else f"{100 * one.error:+.1f} %",
            "-" if one.achieved is None else f"{one.achieved:,.0f}",
            one.change.name,
        )
        for one in made
    ]
    lines = [*wrapped(title, WIDTH), "", *aligned(rows, (4,))]
    for one in made:
        if one.reason:
            lines += wrapped(f"not possible: {one.change.name}: {visible(one.reason)}", WIDTH, "  ")
    mean = mean_error(made)
    if mean is not None:
        lines += ["", f"mean error of the gain {percent(mean)}"]
    lines += ["", *wrapped(_APPLIED, WIDTH)]
    return "\n".join(lines)


_APPLIED = (
    "predicted: time before over after, from the ledger and busy cycles of the run as it is;"
    " achieved: from the model compiled and simulated again. cycles: then, for as many samples."
)


def _gain(before: float, now: float | None) -> str:
    return "-" if not now else f"{before / now:.3f} x"


def mean_error(made: Sequence[Applied]) -> float | None:
    """Mean of the absolute errors of the gains that were tried."""
    errors = [abs(one.error) for one in made if one.error is not None]
    return sum(errors) / len(errors) if errors else None


def applied_as_json(
    model: str, machine: str, batch: int, made: Sequence[Applied]
) -> dict[str, Any]:
    """Cycles are of `batch` samples, whatever the batch of the change."""
    return {
        "model": model,
        "machine": machine,
        "batch": batch,
        "mean_error": mean_error(made),
        "changes": [
            {
                "change": one.change.name,
                "before_cycles": one.before,
                "predicted_cycles": one.predicted,
                "achieved_cycles": one.achieved,
                "error": one.error,
                "reason": one.reason,
            }
            for one in made
        ],
    }
