"""A Report as GitHub Markdown: a list of headlines and a table of layers."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.plain import visible
from ridgeline.render.text import facts, notes, title
from ridgeline.results.columns import Column, default_columns
from ridgeline.results.rows import Report


def render(report: Report, columns: Sequence[Column] | None = None) -> str:
    """Headlines as a list, the table, then notes."""
    chosen = tuple(columns) if columns else default_columns(100, report)
    heads = [c.heading + (f" [{c.unit}]" if c.unit else "") for c in chosen]
    rule = [":--" if c.kind == "text" else "--:" for c in chosen]
    rows = [[_escaped(c.text(row, report)) for c in chosen] for row in report.rows]
    totals = [c.text(report.total, report) for c in chosen]
    lines = [_row(heads), _row(rule), *(_row(cells) for cells in rows)]
    lines.append(_row(["" if cell == "-" else f"**{cell}**" for cell in totals]))
    items = [f"- {label}: {_escaped(text)}" for label, text in _labelled(report)]
    remarks = [f"- {_escaped(note)}" for note in notes(report)]
    parts = [
        f"**{_escaped(title(report))}**",
        "\n".join(items),
        "\n".join(lines),
        "\n".join(remarks),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _labelled(report: Report) -> list[tuple[str, str]]:
    """The facts, each with its label."""
    labelled: list[tuple[str, str]] = []
    for label, text in facts(report):
        labelled.append((label or labelled[-1][0], text))
    return labelled


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """`text` in one line, in which nothing ends a cell or begins an HTML element."""
    return visible(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "\\<")
