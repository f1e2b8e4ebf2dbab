"""Choosing chips: numbers by hand, what more of a figure gains, and what stays open."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import pytest

import ridgeline
from ridgeline.chips.custom import custom_chip
from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.choose import Choice, choose, crossover_batch, scaled
from ridgeline.predict.demand import Demand, Job, Price, price_of, seconds_of
from ridgeline.predict.jobs import named_job
from ridgeline.predict.systems import Estimate, estimate
from ridgeline.predict.work import Work, parts, rates_of


def _job(name: str, precision: str | None = None, context: int | None = None, share: float = 1.0):
    found = named_job(name, precision, context, share)
    assert found is not None
    return found


def _one(demand: Demand, chip: str = "l4", *jobs: Any) -> Choice:
    made = choose(jobs or [_job("llama-3-8b", "int4")], [load_chip(chip)], demand)
    return made[0]


def test_chips_needed_and_how_busy_they_are() -> None:
    one = _one(Demand(batch=4, items_per_s=1000))
    seconds = one.runs[0].estimate.seconds
    assert seconds is not None
    assert one.count == ceil(1000 * seconds / 4)
    assert one.utilisation == pytest.approx(1000 * seconds / 4 / one.count)
    assert one.least is not None
    assert one.most is not None
    assert one.least <= one.count <= one.most
    assert one.joules_per_item == pytest.approx(72 * seconds / 4)
    assert one.watts == pytest.approx(72 * one.count)


def test_a_mix_takes_each_model_by_its_share() -> None:
    small, large = _job("llama-3-8b", "int4", share=3), _job("llama-2-13b", "int4", share=1)
    mixed = _one(Demand(items_per_s=10), "rtx-4090", small, large)
    alone = [_one(Demand(items_per_s=10), "rtx-4090", job) for job in (small, large)]
    each = [one.runs[0].estimate.seconds or 0.0 for one in alone]
    assert mixed.utilisation is not None
    assert mixed.count is not None
    wanted = 10 * (0.75 * each[0] + 0.25 * each[1])
    assert mixed.utilisation * mixed.count == pytest.approx(wanted)


def test_prices_are_spread_over_what_is_served() -> None:
    rented = _one(Demand(items_per_s=50, prices={"l4": Price(0.72, True)}))
    assert rented.count is not None
    assert rented.usd_per_million == pytest.approx(rented.count * 0.72 / 3600 / 50 * 1e6)
    bought = _one(Demand(prices={"l4": Price(2000, False)}, years=2))
    seconds = bought.runs[0].estimate.seconds
    assert seconds is not None
    spread = 2000 / (2 * 365.25 * 24 * 3600)
    assert bought.usd_per_million == pytest.approx(spread * seconds * 1e6)
    assert _one(Demand()).usd_per_million is None


def test_gains_are_the_parts_of_the_time() -> None:
    """Where nothing overlaps, a figure's part of the time is what more of it shortens."""
    one = _one(Demand())
    gains = {gain.figure: gain for gain in one.gains}
    work, made = one.runs[0].work, one.runs[0].estimate.parts
    assert made is not None
    assert made.weight_seconds > made.compute_seconds
    memory = made.weight_seconds + made.cache_seconds + made.vector_seconds
    share = memory / made.seconds
    # A tenth more of a rate takes 1/11 off its part.
    assert 1.1 * gains["bandwidth"].elasticity == pytest.approx(-share, rel=1e-6)
    assert gains["peak"].elasticity == pytest.approx(0.0, abs=1e-12)
    assert gains["link"].elasticity == pytest.approx(0.0, abs=1e-12)
    rate = rates_of(load_chip("l4"), work.peaks).memory_bytes_per_s
    lost = gains["bandwidth"].elasticity * made.seconds / rate
    assert gains["bandwidth"].seconds_per_unit == pytest.approx(lost)


def test_the_derivative_of_peak_is_of_the_peak_that_is_used() -> None:
    """The L4 has 121 TOPS in fp16, though 485 in int4."""
    one = _one(Demand(batch=4096), "l4", _job("llama-3-8b", "fp16", 1))
    (peak,) = (gain for gain in one.gains if gain.figure == "peak")
    seconds = one.runs[0].estimate.seconds
    assert seconds is not None
    assert peak.seconds_per_unit == pytest.approx(peak.elasticity * seconds / 4096 / 121e12)


def test_what_does_nothing_gains_nothing_and_never_computes() -> None:
    empty = Work("nothing", "sample", 1, 1, 0.0, 0.0, 0.0, 0.0, 0.0, ("int8",))
    job = Job("nothing", lambda batch: replace(empty, items=batch), 1.0)
    for name in ("l4", "tpu-v1"):
        one = _one(Demand(), name, job)
        assert all(gain.elasticity == 0 for gain in one.gains)
        assert one.runs[0].crossover_batch is None
    assert not one.gains


def test_a_large_batch_buys_arithmetic_and_a_small_one_bandwidth() -> None:
    # Keys and values are short, so that a batch can reach the ridge.
    few = _one(Demand(batch=1), "l4", _job("llama-3-8b", "fp16", 1))
    many = _one(Demand(batch=4096), "l4", _job("llama-3-8b", "fp16", 1))
    assert few.gains[0].figure == "bandwidth"
    assert many.gains[0].figure == "peak"


def test_the_crossover_is_the_first_batch_whose_arithmetic_is_longer() -> None:
    job, chip = _job("llama-3-8b", "fp16", 1), load_chip("l4")
    found = crossover_batch(job, estimate(job.work(1), chip))
    assert found is not None
    for batch, computes in ((found - 1, False), (found, True)):
        work = job.work(batch)
        assert (work.operations / 121e12 >= work.moved_bytes / 300e9) == computes
    long = _job("llama-3-8b", "fp16", 100_000)
    assert crossover_batch(long, estimate(long.work(1), chip)) is None


def test_the_context_at_which_keys_weigh_as_much_as_weights() -> None:
    run = _one(Demand(), "l4", _job("llama-3-8b", "fp16", 1000)).runs[0]
    assert run.crossover_context is not None
    work = _job("llama-3-8b", "fp16", run.crossover_context).work(1)
    assert work.cache_bytes == pytest.approx(work.weight_bytes, rel=1e-4)


def _timed(low: float, likely: float | None, high: float | None):
    def time(work: Work, chip: Any) -> Estimate:
        basis = "its class" if likely is not None else "roofline only"
        rates = rates_of(chip, work.peaks)
        return Estimate(low, likely, high, low / 2, "memory", basis, "", None, rates)

    return time


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((1e-3, 2e-3, 9e-3), "yes"),
        ((1e-3, 2e-3, 11e-3), "open"),
        ((9e-3, 12e-3, 15e-3), "open"),
        ((11e-3, 12e-3, 15e-3), "no"),
        ((1e-3, None, None), "open"),
        ((11e-3, None, None), "no"),
    ],
)
def test_an_interval_across_the_latency_is_open_and_names_the_measurement(
    ends: tuple[float, float | None, float | None], verdict: str
) -> None:
    demand = Demand(latency_seconds=10e-3)
    made = choose([_job("llama-3-8b")], [load_chip("l4")], demand, _timed(*ends))[0]
    assert made.verdict == verdict
    if verdict == "open":
        assert made.measure == "the time of llama-3-8b, one token at batch 1 on l4"
    if verdict == "no":
        assert "llama-3-8b takes longer" in made.reason


@pytest.mark.parametrize(
    ("chip", "demand", "said"),
    [
        ("hailo-8", Demand(), "hailo-8 has no roofline"),
        ("t4", Demand(batch=64), "GB do not fit into 16 GB"),
        ("l4", Demand(watts=70), "it takes 72 W, more than 70 W"),
        ("m1-max-gpu", Demand(watts=70), "its power is unknown"),
    ],
)
def test_a_sheet_refuses_with_its_reason(chip: str, demand: Demand, said: str) -> None:
    job = _job("mobilenet-v2") if chip == "hailo-8" else _job("llama-3-8b", "fp16", 4096)
    made = _one(demand, chip, job)
    assert made.verdict == "no"
    assert said in made.reason
    assert made.count is None


@pytest.mark.parametrize("figure", ["bandwidth", "peak", "on-chip memory", "link", "processors"])
def test_no_more_of_any_figure_makes_a_chip_slower(figure: Any) -> None:
    for name in ("h100-sxm5", "t4", "m1-max-gpu", "tpu-v5e"):
        chip = load_chip(name)
        work = _job("llama-3-8b", None, 2048).work(8)
        before, after = (estimate(work, one) for one in (chip, scaled(chip, figure, 1.1)))
        assert (after.seconds or after.low_seconds) <= (before.seconds or before.low_seconds)


def test_every_chip_has_a_verdict_and_those_that_meet_it_come_first() -> None:
    found, jobs = ridgeline.choose(["resnet-50"], demand=Demand(latency_seconds=0.01))
    assert [job.name for job in jobs] == ["resnet-50"]
    assert len(found) == len(chip_names())
    order = [("yes", "open", "no").index(one.verdict) for one in found]
    assert order == sorted(order)
    assert all(one.reason for one in found if one.verdict != "yes")


def test_a_chip_of_the_users_own_figures_can_be_asked_about() -> None:
    chip = custom_chip(["int8=100T"], "300GB/s")
    made = choose([_job("resnet-50")], [chip], Demand(items_per_s=100))[0]
    assert made.verdict == "open"
    assert made.least == 1


def test_the_time_on_a_link_is_added() -> None:
    work = replace(_job("resnet-50").work(1), link_bytes=150_528.0)
    chip = load_chip("l4")
    rates = rates_of(chip, work.peaks)
    system = ridgeline.predict.systems.systems()["NVIDIA gpu, TensorRT"].constants
    assert rates.link_bytes_per_s == 64e9
    more = (
        parts(work, rates, system).seconds
        - parts(replace(work, link_bytes=0.0), rates, system).seconds
    )
    assert more == pytest.approx(150_528 / 64e9)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10ms", 0.01), ("1.5s", 1.5), ("200us", 2e-4), ("7 ms", 7e-3)]
)
def test_times_have_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: seconds_of("10"), "--latency: '10' is not a time. Say its unit: 10ms or 10s"),
        (lambda: seconds_of("soon"), "--latency: 'soon' is not a time. For example: 10ms"),
        (lambda: Demand(items_per_s=0), "--qps: is 0. Give a rate such as 2000, above 0"),
        (lambda: Demand(items_per_s=1e15), "--qps: is 1e+15. Give a rate such as 2000, at most"),
        (lambda: Demand(items_per_s=float("nan")), "--qps: is nan. Give a rate such as 2000"),
        (lambda: Demand(latency_seconds=0.0), "--latency: is 0. Give a time such as 10ms"),
        (lambda: Demand(watts=-1), "--watts: is -1. Give a power such as 75, above 0"),
        (lambda: Demand(batch=0), "--batch: is 0. Give a whole number from 1 to 1,000,000"),
        (lambda: price_of("l4"), "--price: 'l4' is not CHIP=PRICE. For example: l4=2500"),
        (lambda: price_of("l4=cheap"), "--price: 'l4=cheap' is not CHIP=PRICE"),
        (lambda: choose([], [], Demand()), "choose: needs a model. Name one, or an ONNX file"),
        (
            lambda: _one(Demand(prices={"t4": Price(1, True)})),
            "--price: 't4' is not among the chips asked about. Name it with --chip too",
        ),
        (
            lambda: ridgeline.choose(["resnet-5"]),
            "choose: there is no model 'resnet-5'. A file must end in .onnx. Did you mean 'resnet",
        ),
        (lambda: ridgeline.choose(["gpt-2=0"]), "choose: 'gpt-2=0' has no share. Give one above"),
        (
            lambda: ridgeline.choose(["llama-3-8b"], context=0),
            "--context: is 0. Give a whole number of tokens from 1",
        ),
        (
            lambda: ridgeline.choose(["bert-base"]),
            "choose: bert-base needs the length of its texts. Give --context 128",
        ),
        (
            lambda: ridgeline.choose(["resnet-50"], precision="int4"),
            "--precision: there is no precision 'int4'. int4 stores a language model's weights",
        ),
        (
            lambda: ridgeline.choose(["resnet-50"], chips=["tpu-v9"]),
            "chips: there is no chip 'tpu-v9'. Did you mean 'tpu-v7'",
        ),
    ],
)
def test_faults_name_the_option_and_the_fix(call: Any, said: str) -> None:
    with pytest.raises(RidgelineError) as caught:
        call()
    assert str(caught.value).startswith(said)
