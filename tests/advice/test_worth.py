"""Whether a build is worth it: closed forms, the two cases that the tool must get right, faults."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline.advice.worth import EFFORTS, Option, Plan, compare
from ridgeline.roofline.bound import Interval

EXACT = Interval(1e-4, 1e-4, 1e-4)
SPREAD = Interval(2e-4, 4e-4, 9e-4)


def build(unit: float = 20.0, **changed: object) -> Option:
    effort = EFFORTS["fpga"]
    made = Option(
        *("core", "fpga", True, EXACT, 1e-5, unit),
        *(effort.first_usd, effort.change_usd, effort.change_days),
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def chip(unit: float = 300.0, kind: str = "gpu", **changed: object) -> Option:
    effort = EFFORTS[kind]
    made = Option(
        *("chip", kind, False, SPREAD, 5e-3, unit),
        *(effort.first_usd, effort.change_usd, effort.change_days),
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def test_high_volume_a_fixed_model_and_a_bounded_latency_are_for_an_fpga() -> None:
    plan = Plan(100_000, 5.0, 0.0, latency_seconds=1e-3, guaranteed=True)
    verdict = compare([build(), chip()], plan)
    assert verdict.worth is True
    # Also without the guarantee, for which the chip would do: by cost alone.
    assert compare([build(), chip()], replace(plan, guaranteed=False)).worth is True


def test_a_model_that_changes_every_quarter_is_not() -> None:
    plan = Plan(500, 5.0, 4.0, latency_seconds=1e-3)
    verdict = compare([build(), chip()], plan)
    assert verdict.worth is False
    assert verdict.chosen is not None
    assert verdict.chosen.name == "chip"


def test_hardware_that_is_changed_slower_than_its_model_will_not_do_at_any_volume() -> None:
    plan = Plan(10_000_000, 5.0, 4.0)
    slow = build(change_days=100)
    (judged, _) = compare([slow, chip()], plan).judged
    assert judged.faults == ("a change takes 100 days, and the model changes every 91.3",)
    assert compare([slow, chip()], plan).worth is False


@given(
    st.floats(1, 1000), st.floats(1, 5000), st.floats(0, 12), st.floats(0.5, 20),
    st.floats(0, 1000), st.floats(0, 1),
)  # fmt: skip
def test_break_even_is_where_the_costs_are_equal(
    cheap: float, dear: float, changes: float, years: float, rate: float, kwh: float
) -> None:
    """At the turning points the totals are the same; beside them the cheaper one changes."""
    options = [build(cheap), chip(dear)]
    plan = Plan(1000, years, changes, inferences_per_s=rate, usd_per_kwh=kwh)
    (turning,) = compare(options, plan).turnings

    def lead(at: Plan) -> float:
        first, second = (one.total_usd for one in compare(options, at).judged)
        assert first is not None
        assert second is not None
        return (first - second) / max(abs(first), abs(second))

    if turning.units:
        there = replace(plan, units=turning.units)  # a number of units need not be whole here
        assert lead(there) == pytest.approx(0, abs=1e-9)
        assert lead(replace(plan, units=2 * turning.units)) < 0 < lead(replace(plan, units=0))
    if turning.changes_per_year is not None:
        there = replace(plan, changes_per_year=turning.changes_per_year)
        assert lead(there) == pytest.approx(0, abs=1e-9)
        assert lead(replace(plan, changes_per_year=turning.changes_per_year + 1)) > 0


def test_break_even_by_hand() -> None:
    """(100,000 - 10,000) of development over 300 - 30 a unit: 333.3 units."""
    options = [
        build(30.0, first_usd=100_000, change_usd=20_000),
        chip(300.0, first_usd=10_000, change_usd=2_000),
    ]
    (turning,) = compare(options, Plan(1000, 5.0, 0.0)).turnings
    assert turning.units == pytest.approx(90_000 / 270)
    # (1,000 x 270 - 90,000) over 5 years x 18,000 a change: 2 changes a year.
    assert turning.changes_per_year == pytest.approx(2.0)


def test_energy_of_a_life() -> None:
    """5 mJ a hundred times a second for a year at 0.30 a kWh: 1.31 dollars."""
    plan = Plan(1, 1.0, 0.0, inferences_per_s=100, usd_per_kwh=0.3)
    (judged,) = compare([chip()], plan).judged
    assert judged.energy_usd_per_unit == pytest.approx(5e-3 * 100 * 31_557_600 / 3.6e6 * 0.3)
    unknown = chip(joules=None)
    assert compare([unknown], plan).judged[0].total_usd is None
    assert compare([unknown], replace(plan, usd_per_kwh=0.0)).judged[0].total_usd is not None


@pytest.mark.parametrize(
    ("plan", "faults"),
    [
        (Plan(1, 1.0, 0.0, 3e-4), ("too slow",)),
        (
            Plan(1, 1.0, 0.0, 5e-4, guaranteed=True),
            ("its latency is a distribution, and the limit must always hold",),
        ),
        (Plan(1, 1.0, 0.0, 5e-4), ()),
        (Plan(1, 1.0, 0.0, inferences_per_s=3000), ("one unit does not keep up with the rate",)),
    ],
)
def test_faults_of_a_chip(plan: Plan, faults: tuple[str, ...]) -> None:
    assert compare([chip()], plan).judged[0].faults == faults


def test_without_a_price_there_is_no_answer() -> None:
    verdict = compare([build(), chip(unit_usd=None)], Plan(1000, 5.0, 0.0))
    assert verdict.worth is None
    assert verdict.unpriced == ("chip",)
    assert not verdict.turnings[0].priced


@given(st.floats(0, 12), st.integers(1, 10**6))
def test_more_units_never_speak_against_a_build_that_is_cheaper_a_unit(
    changes: float, units: int
) -> None:
    options, plan = [build(20.0), chip(300.0)], Plan(units, 5.0, changes)
    now, later = compare(options, plan), compare(options, replace(plan, units=2 * units))
    assume(now.worth)
    assert later.worth
