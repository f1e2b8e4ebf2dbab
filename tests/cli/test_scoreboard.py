"""`ridgeline scoreboard`: classes, every figure, JSON, within 80 columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_classes_and_reasons_are_shown(ridgeline: Run) -> None:
    made = ridgeline("scoreboard")
    assert made.code == 0
    assert "NVIDIA gpu, llama.cpp" in made.out
    assert "11: a target that a configuration sets, which nobody measured" in made.out
    assert all(len(line) <= 80 for line in made.out.splitlines())


def test_every_figure_fits_in_80_columns(ridgeline: Run) -> None:
    shown = ridgeline("scoreboard", "--full").out
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert shown.count("llama-3-8b ") >= 40
    # The H100's prompt in llama.cpp of 2024 is twice as slow as predicted, and said to be.
    line = next(x for x in shown.splitlines() if "h100-pcie" in x and "prefill" in x)
    assert line.endswith("*")


def test_json_holds_every_figure_with_its_source(ridgeline: Run) -> None:
    data = json.loads(ridgeline("scoreboard", "--json").out)
    assert len(data["figures"]) == 128
    assert data["classes"][-1]["group"] == "all"
    for row in data["figures"]:
        assert row["source"]
        assert (row["predicted_seconds"] is None) == (row["refused"] is not None)
        if row["inside"] is not None:
            within = row["low_seconds"] <= row["measured_seconds"] <= row["high_seconds"]
            assert row["inside"] == within
