"""`ridgeline diff`: what it prints, its exit codes, and files that are no reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_cases import REPORT
from ridgeline.render.json import render, to_dict

Run = Callable[..., Any]


@pytest.fixture
def reports(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(render(REPORT), encoding="utf-8")
    after.write_text(render(replace(REPORT, cycles=6_000_000)), encoding="utf-8")
    return before, after


def test_what_changed_is_printed(ridgeline: Run, reports: tuple[Path, Path]) -> None:
    made = ridgeline("diff", *reports)
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("digits on tiny-16\n")
    assert "5,562,900  6,000,000  +7.9 %" in made.out


def test_a_condition_that_holds_fails(ridgeline: Run, reports: tuple[Path, Path]) -> None:
    limits = ["--fail-if", "cycles>+2%", "--fail-if", "macs>+0", "--fail-if", "cycles>+10%"]
    made = ridgeline("diff", *reports, *limits)
    assert made.code == 1
    assert made.err == "failed: cycles>+2%\n"
    assert "+7.9 %" in made.out
    assert ridgeline("diff", *reversed(reports), *limits).code == 0


def _without(key: str) -> dict[str, Any]:
    return {k: v for k, v in to_dict(REPORT).items() if k != key}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("\\ud800", "is not JSON"),
        (render(REPORT).replace("450", "9" * 4000), "is not JSON"),
        (render(REPORT).replace("450", "1e999"), "is not JSON"),
        (render(REPORT).replace("450", "NaN"), "is not JSON"),
        ("[]", "is not a report of the schema ridgeline-report/2"),
        (json.dumps({"schema": "other/1"}), "is not a report of the schema"),
        (json.dumps(_without("total")), "is a damaged report: 'total' is missing"),
        (json.dumps(_without("cycles")), "is a damaged report: 'cycles' is missing"),
        (json.dumps({**to_dict(REPORT), "layers": [1]}), "'layers[0].layer' is missing"),
        (json.dumps({**to_dict(REPORT), "accuracy": {"images": 0}}), "'accuracy' is of the wrong"),
        (json.dumps({**to_dict(REPORT), "machine": {}}), "'machine.name' is missing"),
    ],
)
def test_files_that_are_no_reports(
    content: str, message: str, ridgeline: Run, reports: tuple[Path, Path]
) -> None:
    reports[1].write_text(content, encoding="utf-8")
    made = ridgeline("diff", *reports)
    assert made.code == 2
    assert made.out == ""
    assert made.err.startswith(f"error: {reports[1]}: ")
    assert message in made.err
    assert "Write one with: ridgeline run MODEL.onnx --json FILE" in made.err


def test_a_file_that_is_not_there(ridgeline: Run, reports: tuple[Path, Path]) -> None:
    made = ridgeline("diff", reports[0], "/no/such.json")
    assert made.code == 2
    assert "/no/such.json: cannot be read (No such file or directory)" in made.err


def test_a_condition_that_is_none(ridgeline: Run, reports: tuple[Path, Path]) -> None:
    made = ridgeline("diff", *reports, "--fail-if", "cycles")
    assert made.code == 2
    assert made.err.startswith("error: --fail-if: 'cycles' is no condition. ")
