"""`ridgeline choose` and `ridgeline explain`: within 80 columns, JSON, one message a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
DEMAND = ("--latency", "10ms", "--qps", "2000", "--watts", "75")


def test_chips_advice_and_open_measurements_are_shown(ridgeline: Run) -> None:
    made = ridgeline("choose", "resnet-50", *DEMAND, "--price", "l4=2500")
    assert made.code == 0
    assert "resnet-50 at batch 1, within 10 ms, 2,000 samples a second, at most 75 W" in made.out
    assert "It depends on measurements that nobody made here:" in made.out
    assert "First measure the time of ResNet-50" in made.out
    assert "USD for a million samples, by your prices, what is bought spread over 3" in made.out
    assert max(len(line) for line in made.out.splitlines()) <= 80


def test_a_language_model_says_where_its_context_takes_over(ridgeline: Run) -> None:
    made = ridgeline(
        "choose", "llama-3-8b", "--context", 2048, "--qps", 100, "--precision", "int4", "--all"
    )
    assert "From a context of" in made.out
    assert "keys and values weigh more than weights" in " ".join(made.out.split())
    assert max(len(line) for line in made.out.splitlines()) <= 80


def test_nothing_meets_an_absurd_demand(ridgeline: Run) -> None:
    made = ridgeline("choose", "llama-3-405b", "--latency", "1us", "--chip", "h100-sxm5")
    assert made.code == 0
    assert "No chip is known to meet it." in made.out
    assert "1 chip does not:" in made.out


MINE = """
name = "mine"
year = 2026
[sources.me]
text = "me"
date = "2026"
seen = "user"
[[peaks]]
precision = "int8"
dense = { operations_per_s = 1e14, kind = "user", source = "me" }
unchecked = "a figure of mine"
[[memories]]
name = "DDR"
level = "main"
bandwidth = { bandwidth_gb_per_s = 100, kind = "user", source = "me" }
"""


def test_a_chip_of_ones_own_has_its_price_and_its_card(ridgeline: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    made = ridgeline("choose", "resnet-50", "--qps", 9, "--chip", path, "--price", f"{path}=5")
    assert made.code == 0
    assert "First measure the time of ResNet-50 v1.5, 224 x 224 at batch 1 on mine." in made.out
    shown = " ".join(ridgeline("explain", "--chip", path).out.split())
    assert "100 TOPS over DDR at 100 GB/s is 1,000.0 op/byte" in shown


def test_json_has_every_chip_and_its_gains(ridgeline: Run) -> None:
    data = json.loads(ridgeline("choose", "llama-3-8b", "--qps", 10, "--json").out)
    assert len(data) >= 95
    verdicts = {one["verdict"] for one in data}
    assert verdicts == {"yes", "open", "no"}
    first = data[0]
    assert first["chips"] >= 1
    assert {gain["figure"] for gain in first["gains"]} >= {"bandwidth", "peak"}
    assert first["models"][0]["low_seconds"] <= first["models"][0]["seconds"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("resnet-5",), "choose: there is no model 'resnet-5'. A file must end in .onnx. Did you"),
        (("resnet-50", "--qps", "0"), "--qps: is 0. Give a rate such as 2000, above 0"),
        (("resnet-50", "--price", "l5=3"), "chips: there is no chip 'l5'. Did you mean 'l4'?"),
        (("resnet-50", "--price", "l4=1", "--price", "l4=2"), "--price: 'l4' is given twice"),
        (("resnet-50", "--latency", "10"), "--latency: '10' is not a time. Say its unit: 10ms"),
    ],
)
def test_faults_are_one_message(ridgeline: Run, arguments: tuple[str, ...], said: str) -> None:
    made = ridgeline("choose", *arguments)
    assert made.err.startswith("error: " + said)
    assert made.code == 2
    assert made.out == ""


def test_the_card_is_shown_and_in_json(ridgeline: Run) -> None:
    shown = ridgeline("explain", "--chip", "h100-sxm5").out
    assert "is 295.3 op/byte, the ridge" in " ".join(shown.split())
    assert max(len(line) for line in shown.splitlines()) <= 80
    data = json.loads(ridgeline("explain", "--chip", "alveo-u280", "--json").out)
    assert data["precision"] == "int8"
    assert {one["side"] for one in data["operations"]} == {"memory", "compute"}


def test_a_chip_without_a_roofline_has_no_card(ridgeline: Run) -> None:
    made = ridgeline("explain", "--chip", "hailo-8")
    assert made.err.startswith("error: --chip: hailo-8 has no roofline: no source states the rate")
    assert made.code == 2
