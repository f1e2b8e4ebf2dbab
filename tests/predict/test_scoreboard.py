"""Whole models: shapes beside published counts, and times of chips left out of the fit."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ridgeline.chips.loader import load_chip
from ridgeline.errors import RidgelineError
from ridgeline.predict import systems as module
from ridgeline.predict.language import decode, language_model, language_models, prefill, weights_of
from ridgeline.predict.networks import network
from ridgeline.predict.scoreboard import scores, summaries
from ridgeline.predict.systems import estimate, held_out_seconds, systems
from ridgeline.predict.whole_models import figures
from ridgeline.predict.work import Rates, parts, rates_of, roofline_seconds

ROOT = Path(__file__).parents[2]
PUBLISHED_PARAMETERS = {
    "llama-2-7b": 6.74e9,
    "llama-2-13b": 13.0e9,
    "llama-2-70b": 69.0e9,
    "llama-3-8b": 8.03e9,
    "llama-3-70b": 70.6e9,
    "llama-3-405b": 405.9e9,
    "llama-3.2-3b": 3.21e9,
    "mixtral-8x7b": 46.7e9,
    "mistral-7b": 7.24e9,
    "qwen-2.5-14b": 14.8e9,
    "gpt-oss-20b": 20.9e9,
    "gpt-2": 0.1236e9,
}


@pytest.fixture(scope="module")
def benchmark() -> Any:
    path = ROOT / "benchmarks" / "whole_models.py"
    spec = importlib.util.spec_from_file_location("benchmark_whole_models", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", list(language_models()))
def test_parameters_are_those_that_the_models_publish(name: str) -> None:
    assert language_model(name).parameters == pytest.approx(PUBLISHED_PARAMETERS[name], rel=0.005)


def test_multiply_accumulates_are_those_counted_on_the_models() -> None:
    bert = network("bert-base", "fp16", 1, 128)
    assert bert.operations == 2 * 11_173_625_856
    gpt = language_model("gpt-2")
    made = 128 * (gpt.macs_per_token + gpt.vocab * gpt.hidden) + gpt.attention_macs(128, 128)
    assert made == 16_114_089_984
    assert network("resnet-50", "int8", 4).operations == 8 * 4_089_184_256


def test_a_token_reads_weights_and_its_own_keys_and_values() -> None:
    model = language_model("llama-3-8b")
    work = decode(model, weights_of("fp16"), 1, 1000)
    assert work.cache_bytes == 1000 * 2 * 32 * 8 * 128 * 2
    # All but the table of tokens, of which one row is looked up.
    assert work.weight_bytes == pytest.approx(2 * (8.03e9 - 128256 * 4096), rel=1e-3)
    assert decode(model, weights_of("fp16"), 8, 1000).weight_bytes == work.weight_bytes


def test_a_batch_reads_more_experts_up_to_all_of_them() -> None:
    model = language_model("mixtral-8x7b")
    one, many = (decode(model, weights_of("fp16"), batch, 1) for batch in (1, 1000))
    assert one.weight_bytes == pytest.approx(2 * 12.75e9, rel=0.01)  # 12.9e9 with both tables
    assert many.weight_bytes == pytest.approx(2 * (46.7e9 - 32000 * 4096), rel=0.005)


def test_every_figure_is_predicted_or_says_why_not() -> None:
    found = scores()
    assert len(found) == 128
    for one in found:
        assert one.scored != bool(one.refused)
        assert one.figure.kind == "measured" or one.refused
        assert one.figure.source
    refused = {one.refused for one in found if not one.scored}
    assert "tensor parallel on 4 chips: links are not modelled" in refused
    assert "a target that a configuration sets, which nobody measured" in refused


def test_chips_left_out_lie_in_their_intervals() -> None:
    *classes, whole = summaries(scores())
    assert whole.figures >= 60
    assert 0.80 <= whole.covered <= 0.95
    assert whole.half_width <= 0.25
    assert whole.median_error <= 0.15
    for one in classes:
        assert one.chips >= 3
        assert 0.80 <= one.covered <= 0.95, one.group


def test_wrong_constants_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were every chip predicted by another class's constants, errors would show it."""
    right = median(abs(_error(one)) for one in _llama())
    other = systems()["NVIDIA gpu, TensorFlow XLA"]
    wrong = {
        name: replace(one, without=dict.fromkeys(one.without, other.constants))
        for name, one in systems().items()
    }
    monkeypatch.setattr(module, "systems", lambda: wrong)
    assert right < 0.15 < median(abs(_error(one)) for one in _llama())


def _llama() -> list[Any]:
    return [one for one in figures() if one.group == "NVIDIA gpu, llama.cpp"]


def _error(one: Any) -> float:
    seconds = held_out_seconds(one)
    assert seconds is not None
    return log(seconds / one.seconds)


def test_the_constants_are_those_that_the_benchmark_fits(benchmark: Any) -> None:
    for name in ("Apple gpu, llama.cpp", "NVIDIA gpu, TensorFlow XLA"):
        rows = benchmark.groups()[name]
        chip = rows[0].chip
        made = benchmark.fit([one for one in rows if one.chip != chip])
        for one in rows:
            kept = benchmark.log_ratio(one, systems()[name].without[chip])
            # The search is a direct one, and may end beside where it ended elsewhere.
            assert benchmark.log_ratio(one, made) == pytest.approx(kept, abs=0.05)


def test_a_left_out_chip_is_not_in_its_own_constants() -> None:
    for system in systems().values():
        for chip in system.without:
            assert chip in system.chips
            assert system.without[chip] != system.constants


def test_the_time_is_the_sum_that_the_page_gives() -> None:
    work = decode(language_model("llama-3-8b"), weights_of("fp16"), 1, 512)
    rates = rates_of(load_chip("rtx-3090"), work.peaks)
    one = systems()["NVIDIA gpu, llama.cpp"].constants
    read = min(936e9 * one.bandwidth_fraction, 82 * 1695e6 * one.load_bytes_per_cycle)
    wanted = 32 * one.launch_seconds + work.weight_bytes / read
    wanted += work.cache_bytes / (read * one.cache_fraction)
    wanted += one.vector_passes * work.vector_bytes / read
    assert parts(work, rates, one).seconds == pytest.approx(wanted)


def test_an_estimate_is_never_below_its_roofline_and_grows_with_work() -> None:
    model, chip = language_model("llama-3-8b"), load_chip("h100-sxm5")
    last = 0.0
    for batch in (1, 4, 16, 64, 256):
        made = estimate(decode(model, weights_of("fp16"), batch, 1024), chip)
        assert made.seconds is not None
        assert made.high_seconds is not None
        assert made.roofline_seconds <= made.low_seconds <= made.seconds <= made.high_seconds
        assert made.seconds > last
        last = made.seconds
    assert made.basis == "its class"


def test_a_class_that_nobody_measured_has_its_least_time_only() -> None:
    work = decode(language_model("llama-3-8b"), weights_of("bf16"), 1, 128)
    made = estimate(work, load_chip("tpu-v5e"))
    assert (made.basis, made.seconds, made.high_seconds) == ("roofline only", None, None)
    assert made.low_seconds == pytest.approx(work.moved_bytes / 819e9)


def test_weights_that_stay_on_the_chip_are_not_read_again() -> None:
    work = network("mobilenet-v2", "int8", 1)
    rates = Rates(1e14, 1e11, None, on_chip_bytes=8e6)
    assert roofline_seconds(work, rates) == pytest.approx(work.operations / 1e14)
    small = replace(rates, on_chip_bytes=1e6)
    assert roofline_seconds(work, small) == pytest.approx(work.moved_bytes / 1e11)


def test_the_interval_without_a_chip_does_not_know_its_errors() -> None:
    name = "Apple gpu, llama.cpp"
    all_of_them = module.half_log_width(name)
    without = module.half_log_width(name, "m1-max-gpu")
    assert all_of_them is not None
    assert without is not None
    assert exp(without) < exp(all_of_them)  # the chip with the largest error is not in it


def test_prompts_multiply_and_tokens_read() -> None:
    model, weights = language_model("llama-3-8b"), weights_of("fp16")
    chip = load_chip("a100-sxm4-80gb")
    assert estimate(decode(model, weights, 1, 512), chip).side == "memory"
    assert estimate(prefill(model, weights, 1, 4096), chip).side == "compute"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: language_model("llama-3-9b"),
            "model: there is no language model 'llama-3-9b'. Did you mean 'llama-3-8b'",
        ),
        (
            lambda: weights_of("int5"),
            "--precision: there is no storage of weights 'int5'. Did you mean 'int8' or 'int4'",
        ),
        (
            lambda: network("resnet-51", "int8", 1),
            "model: there is no network 'resnet-51'. Did you mean 'resnet-50'?",
        ),
        (
            lambda: decode(language_model("gpt-2"), weights_of("fp16"), 0, 1),
            "--batch: is 0. Give a whole number from 1 to 1,000,000",
        ),
        (
            lambda: decode(language_model("gpt-2"), weights_of("fp16"), 1, 0),
            "--context: is 0. Give a whole number of tokens from 1 to 10,000,000",
        ),
        (
            lambda: network("yolov8m", "int8", 1),
            "yolov8m: no source counts what YOLOv8m, 640 x 640 writes. Give the ONNX file",
        ),
        (
            lambda: network("bert-base", "int8", 1),
            "bert-base: the length of the texts is unknown. Give tokens",
        ),
    ],
)
def test_faults_name_what_is_near(call: Any, said: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        call()
    assert str(caught.value).startswith(said)
