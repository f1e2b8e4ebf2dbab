"""Names that hold line breaks, escape sequences or wide characters, in every form of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from report_cases import REPORT, ROWS
from ridgeline.render import comparison, csv, json, markdown, text
from ridgeline.render.json import to_dict
from ridgeline.render.plain import columns_of, shorten, visible, wrapped
from ridgeline.results.columns import choose_columns
from ridgeline.results.comparison import compare
from ridgeline.results.rows import Report

HOSTILE = "a\nb\r\x1b[31mc\x9b\u2028\u202ed\x07|e\\|<img src=x>"
WIDE = "特徴抽出層" * 12


def _named(name: str) -> Report:
    rows = (replace(ROWS[0], name=name, origin=(name,)), ROWS[1])
    host = replace(ROWS[2], name=name, op=name, reason=f"no {name}")
    machine = replace(REPORT.machine, name=name, description=name)
    return replace(REPORT, model=name, machine=machine, rows=(*rows, host), notes=(name,))


def _compared(name: str) -> str:
    slower = replace(_named(name), rows=(replace(ROWS[0], name=name, cycles=9.0),))
    return comparison.render(compare(to_dict(REPORT), to_dict(slower)))


FORMS = {
    "text": lambda name: text.render(_named(name)),
    "wide text": lambda name: text.render(_named(name), 160),
    "markdown": lambda name: markdown.render(_named(name)),
    "csv": lambda name: csv.render(_named(name)),
    "json": lambda name: json.render(_named(name)),
    "diff": _compared,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_name_stays_in_its_line(form: str) -> None:
    shown = FORMS[form](HOSTILE)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "x1b[31m" in shown or "u001b[31m" in shown or form == "text"


def test_visible_writes_out_what_cannot_be_printed() -> None:
    assert visible(HOSTILE) == "a\\nb\\r\\x1b[31mc\\x9b\\u2028\\u202ed\\x07|e\\|<img src=x>"
    assert visible(visible(HOSTILE)) == visible(HOSTILE)
    assert visible("层 é σ") == "层 é σ"
    assert visible("\udc80").isprintable()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", [WIDE, HOSTILE, "Ⓐe\u0301" * 40])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for line in text.render(_named(name), width).splitlines():
        assert columns_of(line) <= width, line


def test_a_table_with_wide_names_is_aligned() -> None:
    chosen = choose_columns(["layer", "cycles"])
    lines = text.table(_named("層"), chosen).splitlines()
    rows = [line for line in lines if line[-1].isdigit()]
    assert len(rows) == 4
    assert len({columns_of(row) for row in rows}) == 1


def test_columns() -> None:
    assert [columns_of(t) for t in ("abc", "層x", "e\u0301", "ｱ", "")] == [3, 3, 1, 1, 0]


@pytest.mark.parametrize("width", [1, 2, 5, 8, 9])
def test_shorten_keeps_the_width(width: int) -> None:
    assert columns_of(shorten("特徴抽出層", width)) <= width
    assert len(shorten("convolution", width)) == width


def test_markdown_cells_do_not_end_early() -> None:
    shown = markdown.render(_named("a\\|b|<i>"))
    assert "| a\\\\\\|b\\|\\<i> |" in shown


def test_wrapped_breaks_at_spaces_and_cuts_only_long_words() -> None:
    assert wrapped("one two three", 8, "  ") == ["one two", "  three"]
    assert wrapped("x " + "ab" * 6, 5, " ") == ["x", " abab", " abab", " abab"]
    assert wrapped("", 20) == [""]
