"""`ridgeline analyze` and `chips compare --model`: tables, JSON, and one message for each fault."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import ridgeline as package
from counting_cases import FLOAT, model, node, weights

Run = Callable[..., Any]
MANY = ("t4", "l4", "a10", "v100-sxm2", "a100-sxm4-80gb", "h100-sxm5", "tpu-v4")
CHIP = ("--chip", "a100-sxm4-80gb", "--precision", "fp16")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A convolution, an open batch and a product."""
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("MatMul", ["f", "v"], ["y"]),
    ]
    inputs = {"x": (FLOAT, ["N", 3, 16, 16])}
    constants = {"w": weights(8, 3, 3, 3), "v": weights(8, 10)}
    file = tmp_path / "model.onnx"
    file.write_bytes(model(nodes, inputs, {"y": (FLOAT, None)}, constants))
    return str(file)


def test_utilisation_is_the_first_number(ridgeline: Run, path: str) -> None:
    shown = ridgeline("analyze", path, *CHIP, "--batch", "1,8")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "case on A100 SXM4 80GB, fp16, batch 1"
    assert lines[1].startswith("utilisation  ")
    assert "for one cause: launch" in " ".join(line.strip() for line in lines[1:3])
    assert f"MACs         {8 * 14 * 14 * 27 + 80:,}" in lines
    assert f"operations   {2 * (8 * 14 * 14 * 27 + 80):,} (2 x MACs)" in lines
    assert "parameters   296 stored" in lines
    assert "case on A100 SXM4 80GB, fp16, batch 8" in lines
    assert max(map(len, lines)) <= 80


def test_json_has_totals_and_every_layer(ridgeline: Run, path: str) -> None:
    data = json.loads(ridgeline("analyze", path, *CHIP, "--batch", "1,8", "--json").out)
    one, eight = data["analyses"]
    assert one["totals"]["macs"] * 8 == eight["totals"]["macs"]
    assert one["totals"]["operations"] == 2 * one["totals"]["macs"]
    assert one["totals"]["parameters"] == eight["totals"]["parameters"] == 296
    assert [layer["op"] for layer in one["layers"]] == ["Conv", "GlobalAveragePool", "MatMul"]
    conv = one["layers"][0]
    assert conv["products"] == [{"groups": 1, "m": 196, "n": 8, "k": 27, "steps": 1}]
    assert conv["weight_bytes"] == 2 * 216
    assert conv["independent"] == {"batch": 1, "positions": 196, "channels": 8}
    assert sum(x["seconds"]["likely"] for x in one["layers"]) == pytest.approx(
        one["seconds"]["likely"]
    )


def test_several_chips_as_a_page_and_a_picture(ridgeline: Run, path: str, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    both = ("--chip", "l4", "--chip", "t4", "--chip", "l4")
    shown = ridgeline("analyze", path, *both, "--html", page, "--svg", picture, "--json")
    data = json.loads(shown.out)
    assert data["schema"] == "ridgeline-analysis/1"
    assert [one["chip"] for one in data["analyses"]] == ["l4", "t4"]
    found = re.search(r'id="what-if-figures">(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    figures = json.loads(found[1])
    assert [one["batch"] for one in figures["works"]] == [1, 8, 64, 256]
    assert {one["chip"] for one in figures["options"]} == {"l4", "t4"}
    assert picture.read_text("utf-8").startswith('<?xml version="1.0" encoding="UTF-8"?>')


def test_a_chip_that_fails_leaves_no_file(ridgeline: Run, path: str, tmp_path: Path) -> None:
    both = ("--chip", "l4", "--chip", "t4", "--precision", "fp8")
    shown = ridgeline("analyze", path, *both, "--html", tmp_path / "a.html")
    assert shown.code == 2
    assert "--precision: t4 has no peak in 'fp8'. It has: " in shown.err
    assert not (tmp_path / "a.html").exists()


def test_without_a_chip_it_counts(ridgeline: Run, path: str) -> None:
    shown = ridgeline("analyze", path)
    assert "layers       3 after fusion" in shown.out
    data = json.loads(ridgeline("analyze", path, "--json").out)
    assert data["workloads"][0]["totals"]["parameters"] == 296


def test_your_own_chip_and_a_machine(ridgeline: Run, path: str) -> None:
    own = ridgeline("analyze", path, "--peak", "int8=100T", "--bandwidth", "300G")
    assert "on yours, int8, batch 1" in own.out
    assert "on tpu-v1, int8, batch 1" in ridgeline("analyze", path, "--machine", "tpu-v1").out


def test_an_unknown_count_is_said(ridgeline: Run, tmp_path: Path) -> None:
    made = node("TopK", ["x", "k"], ["y", "i"])
    file = tmp_path / "top.onnx"
    constants = {"k": weights(1, dtype="int64")}
    file.write_bytes(model([made], {"x": (FLOAT, [1, 9])}, {"y": (FLOAT, None)}, constants))
    assert "vector       unknown operations besides" in ridgeline("analyze", str(file)).out


def test_a_batch_that_the_file_fixes_is_rewritten(ridgeline: Run, tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "s"], ["r"]), node("MatMul", ["r", "w"], ["y"])]
    constants = {"s": weights(2, dtype="int64") * [1, 64], "w": weights(64, 8)}
    file = tmp_path / "fixed.onnx"
    inputs = {"x": (FLOAT, [1, 4, 16])}
    file.write_bytes(model(nodes, inputs, {"y": (FLOAT, [1, 8])}, constants))
    data = json.loads(ridgeline("analyze", str(file), "--batch", "1,32", "--json").out)
    assert [one["totals"]["macs"] for one in data["workloads"]] == [512, 32 * 512]
    assert "its first dimensions were rewritten to 32" in data["workloads"][1]["notes"][0]


def test_a_workload_on_two_chips(ridgeline: Run, path: str) -> None:
    shown = ridgeline("chips", "compare", "l4", "t4", "--model", path, "--batch", "4")
    assert shown.code == 0
    assert "weights stay on chip" in shown.out
    data = json.loads(ridgeline("chips", "compare", "l4", "t4", "--model", path, "--json").out)
    assert [one["chip"] for one in data["analyses"]] == ["l4", "t4"]


def test_the_interface_in_python(path: str) -> None:
    bound = package.analyze(path, "h100-sxm5", "fp8", batch=4)
    assert bound.workload.macs == 4 * (8 * 14 * 14 * 27 + 80)
    assert bound.batch == 4
    again = package.analyze(package.read_onnx(path, batch=4), "h100-sxm5", "fp8")
    assert again.workload.macs == bound.workload.macs


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--chip", "a1000"), "chips: there is no chip 'a1000'. Did you mean 'a10'"),
        ((*CHIP[:3], "fp8"), "--precision: a100-sxm4-80gb has no peak in 'fp8'. It has: fp64, "),
        ((*CHIP[:3], "f16"), "--precision: there is no precision 'f16'. Did you mean 'fp16'"),
        (
            (*CHIP, "--batch", "0"),
            "--batch: '0' is not a list of whole numbers from 1 to 1,048,576. For example:"
            " --batch 1,8",
        ),
        (
            (*CHIP, "--machine", "tpu-v1"),
            "--chip: names chips in several ways. Give one of --chip, --machine, or --peak with",
        ),
        (
            ("--peak", "int8=100T", "--bandwidth", "300Gb"),
            "--bandwidth: '300Gb' counts bits. Give bytes: 37.5GB/s",
        ),
        (
            ("--peak", "int8=100T", "--bandwidth", "300"),
            "--bandwidth: '300' is 300 bytes a second. Add the prefix: 300G for 300 GB/s",
        ),
        (
            ("--peak", "int8=100T"),
            "--chip: yours has no roofline: no source states the rate of its memory. Take another",
        ),
        (("--html", "x.html"), "--html: is given without a chip. Name one with --chip"),
        (("--svg", "x.svg"), "--svg: is given without a chip. Name one with --chip"),
        (("--png", "x.png"), "--png: is given without a chip. Name one with --chip"),
        (
            (*CHIP, "--html", "absent/x.html"),
            "absent/x.html: cannot be written (there is no folder 'absent'). Choose another",
        ),
        (
            (*CHIP, "--html", "absent", "--svg", "absent"),
            "absent: is given for both --html and --svg. Choose another path for one of them",
        ),
        (
            tuple(f for n in MANY for f in ("--chip", n)),
            "--chip: names 7 chips. Give at most 6",
        ),
        (("--precision", "fp16"), "--precision: is given without a chip. Name one with --chip"),
        (
            ("--shape", "y=1,3,16,16"),
            "model.onnx: --shape names 'y', which is no input of the model. Did you mean",
        ),
    ],
)
def test_faults(ridgeline: Run, path: str, arguments: tuple[str, ...], text: str) -> None:
    found = ridgeline("analyze", path, *arguments)
    assert found.code == 2
    assert text[:40] in found.err
    assert found.out == ""


def test_what_starts_a_layer_is_said_to_be_unknown(ridgeline: Run, path: str) -> None:
    """On a class that nobody measured it is counted as nothing, which the side by side says too."""
    said = "to start a layer was not measured and is counted as nothing"
    for command in (("analyze", path, "--chip", "alveo-u280"), ("analyze", path, *CHIP)):
        shown = " ".join(ridgeline(*command).out.split())
        assert (said in shown) == ("alveo-u280" in command)
    both = ridgeline("chips", "compare", "alveo-u280", "l4", "--precision", "int8", "--model", path)
    (note,) = re.findall(r"note, ([\w-]+): how long such a chip takes", both.out)
    assert note == "alveo-u280"


def test_no_picture_is_written_over_what_is_read(ridgeline: Run, path: str, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.toml"
    sheet.write_bytes((files("ridgeline.chips") / "data" / "l4.toml").read_bytes())
    for option in ("--html", "--svg", "--png"):
        for name, read in (("MODEL.onnx", Path(path)), ("--chip", sheet)):
            before = read.read_bytes()
            found = ridgeline("analyze", path, "--chip", sheet, option, read)
            assert (found.code, found.out) == (2, "")
            assert found.err.startswith(
                f"error: {read}: is read as {name}, and {option} would write over it. Choose"
            )
            assert read.read_bytes() == before


def test_a_missing_file_names_those_that_are_there(ridgeline: Run, path: str) -> None:
    found = ridgeline("analyze", str(Path(path).parent / "modle.onnx"), *CHIP)
    assert found.code == 2
    assert "no such file" in found.err
    assert "model.onnx" in found.err


def test_an_open_dimension_names_the_option(ridgeline: Run, tmp_path: Path) -> None:
    file = tmp_path / "open.onnx"
    made = node("MatMul", ["x", "w"])
    inputs = {"x": (FLOAT, ["N", "S", 16])}
    file.write_bytes(model([made], inputs, {"y": (FLOAT, None)}, {"w": weights(16, 8)}))
    found = ridgeline("analyze", str(file), *CHIP)
    assert found.code == 2
    assert "Pass --shape x=1,S,16 with numbers for S" in " ".join(found.err.split())
    assert ridgeline("analyze", str(file), *CHIP, "--shape", "x=1,128,16").code == 0


def test_long_names_are_cut(ridgeline: Run, tmp_path: Path) -> None:
    made = node("MatMul", ["x", "w"], name="n" * 200)
    file = tmp_path / "long.onnx"
    inputs = {"x": (FLOAT, [1, 16])}
    file.write_bytes(model([made], inputs, {"y": (FLOAT, None)}, {"w": weights(16, 8)}))
    shown = ridgeline("analyze", str(file), *CHIP)
    assert max(map(len, shown.out.splitlines())) <= 80


def open_model(path: Path) -> Path:
    """A convolution whose batch, height and width are open: -1, as exporters of Paddle write it."""
    constants = {"w": weights(4, 3, 1, 1)}
    inputs = {"x": (FLOAT, [-1, 3, -1, -1])}
    nodes = [node("Conv", ["x", "w"], ["y"])]
    path.write_bytes(model(nodes, inputs, {"y": (FLOAT, None)}, constants))
    return path


def test_a_shape_is_of_one_sample_or_of_the_batch(ridgeline: Run, tmp_path: Path) -> None:
    path = open_model(tmp_path / "open.onnx")
    for shape in ("x=1,3,5,7", "x=4,3,5,7"):
        shown = ridgeline("analyze", path, "--batch", "4", "--shape", shape, "--json").out
        assert json.loads(shown)["workloads"][0]["totals"]["macs"] == 4 * 3 * 4 * 5 * 7
    shown = ridgeline("analyze", path, "--batch", "1,4", "--shape", "x=1,3,5,7", "--json").out
    macs = [one["totals"]["macs"] for one in json.loads(shown)["workloads"]]
    assert macs == [3 * 4 * 5 * 7, 4 * 3 * 4 * 5 * 7]
    ended = ridgeline("analyze", path, "--batch", "4", "--shape", "x=3,3,5,7")
    assert ended.code == 2
    assert ended.err == (
        "error: --batch 4 and --shape x=3,3,5,7 differ in the number of samples, the first"
        " dimension. Give the shape of one sample, or leave one of them out\n"
    )


def test_what_advice_says_to_run_runs(ridgeline: Run, tmp_path: Path) -> None:
    path = open_model(tmp_path / "open.onnx")
    shown = ridgeline("advise", path, "--chip", "l4", "--shape", "x=1,3,64,64", "--json").out
    (batch,) = [one for one in json.loads(shown)["advice"] if one["change"] == "batch 16"]
    words = shlex.split(batch["check"])
    assert words[:2] == ["ridgeline", "analyze"]
    (bound,) = json.loads(ridgeline(*words[1:], "--json").out)["analyses"]
    assert bound["batch"] == 16
    assert bound["seconds"] == batch["run_seconds"]


def test_a_model_that_does_nothing(ridgeline: Run, tmp_path: Path) -> None:
    file = tmp_path / "same.onnx"
    file.write_bytes(model([node("Identity", ["x"])], {"x": (FLOAT, [1, 8])}, {"y": (FLOAT, None)}))
    shown = ridgeline("analyze", str(file), *CHIP)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[1] == "utilisation  none: the model computes nothing and moves nothing"
    assert lines[2] == "time         0 s (0 s to 0 s)"
    assert "weights fit" not in shown.out
    (found,) = json.loads(ridgeline("analyze", str(file), *CHIP, "--json").out)["analyses"]
    assert (found["samples_per_s"], found["weights_stay_on_chip"]) == (None, False)
    compared = ridgeline("chips", "compare", "l4", "t4", "--model", str(file))
    assert compared.code == 0
    assert "inf" not in compared.out


def test_json_has_all_that_the_text_says(ridgeline: Run, path: str) -> None:
    (found,) = json.loads(ridgeline("analyze", path, *CHIP, "--json").out)["analyses"]
    for name in ("weight_bytes", "input_bytes", "output_bytes", "kv_bytes"):
        assert found["totals"][name] == sum(layer[name] for layer in found["layers"])
    assert found["totals"]["weight_bytes"] == 2 * (8 * 27 + 80)
    assert found["samples_per_s"] == pytest.approx(1 / found["seconds"]["likely"])
    assert found["main_cause"]["cause"] == "launch"
    assert 0 < found["main_cause"]["share"] <= 1


def test_steps_follow_one_another(ridgeline: Run, tmp_path: Path) -> None:
    constants = {"w": weights(1, 32, 16), "r": weights(1, 32, 8)}
    cell = node("LSTM", ["x", "w", "r"], hidden_size=8)
    file = tmp_path / "cell.onnx"
    file.write_bytes(model([cell], {"x": (FLOAT, [100, 1, 16])}, {"y": (FLOAT, None)}, constants))
    shown = ridgeline("analyze", str(file), *CHIP)
    assert shown.out.startswith("case on A100 SXM4 80GB, fp16, batch 1\n")
    assert "Its 100 steps follow one another." in " ".join(shown.out.split())
    refused = ridgeline("analyze", str(file), *CHIP, "--batch", "8")
    assert refused.code == 2
    assert refused.err.endswith("give the whole shape: --shape x=100,8,16\n")
