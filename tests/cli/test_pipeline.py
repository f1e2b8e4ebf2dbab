"""`ridgeline rtl`, `cosim` and `fpga` with --pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline_cases import Network

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = Network(3, 12)
    net.dense(8, 12)
    net.add("Relu")
    net.dense(4, 8)
    return net.save(tmp_path_factory.mktemp("network") / "mlp.onnx")


def test_a_model_becomes_verilog_and_its_hardware_is_equal(
    ridgeline: Run, network: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mlp.v"
    ended = ridgeline("rtl", network, "--pipeline", "--multipliers", 16, "-o", path)
    assert ended.code == 0, ended.err
    assert "2 stages" in ended.out
    assert "array tiny-16" in ended.out
    assert max(map(len, ended.out.splitlines()[:-1])) <= 80  # the last names the file
    assert "module ridgeline_accelerator(" in path.read_text(encoding="utf-8")
    told = json.loads(ridgeline("rtl", network, "--pipeline", "--json", "-o", path).out)
    assert [pin["name"] for pin in told["pins"]][:3] == ["clk", "rst", "in_valid"]
    ended = ridgeline("cosim", network, "--pipeline", "--json", "--bits", "*=3")
    found = json.loads(ended.out)
    assert (ended.code, found["equal"], found["integers"]) == (0, True, 16)
    assert found["cycles"] == found["planned_cycles"]
    stalled = ridgeline("cosim", network, "--pipeline", "--stalls", 1)
    assert stalled.code == 0
    assert "with random stalls: not compared" in stalled.out


FAULTS = {
    "an interval of 1 cycles cannot be: 'gemm0' wholly unfolded takes longer. The shortest is 17": (
        "--interval",
        1,
    ),
    "1 multipliers are too few: there are 2 stages": ("--multipliers", 1),
    "needs [0-9,]+ bits of memory on chip": ("--memory-bits", 100),
    "no layer with weights is called 'gemm9'": ("--bits", "gemm9=4"),
    "9 bits for the weights of 'gemm0'": ("--bits", "gemm0=9"),
    "'gemm0' is not LAYER=BITS": ("--bits", "gemm0"),
    "--interval: must be at least 1": ("--interval", 0),
    "--top: says something about a machine, and a pipeline has none": ("--top", "axi"),
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults(ridgeline: Run, text: str, tmp_path: Path) -> None:
    net = Network(3, 34)
    net.dense(8, 34)
    net.dense(4, 8)
    path = net.save(tmp_path / "mlp.onnx")
    ended = ridgeline("rtl", path, "--pipeline", *FAULTS[text], "-o", tmp_path / "x.v")
    assert ended.code == 2
    assert re.search(text, ended.err), ended.err
    assert not (tmp_path / "x.v").exists()


def test_what_no_stage_computes_is_named(ridgeline: Run, tmp_path: Path) -> None:
    net = Network(3, 4, 6, 6)
    net.conv(4, 4)
    net.add("AveragePool", kernel_shape=[2, 2])
    path = net.save(tmp_path / "mean.onnx")
    ended = ridgeline("rtl", path, "--pipeline", "-o", tmp_path / "x.v")
    assert ended.code == 2
    assert "no stage averages parts of an image, in float32" in ended.err
    assert "'averagepool1' (AveragePool)" in ended.err


def test_options_of_a_pipeline_need_it(ridgeline: Run, tmp_path: Path) -> None:
    ended = ridgeline("rtl", "tiny-8", "--interval", 9, "-o", tmp_path / "x.v")
    assert ended.code == 2
    assert "--interval: says something about a pipeline only. Add --pipeline" in ended.err


def test_a_pipeline_is_one_file(ridgeline: Run, network: Path, tmp_path: Path) -> None:
    ended = ridgeline("rtl", network, "--pipeline", "-o", tmp_path / "folder")
    assert ended.code == 2
    assert "a pipeline is one file, whose name ends in .v" in ended.err
