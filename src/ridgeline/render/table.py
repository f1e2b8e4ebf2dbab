"""Rows of cells in aligned columns: the first columns to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.render.plain import columns_of, left, visible

GAP = "  "


def aligned(
    rows: Sequence[Sequence[str]], lefts: int | Sequence[int] = 1, gap: str = GAP
) -> list[str]:
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
        lines.append(gap.join(cells).rstrip())
    return lines


def in_blocks(
    rows: Sequence[Sequence[str]], lefts: Sequence[int] = (0,), width: int = 80
) -> list[str]:
    """`aligned`, in as many blocks below each other as keep within `width`, columns from left to
    right. Each block begins with the first column.
    """
    wide = [max(columns_of(visible(row[i])) for row in rows) for i in range(len(rows[0]))]
    blocks: list[list[int]] = [[]]
    for column in range(1, len(wide)):
        taken = wide[0] + sum(len(GAP) + wide[c] for c in (*blocks[-1], column))
        if blocks[-1] and taken > width:
            blocks.append([])
        blocks[-1].append(column)
    lines: list[str] = []
    for block in blocks:
        kept = [0, *block]
        texts = [place for place, column in enumerate(kept) if column in lefts]
        lines += [""] if lines else []
        lines += aligned([[row[c] for c in kept] for row in rows], texts)
    return lines
