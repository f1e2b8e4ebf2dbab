"""`ridgeline worth`: what it prints, its JSON, and one message for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ridgeline import api

Run = Callable[..., Any]
PRICED = ("--chip", "l4", "--unit", "tiny-16=20", "--unit", "l4=2500")


def test_the_two_cases(ridgeline: Run, shipped: Any) -> None:
    """High volume, a fixed model, a latency that must hold; and a model changed each quarter."""
    volume = ("--units", "100000", "--latency", "1ms", "--guaranteed")
    shown = ridgeline("worth", shipped.model, *PRICED, *volume).out
    assert "Build it: tiny-16 costs least of those that will do." in shown
    assert max(map(len, shown.splitlines())) <= 80
    cheap = ("--chip", "raspberry-pi-5", "--unit", "tiny-16=40", "--unit", "raspberry-pi-5=60")
    shown = ridgeline("worth", shipped.model, *cheap, "--units", "2000", "--changes", "4").out
    assert "Do not build: raspberry-pi-5 costs least of those that will do." in shown


def test_a_model_that_outruns_its_hardware(ridgeline: Run, shipped: Any) -> None:
    fast = ("--changes", "12", "--units", "1000000")
    shown = " ".join(ridgeline("worth", shipped.model, *PRICED, *fast).out.split())
    assert "tiny-16 will not do: a change takes 45 days, and the model changes every 30.4" in shown
    assert "the model would be out of date before the hardware runs it. l4 costs least." in shown


def test_json_holds_exact_cycles_and_the_chips_interval(ridgeline: Run, shipped: Any) -> None:
    data = json.loads(ridgeline("worth", shipped.model, *PRICED, "--json").out)
    own, other = data["options"]
    machine = api.load_machine("tiny-16")
    assert own["seconds"]["low"] == own["seconds"]["high"]
    cycles = own["seconds"]["likely"] * machine.clock_hz
    assert cycles == pytest.approx(round(cycles), abs=1e-6)
    bound = api.analyze(shipped.model, "l4")
    assert other["seconds"]["likely"] == pytest.approx(bound.seconds.likely)
    assert own["exact"]
    assert not other["exact"]
    (turning,) = data["break_even"]
    assert turning["units"] == pytest.approx(
        (own["first_usd"] - other["first_usd"]) / (other["unit_usd"] - own["unit_usd"])
    )


def test_your_own_figures_take_the_place_of_the_defaults(ridgeline: Run, shipped: Any) -> None:
    own = ("--develop", "tiny-16=1000", "--change", "tiny-16=10", "--days", "tiny-16=1")
    own += ("--joules", "tiny-16=1e-3")
    data = json.loads(ridgeline("worth", shipped.model, *PRICED, *own, "--json").out)
    found = data["options"][0]
    figures = ("first_usd", "change_usd", "change_days", "joules")
    assert tuple(found[key] for key in figures) == (1000, 10, 1, 1e-3)


def test_without_a_price_it_says_which(ridgeline: Run, shipped: Any) -> None:
    shown = ridgeline("worth", shipped.model, "--chip", "l4", "--unit", "l4=2500").out
    assert "No answer: a unit of tiny-16 has no price. Give --unit NAME=USD." in shown
    assert "tiny-16 against l4: unknown while one has no price" in shown


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((), "worth: needs a chip to compare with. Name one or more with --chip"),
        (("--chip", "l4x"), "chips: there is no chip 'l4x'. Did you mean 'l4'?"),
        (("--chip", "l4", "--kind", "asic"), "--kind: there is no kind of build 'asic'. Known:"),
        (("--chip", "l4", "--units", "0"), "--units: is 0. Give a number above 0"),
        (("--chip", "l4", "--years", "nan"), "--years: is nan. Give a number above 0"),
        (("--chip", "l4", "--changes", "-1"), "--changes: is -1. Give a number from 0 on"),
        (("--chip", "l4", "--latency", "1"), "--latency: '1' is not a time. Say its unit: 1ms or"),
        (("--chip", "l4", "--guaranteed"), "--guaranteed: needs a latency to hold. Give it with"),
        (("--chip", "l4", "--kwh", "0.3"), "--kwh: needs how often a unit works. Give inferences"),
        (("--chip", "l4", "--unit", "l4"), "--unit: 'l4' is not NAME=NUMBER. For example:"),
        (("--chip", "l4", "--unit", "l4=-3"), "--unit: 'l4=-3' is not NAME=NUMBER. For example:"),
        (("--chip", "l4", "--unit", "t4=3"), "--unit: 't4' is not compared here. Compared: tiny"),
        (
            ("--chip", "l4", "--days", "l4=3", "--days", "l4=4"),
            "--days: 'l4' is given twice. Give it once",
        ),
        (("--chip", "l4", "--build", "big"), "there is no machine 'big'. Known: edge-4tops,"),
    ],
)  # fmt: skip
def test_faults(ridgeline: Run, shipped: Any, given: tuple[str, ...], text: str) -> None:
    ended = ridgeline("worth", shipped.model, *given)
    assert ended.code == 2
    assert text in ended.err, ended.err
    assert "Traceback" not in ended.err
