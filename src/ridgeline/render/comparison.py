"""A Comparison for a terminal or a pipe: the figures that changed, then the layers that did."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from ridgeline.render.plain import columns_of, left, shorten, visible
from ridgeline.results.comparison import Change, Comparison

MOST_LAYERS = 20
GAP = "  "
HEADINGS = ("before", "after", "change")


def render(comparison: Comparison, width: int = 80) -> str:
    """Title, differences of context, figures, layers; what is equal is counted only."""
    changed = [c for c in comparison.figures if c.before != c.after]
    always = [c for c in comparison.figures if c.name == "cycles" and c not in changed]
    equal = len(comparison.figures) - len(changed) - len(always)
    parts = ["\n".join(map(visible, [comparison.title, *comparison.context]))]
    parts.append("\n".join([*_table("", always + changed, width), f"equal: {equal} other figures"]))
    parts.append(_layers(comparison, width))
    return "\n\n".join(part for part in parts if part) + "\n"


def _layers(comparison: Comparison, width: int) -> str:
    changed = [c for c in comparison.layers if c.before != c.after]
    if not changed:
        return "every layer takes the same cycles"
    ranked = sorted(changed, key=lambda c: -abs(c.difference))
    lines = _table("cycles of layer", ranked[:MOST_LAYERS], width)
    if len(ranked) > MOST_LAYERS:
        lines.append(f"and {len(ranked) - MOST_LAYERS} more layers that changed less")
    return "\n".join(lines)


def _table(heading: str, changes: Sequence[Change], width: int) -> list[str]:
    cells = [list(HEADINGS)] + [[_number(c.before), _number(c.after), _change(c)] for c in changes]
    wide = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    names = [heading, *(visible(c.name) for c in changes)]
    room = max(width - sum(wide) - len(GAP) * len(wide), 12)
    first = min(room, max(map(columns_of, names)))
    return [
        GAP.join(
            [
                left(shorten(name, first), first),
                *(c.rjust(w) for c, w in zip(line, wide, strict=True)),
            ]
        )
        for name, line in zip(names, cells, strict=True)
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _change(change: Change) -> str:
    if change.before is None:
        return "new"
    if change.after is None:
        return "gone"
    return f"{change.difference:+,.4g}" if isinf(change.share) else percent_change(change.share)


def percent_change(share: float) -> str:
    """A signed fraction of 1 in per cent; a small one keeps a digit that is not 0."""
    value = 100 * share
    return f"{value:+.1f} %" if abs(value) >= 0.05 or not value else f"{value:+.1g} %"
