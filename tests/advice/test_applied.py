"""Gains predicted of changes to machine files, beside those that compiling and simulating achieve.

The bar is a mean error of 10 % over all changes of a model. Those that change nothing are left out
of it here, so that they cannot thin out the errors of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import ridgeline
from advice.small_models import anomaly_detection, keyword_spotting
from published.catalogue import listed, open_listed
from ridgeline.advice.foresee import Run, foreseen
from ridgeline.advice.machines import Applied
from ridgeline.advice.source import Source
from ridgeline.render.advice import mean_error

DIGITS = Path(ridgeline.__file__).parent / "models" / "digits_cnn.onnx"
MODELS: dict[str, Callable[[], Path | bytes]] = {
    "digits_cnn": lambda: DIGITS,
    "keyword_spotting": keyword_spotting,
    "anomaly_detection": anomaly_detection,
}
MOST = 0.10


def moved(made: list[Applied]) -> list[Applied]:
    """Those that changed the time by more than a per cent, or were foretold to."""
    tried = [one for one in made if one.predicted and one.achieved]
    return [
        one
        for one in tried
        if max(abs(one.before / x - 1) for x in (one.predicted, one.achieved) if x) > 0.01
    ]


def check(made: list[Applied]) -> None:
    """Holds the mean error of what changed anything, and that there is such a change."""
    changed = moved(made)
    errors = {one.change.name: (one.predicted, one.achieved) for one in changed}
    assert len(changed) >= 2, errors
    assert (mean_error(changed) or 0.0) <= MOST, errors
    applied = [one for one in made if one.achieved]
    assert len(applied) >= 7, [one.reason for one in made]


@cache
def applied(name: str, machine: str) -> list[Applied]:
    """All changes of a model of MODELS."""
    return ridgeline.advise_machine(MODELS[name](), machine, apply=True)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("digits_cnn", "tpu-v1"),
        ("keyword_spotting", "edge-4tops"),
        ("anomaly_detection", "tiny-16"),
    ],
)
def test_achieved_gains_are_those_predicted(name: str, machine: str) -> None:
    check(applied(name, machine))


@pytest.mark.peer
@pytest.mark.parametrize("machine", ["edge-4tops", "server-hbm"])
@pytest.mark.parametrize("name", ["ppocr_cls", "mtcnn_rnet", "mlperf_tiny_resnet8_int8"])
def test_published_models_gain_what_was_predicted(name: str, machine: str) -> None:
    shapes = {k: tuple(v) for k, v in listed()[name].get("shapes", {}).items()}
    model = open_listed(name)
    check(ridgeline.advise_machine(model, machine, shapes=shapes, apply=True))


def test_8_bit_activations_gain_what_was_predicted() -> None:
    """Layers that the host makes in 16 bits come to the device, too."""
    machine = ridgeline.load_machine("edge-4tops")
    source = Source(DIGITS, activations="int16")
    graph, then = source.graph_at(1), source.graph_at(1, "uint8")
    program = ridgeline.compile(graph, machine)
    made = ridgeline.report(program, ridgeline.simulate(program))
    predicted = foreseen(Run(graph, program, made), then, machine, 1, planned=True)
    achieved = ridgeline.simulate(ridgeline.compile(then, machine)).cycles
    assert made.cycles > 1.5 * achieved
    assert predicted == pytest.approx(achieved, rel=MOST)


def test_a_doubled_array_is_not_overrated_where_layers_do_not_fill_it() -> None:
    """Slots are free once sums have drained through more rows and columns: slower, and foretold."""
    made = applied("digits_cnn", "tpu-v1")
    (one,) = [x for x in made if x.change.name == "array x 2 by x 2"]
    assert one.predicted
    assert one.achieved
    assert one.achieved > 1.05 * one.before
    assert one.predicted > 1.05 * one.before
