"""What a reader sees: golden texts, widths, and a JSON file that its schema describes."""

from __future__ import annotations

import csv as csv_reader
import io
import json as json_reader
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files

import pytest

from json_schema import faults
from report_cases import REPORT, ROWS
from ridgeline.render import csv, json, markdown, text, units
from ridgeline.results.columns import COLUMNS, choose_columns

Golden = Callable[[str, str], None]


def test_text_in_80_columns(golden: Golden) -> None:
    golden("render/report_80.txt", text.render(REPORT, 80))


def test_text_in_a_wide_terminal(golden: Golden) -> None:
    golden("render/report_160.txt", text.render(REPORT, 160))


def test_markdown(golden: Golden) -> None:
    golden("render/report.md", markdown.render(REPORT))


def test_csv(golden: Golden) -> None:
    golden("render/report.csv", csv.render(REPORT))


def test_json(golden: Golden) -> None:
    golden("render/report.json", json.render(REPORT))


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in text.render(REPORT, width).splitlines()) <= width


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_numbers_are_never_cut(width: int) -> None:
    shown = text.render(REPORT, width)
    for row in ROWS:
        assert f"{row.cycles:,.0f}" in shown
    for cut in re.findall(r"\d…|…\d", shown):
        pytest.fail(f"a number is cut: {cut}")


def test_text_without_accuracy_steady_state_or_layers() -> None:
    bare = replace(REPORT, accuracy=None, steady_cycles=None, rows=(), notes=())
    shown = text.render(bare)
    assert "accuracy" not in shown
    assert "pipelined" not in shown
    assert "total" in shown


def test_accuracy_without_a_float_model() -> None:
    assert REPORT.accuracy is not None
    only = replace(REPORT, accuracy=replace(REPORT.accuracy, float_right=None))
    assert "accuracy   int8 98.44 % of 450 images" in text.render(only)


def test_the_host_layer_says_why() -> None:
    assert "on the host: softmax (Softmax): the vector unit has no exp" in text.render(REPORT)


def test_a_chosen_column_is_shown_at_any_width() -> None:
    shown = text.render(REPORT, 40, choose_columns(["layer", "operations"]))
    assert "2,469,135,780" in shown


def test_csv_reads_back() -> None:
    rows = list(csv_reader.DictReader(io.StringIO(csv.render(REPORT))))
    assert [row["layer"] for row in rows] == [row.name for row in ROWS]
    assert list(rows[0]) == [c.key for c in COLUMNS]
    assert int(rows[1]["macs"]) == ROWS[1].macs
    assert float(rows[1]["utilisation"]) == pytest.approx(ROWS[1].utilisation)
    assert rows[2]["sqnr_db"] == ""


def test_csv_does_not_start_a_formula() -> None:
    evil = replace(REPORT, rows=(replace(ROWS[0], name="=1+1"),))
    assert "\n'=1+1," in csv.render(evil)


def test_markdown_escapes_bars() -> None:
    odd = replace(REPORT, rows=(replace(ROWS[0], name="a|b"),))
    assert "| a\\|b |" in markdown.render(odd)


def test_the_schema_file_is_what_the_code_writes(request: pytest.FixtureRequest) -> None:
    wanted = json_reader.dumps(json.schema(), indent=2) + "\n"
    path = files("ridgeline.render") / "report.schema.json"
    if request.config.getoption("--update-golden"):
        with open(str(path), "w", encoding="utf-8", newline="\n") as stream:
            stream.write(wanted)
    assert path.read_text(encoding="utf-8") == wanted, "if meant, `make golden`"


def test_json_follows_its_schema() -> None:
    shipped = json_reader.loads(
        (files("ridgeline.render") / "report.schema.json").read_text(encoding="utf-8")
    )
    for report in (REPORT, replace(REPORT, accuracy=None, steady_cycles=None, rows=())):
        data = json_reader.loads(json.render(report))
        assert faults(data, shipped, shipped, "report") == []
        assert data["schema"] == "ridgeline-report/2"
    data["total"]["bound"] = "luck"
    del data["cycles"]
    assert len(faults(data, shipped, shipped, "report")) == 2


def test_units() -> None:
    assert units.quantity(51.2e9, "OPS") == "51.2 GOPS"
    assert units.quantity(1e8, "Hz") == "100 MHz"
    assert units.quantity(12, "B/s") == "12 B/s"
    assert units.seconds(0.00125) == "1.25 ms"
    assert units.seconds(5e-10) == "0.5 ns"
    assert units.seconds(0) == "0 s"
    assert units.small(0.0432, "W") == "43.2 mW"
    assert units.size(25165824) == "24 MiB"
    assert units.size(100) == "100 B"
    assert units.percent(0.98666, 2) == "98.67 %"
