"""`ridgeline advise`: text of 80 columns, JSON, and one message for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ridgeline as package
from advice.small_models import anomaly_detection

Run = Callable[..., Any]
MODEL = str(Path(package.__file__).parent / "models" / "digits_cnn.onnx")


def test_text_has_what_helps_what_does_not_and_how_to_check(ridgeline: Run) -> None:
    shown = ridgeline("advise", MODEL, "--chip", "l4", "--precision", "int8")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith("digits_cnn on L4, int8, batch 1: ")
    assert "saved" in lines[3]
    assert max(map(len, lines)) <= 80
    text = " ".join(shown.out.split())
    assert "--precision int8 --batch 64" in text
    assert "limited by launch: batch 64 saves 98 % of that; bandwidth x 2 gains 0 %." in text
    assert "counted already: 27 nodes fused into 11 layers saves" in text


def test_json_has_every_change_with_its_interval_and_check(ridgeline: Run) -> None:
    data = json.loads(ridgeline("advise", MODEL, "--chip", "t4", "--batch", "2", "--json").out)
    assert (data["chip"], data["precision"], data["batch"]) == ("t4", "fp16", 2)
    for one in data["advice"]:
        assert one["check"]
        if one["verdict"] != "not possible":
            saved = one["saved_seconds"]
            assert saved["low"] <= saved["likely"] <= saved["high"]
    assert {"batch 8", "batch 32", "batch 128"} <= {one["change"] for one in data["advice"]}
    impossible = [one for one in data["advice"] if one["verdict"] == "not possible"]
    assert [one["reason"] for one in impossible] == ["the sheet of t4 has no 2:4 peak in fp16"]
    assert len(data["layers"]) == 3


def test_own_figures_and_machines_are_advised_on(ridgeline: Run) -> None:
    own = ridgeline("advise", MODEL, "--peak", "int8=1T", "--bandwidth", "1G")
    assert "--peak int8=1T --bandwidth 1G --precision int8 --batch 4" in " ".join(own.out.split())
    assert "on tiny-8, int8" in ridgeline("advise", MODEL, "--machine", "tiny-8").out


def test_shapes_grow_with_the_batch(ridgeline: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(anomaly_detection())
    shown = ridgeline(
        "advise", str(path), "--machine", "tiny-16", "--shape", "x=2,640", "--apply", "--json"
    )
    assert shown.code == 0, shown.err
    (one,) = [x for x in json.loads(shown.out)["changes"] if x["change"] == "batch x 4"]
    assert one["achieved_cycles"] < one["before_cycles"]


def test_applied_changes_gain_what_was_predicted(ridgeline: Run, tmp_path: Path) -> None:
    """All six changes of the dense autoencoder, by the compiler and the simulation."""
    path = tmp_path / "small.onnx"
    path.write_bytes(anomaly_detection())
    shown = ridgeline("advise", str(path), "--machine", "tiny-16", "--apply", "--json")
    assert shown.code == 0, shown.err
    data = json.loads(shown.out)
    errors = {one["change"]: one["error"] for one in data["changes"] if not one["reason"]}
    assert len(errors) == 8
    assert None not in errors.values()
    assert {"int4 weights", "pad channels", "8-bit activations"} <= {
        one["change"] for one in data["changes"] if one["reason"]
    }
    assert data["mean_error"] <= 0.10, errors
    link = next(one for one in data["changes"] if one["change"] == "host link x 2")
    assert link["achieved_cycles"] < 0.97 * link["before_cycles"]
    assert link["error"] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "advise: needs a chip. Name one with --chip or --machine, or give"),
        (("--chip", "l5"), "there is no chip 'l5'. Did you mean 'l4'?"),
        (("--chip", "l4", "--batch", "1,8"), "--batch: '1,8' are several batches. Give one"),
        (
            ("--chip", "l4", "--batch", "0"),
            "--batch: '0' is not a list of whole numbers from 1 to 1,048,576",
        ),
        (("--chip", "l4", "--precision", "int88"), "there is no precision 'int88'. Did you mean"),
        (("--chip", "l4", "--precision", "fp4"), "--precision: l4 has no peak in 'fp4'"),
        (("--chip", "hailo-8"), "no source states the rate of its memory"),
        (("--chip", "l4", "--machine", "tiny-8"), "names chips in several ways"),
        (("--chip", "l4", "--apply"), "--apply: changes can be applied to a machine file only"),
        (
            ("--machine", "tiny-8", "--precision", "int16", "--apply"),
            "--precision: the array of machine tiny-8 has no 'int16'. It has: int8.",
        ),
        (
            ("--machine", "edge-4tops", "--precision", "fp16", "--apply"),
            "--precision: the array of machine edge-4tops has no 'fp16'. It has: int8, int16.",
        ),
        (("--machine", "tiny-9", "--apply"), "there is no machine 'tiny-9'. Did you mean"),
    ],
)
def test_faults_end_in_one_message(ridgeline: Run, options: tuple[str, ...], message: str) -> None:
    shown = ridgeline("advise", MODEL, *options)
    assert shown.code == 2
    assert message in " ".join(shown.err.split())
    assert shown.out == ""
