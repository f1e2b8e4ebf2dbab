"""A Report as CSV: one line a layer, raw figures, keys of the columns as headings."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ridgeline.render.plain import visible
from ridgeline.results.columns import COLUMNS, Cell, Column, format_cell
from ridgeline.results.rows import Report


def render(report: Report, columns: Sequence[Column] | None = None) -> str:
    """RFC 4180 with line feeds; cells without a value are empty, shares are fractions of 1.

    There is no line of totals: a sum of lines must not count them twice.
    """
    chosen = tuple(columns) if columns else COLUMNS
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([c.key for c in chosen])
    for row in report.rows:
        writer.writerow([_cell(c.get(row, report)) for c in chosen])
    return out.getvalue()


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.9g}"
    text = visible(format_cell("text", cell) if isinstance(cell, tuple) else str(cell))
    # A spreadsheet would run a cell that begins like a formula.
    return "'" + text if text[:1] in ("=", "+", "-", "@") else text
