"""Two reports side by side, and the conditions that continuous integration puts on them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from report_cases import REPORT, ROWS
from ridgeline.errors import RidgelineError
from ridgeline.render.json import to_dict
from ridgeline.results.comparison import Change, compare, read_conditions

SLOWER = replace(
    REPORT,
    cycles=5_682_900,
    rows=(replace(ROWS[0], cycles=180_000.0), *ROWS[1:]),
)


def _compare(after: Any = SLOWER) -> Any:
    return compare(to_dict(REPORT), to_dict(after))


def _holds(text: str, after: Any = SLOWER) -> bool:
    (condition,) = read_conditions([text])
    return condition.holds(_compare(after))


def test_a_report_equals_itself() -> None:
    same = _compare(REPORT)
    assert all(c.before == c.after for c in (*same.figures, *same.layers))
    assert same.context == ()


def test_every_number_of_the_run_is_a_figure() -> None:
    figures = {c.name: c for c in _compare().figures}
    assert figures["cycles"] == Change("cycles", 5_562_900, 5_682_900)
    assert figures["accuracy"].after == pytest.approx(443 / 450)
    assert figures["host_layers"].after == 1
    assert figures["ledger_read_after_write"].after == 600_000
    assert {"macs", "device_memory_bytes", "utilisation", "steady_cycles"} <= figures.keys()


def test_layers_change_appear_and_go() -> None:
    after = replace(SLOWER, rows=(SLOWER.rows[0], ROWS[1], replace(ROWS[2], name="new")))
    layers = {c.name: (c.before, c.after) for c in _compare(after).layers}
    assert layers["stem/conv"] == (60_000, 180_000)
    assert layers["softmax"] == (2_900, None)
    assert layers["new"] == (None, 2_900)


def test_layers_of_one_name_are_told_apart() -> None:
    twice = replace(REPORT, rows=(ROWS[0], ROWS[0]))
    changed = replace(REPORT, rows=(ROWS[0], replace(ROWS[0], cycles=1.0)))
    found = compare(to_dict(twice), to_dict(changed)).layers
    assert [(c.name, c.after) for c in found] == [("stem/conv", 60_000), ("stem/conv #2", 1)]


def test_another_machine_is_said() -> None:
    other = replace(REPORT, machine=replace(REPORT.machine, name="tiny-8"), batch=1)
    assert _compare(other).context == (
        "machine: tiny-16 before, tiny-8 after",
        "batch: 450 before, 1 after",
    )
    faster = replace(REPORT, machine=replace(REPORT.machine, clock_hz=2e8))
    assert _compare(faster).context == ("machine: tiny-16, with other figures than before",)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("cycles>+2%", True),
        ("cycles>+2.2%", False),
        ("cycles > +119999", True),
        ("cycles>+120000", False),
        ("cycles>5682899", True),
        ("cycles>5682900", False),
        ("inferences_per_s<-2%", True),
        ("inferences_per_s<-3%", False),
        ("accuracy<0.99", True),
        ("accuracy<-0.001", False),
        ("cycles>-1%", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert _holds(text) is holds


def test_a_change_from_nothing_is_beyond_every_share() -> None:
    assert Change("x", 0, 5).share == inf
    assert Change("x", 0, 0).share == 0
    assert Change("x", -10, -5).share == 0.5


@pytest.mark.parametrize("text", ["cycles", "cycles>2%", "cycles=+2%", "cycles>+x", "", ">+2%"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(RidgelineError, match=r"is no condition\. Write one such as cycles>"):
        read_conditions([text])


def test_an_unknown_figure_is_named_with_its_neighbours() -> None:
    with pytest.raises(RidgelineError, match=r"no figure 'cycels'\. Did you mean 'cycles'"):
        _holds("cycels>+2%")


def test_a_figure_that_one_side_lacks() -> None:
    with pytest.raises(RidgelineError, match="--fail-if accuracy<-1%: 'accuracy' is not known aft"):
        _holds("accuracy<-1%", replace(REPORT, accuracy=None))
