"""Rows of cells in aligned columns: the first columns to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.plain import columns_of, left, visible

GAP = "  "


def aligned(rows: Sequence[Sequence[str]], lefts: int | Sequence[int] = 1) -> list[str]:
    """One line for each row; `lefts` says how many first columns, or which, are text."""
    which = set(range(lefts)) if isinstance(lefts, int) else set(lefts)
    shown = [[visible(cell) for cell in row] for row in rows]
    wide = [max(columns_of(row[i]) for row in shown) for i in range(len(shown[0]))]
    lines: list[str] = []
    for row in shown:
        cells = [
            left(cell, w) if i in which else " " * (w - columns_of(cell)) + cell
            for i, (cell, w) in enumerate(zip(row, wide, strict=True))
        ]
        lines.append(GAP.join(cells).rstrip())
    return lines
