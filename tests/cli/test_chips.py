"""`ridgeline chips`: tables, JSON, and one message for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_list_and_its_filters(ridgeline: Run) -> None:
    every = json.loads(ridgeline("chips", "list", "--json").out)
    assert len(every) >= 90
    npus = json.loads(ridgeline("chips", "list", "--class", "npu", "--json").out)
    assert {chip["class"] for chip in npus} == {"npu"}
    shown = ridgeline("chips", "list", "--precision", "fp8").out
    assert "h100-sxm5" in shown
    assert "a100" not in shown
    assert ridgeline("chips").out == ridgeline("chips", "list").out


def test_show_says_what_the_headline_is(ridgeline: Run) -> None:
    shown = ridgeline("chips", "show", "H100 SXM5")
    assert shown.code == 0
    assert "headline: 3,958 TOPS in fp8" in shown.out
    assert "2 times the dense peak of one engine" in shown.out
    assert "sparse: it counts products with zeros" in shown.out
    assert "source (2026-08;" in shown.out
    assert "attained in bf16: 794 TOPS, measured, MAMF" in shown.out
    assert "17.2 TOPS, vendor, PG367" in ridgeline("chips", "show", "alveo-u280").out


def test_compare_shows_what_was_attained(ridgeline: Run) -> None:
    shown = ridgeline("chips", "compare", "h200-sxm", "h100-sxm5").out
    assert "attained bf16        940 TOPS        794 TOPS" in shown
    assert "attained int8" not in shown


def test_show_gives_the_balance_of_every_memory_as_json(ridgeline: Run) -> None:
    data = json.loads(ridgeline("chips", "show", "ethos-u55-256", "--json").out)
    (peak,) = data["summary"]["peaks"]
    assert peak["balance_operations_per_byte"] == {"SRAM": 64.0, "flash": 512.0}
    assert data["tdp"] is None


def test_compare_two_of_one_headline(ridgeline: Run) -> None:
    shown = ridgeline("chips", "compare", "h200-sxm", "h100-sxm5", "--precision", "bf16").out
    assert shown.count("3,958 TOPS fp8") == 2
    lines = {line[:20].strip(): line for line in shown.splitlines()}
    assert lines["1 x 4096 x 4096"].split()[6] == "h200-sxm"
    assert lines["4096 x 4096 x 4096"].split()[6] == "equal"
    data = json.loads(
        ridgeline(
            "chips", "compare", "t4", "--peak", "int8=100T", "--bandwidth", "1T", "--json"
        ).out
    )
    assert data["precision"] == "int8"
    assert data["crossover_operations_per_byte"] == pytest.approx(100e12 / 320e9)


def test_chips_without_common_precision_say_so(ridgeline: Run) -> None:
    shown = ridgeline("chips", "compare", "m1-gpu", "hailo-8")
    assert shown.code == 0
    assert "no precision that all have" in shown.out


def test_a_chip_without_a_rate_of_memory_is_named(ridgeline: Run) -> None:
    shown = ridgeline("chips", "compare", "l4", "hailo-8")
    assert shown.code == 0
    said = (
        "no source states the rate of the memory of hailo-8: nothing can be said of which is faster"
    )
    assert said in " ".join(shown.out.split())


def test_timeline_by_year(ridgeline: Run) -> None:
    firsts = json.loads(ridgeline("chips", "timeline", "--json").out)
    names = [chip["name"] for chip in firsts]
    assert names == [
        *("tpu-v1", "a11-neural-engine", "nvdla-full", "t4"),
        *("inferentia1", "groq-lpu-v1", "h100-sxm5"),
    ]
    assert [chip["year"] for chip in firsts] == sorted(chip["year"] for chip in firsts)
    assert len(json.loads(ridgeline("chips", "timeline", "--all", "--json").out)) >= 90
    assert "2,706" in ridgeline("chips", "timeline").out  # 92 TOPS / 34 GB/s


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("show", "h100"),
            "chips: there is no chip 'h100'. Did you mean 'h100-pcie' or 'h100-sxm5'?"
            " A file must end in .toml",
        ),
        (
            ("show", "zzzz"),
            "chips: there is no chip 'zzzz'. `ridgeline chips list` shows all."
            " A file must end in .toml",
        ),
        (
            ("show",),
            "chips show: needs one chip. Name one, or give --peak and --bandwidth",
        ),
        (
            ("compare", "t4"),
            "chips compare: needs at least two chips. Name two, or --peak for yours",
        ),
        (("compare", "t4", "t4"), "chips compare: 't4' is given twice"),
        (
            ("compare", "t4", "l4", "--precision", "fp9"),
            "--precision: there is no precision 'fp9'. Did you mean 'fp8' or 'fp4' or 'fp64'?",
        ),
        (
            ("compare", "t4", "l4", "--precision", "bf16"),
            "--precision: t4 has no peak in 'bf16'. It has: fp32, fp16, int8, int4",
        ),
        (
            ("show", "--peak", "int8=100T", "--bandwidth", "300Gb/s"),
            "--bandwidth: '300Gb/s' counts bits. Give bytes: 37.5GB/s",
        ),
        (("list", "--class", "gpus"), "--class: no chip is a 'gpus'. Did you mean 'gpu' or"),
        (
            ("show", "none.toml"),
            "none.toml: cannot be read (No such file or directory). ",
        ),
        (
            ("show", "tesla-t4"),
            "chips: there is no chip 'tesla-t4'. Did you mean 't4'? A file must end in .toml",
        ),
    ],
)
def test_faults_are_one_message(ridgeline: Run, arguments: tuple[str, ...], said: str) -> None:
    made = ridgeline("chips", *arguments)
    assert made.err.startswith(f"error: {said}")
    assert made.err.count("\n") == 1
    assert made.out == ""
    assert made.code == 2


def test_tables_keep_within_80_columns(ridgeline: Run) -> None:
    commands = [("chips", "list"), ("chips", "timeline"), ("machines", "tpu-v1")]
    commands += [("chips", "show", name) for name in ("h100-sxm5", "cerebras-wse-3", "tpu-v1")]
    many = ("t4", "l4", "a100-sxm4-80gb", "h100-sxm5", "jetson-agx-orin-64gb")
    commands += [("chips", "compare", *many[:2]), ("chips", "compare", *many)]
    for command in commands:
        shown = ridgeline(*command).out
        assert max(map(len, shown.splitlines())) <= 80, command


def test_more_columns_than_fit_are_blocks(ridgeline: Run) -> None:
    """Every chip has its column, each block its first."""
    many = ("t4", "l4", "a100-sxm4-80gb", "h100-sxm5", "jetson-agx-orin-64gb")
    shown = ridgeline("chips", "compare", *many).out
    heads = [line for line in shown.splitlines() if line.startswith("least time in")]
    assert len(heads) == 2
    assert [name for head in heads for name in head.split()[4:] if name in many] == list(many)
    assert shown.count("4096 x 4096 x 4096  ") == 2
