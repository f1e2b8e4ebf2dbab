"""Predicted products for people: an interval, what the time goes to, and how full waves are."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.chips.sheet import Chip
from ridgeline.predict.formats import Format
from ridgeline.predict.gemm import Prediction
from ridgeline.render.table import aligned
from ridgeline.render.units import percent, seconds

_BASIS = {
    "this chip": "constants fitted on products measured on this chip",
    "its class": "constants fitted on other chips of its class: a wider interval",
    "roofline only": "no product was measured on such a chip: the least time, no estimate",
}


def products(chip: Chip, of: Format, found: Sequence[Prediction]) -> str:
    """A line for each product. 85 of 100 measured ones lie between low and high."""
    rows = [("m", "n", "k", "low", "time", "high", "roofline", "limit", "tile", "waves", "useful")]
    for one in found:
        rows.append(
            (
                *(f"{one.m}", f"{one.n}", f"{one.k}", seconds(one.low_seconds)),
                seconds(one.seconds) if one.seconds is not None else "-",
                seconds(one.high_seconds) if one.high_seconds is not None else "-",
                *(seconds(one.roofline_seconds), one.side, _tile(one)),
                f"{one.waves:,}" if one.waves is not None else "-",
                percent(one.useful, 0) if one.useful is not None else "-",
            )
        )
    title = f"{chip.title}, {of.name}: {of.meaning}"
    return "\n".join([title, _BASIS[found[0].basis], "", *aligned(rows, (7, 8), gap=" ")])


def _tile(one: Prediction) -> str:
    if one.tile is None:
        return "-"
    rows, cols, parts = one.tile
    return f"{rows}x{cols}" + (f"/{parts}" if parts > 1 else "")
