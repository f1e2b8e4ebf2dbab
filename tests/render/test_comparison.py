"""How `ridgeline diff` looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from report_cases import REPORT, ROWS
from ridgeline.render.comparison import MOST_LAYERS, percent_change, render
from ridgeline.render.json import to_dict
from ridgeline.results.comparison import compare


def test_text(golden: Callable[[str, str], None]) -> None:
    rows = (replace(ROWS[0], cycles=180_000.0), ROWS[1], replace(ROWS[2], name="new"))
    after = replace(REPORT, cycles=5_682_900, rows=rows, accuracy=None)
    golden("render/comparison.txt", render(compare(to_dict(REPORT), to_dict(after))))


def test_equal_reports() -> None:
    shown = render(compare(to_dict(REPORT), to_dict(REPORT)))
    assert "cycles  5,562,900  5,562,900  +0.0 %" in shown
    assert "every layer takes the same cycles" in shown


def test_many_layers_are_cut_and_counted() -> None:
    many = tuple(replace(ROWS[0], name=f"l{i}") for i in range(50))
    slow = tuple(replace(row, cycles=70_000.0) for row in many)
    pair = [to_dict(replace(REPORT, rows=rows)) for rows in (many, slow)]
    assert f"and {50 - MOST_LAYERS} more layers" in render(compare(*pair))


@pytest.mark.parametrize("width", [50, 80, 120])
def test_lines_fit(width: int) -> None:
    after = replace(REPORT, rows=tuple(replace(row, cycles=row.cycles + 1) for row in ROWS))
    lines = render(compare(to_dict(REPORT), to_dict(after)), width).splitlines()
    assert max(map(len, lines)) <= width


def test_small_changes_keep_a_digit() -> None:
    assert percent_change(0.000012) == "+0.001 %"
    assert percent_change(-0.021) == "-2.1 %"
    assert percent_change(0) == "+0.0 %"
