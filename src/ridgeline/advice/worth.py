"""Whether hardware of one's own is worth it: a build beside chips to buy, by their whole cost.

A build is developed once, changed with the model, and then cheap for each unit; a chip is ready and
paid for with every unit. Which is cheaper is a straight line in the number of units, and another in
the changes a year, so both turning points are closed forms. All money is US dollars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ridgeline.roofline.bound import Interval

BUILDS = ("fpga", "fixed")
"""Kinds that are developed as hardware."""

DAYS_A_YEAR = 365.25
JOULES_A_KWH = 3.6e6
PERSON_MONTH_USD = 155_020 / 0.70 / 12
PERSON_MONTH_SOURCE = (
    "median wage of computer hardware engineers, USD 155,020 a year (US Bureau of Labor Statistics,"
    " May 2024), of which wages are 70 % of what an employer pays (its Employer Costs)"
)


@dataclass(frozen=True, slots=True)
class Effort:
    """What a kind of hardware takes: person-months for the first version and for each change of the
    model, days until a change runs, and outlays besides (masks, tools) for each.
    """

    first_months: float
    change_months: float
    change_days: float
    first_outlay_usd: float = 0.0
    change_outlay_usd: float = 0.0

    @property
    def first_usd(self) -> float:
        return self.first_months * PERSON_MONTH_USD + self.first_outlay_usd

    @property
    def change_usd(self) -> float:
        return self.change_months * PERSON_MONTH_USD + self.change_outlay_usd


EFFORTS: dict[str, Effort] = {
    "fixed": Effort(60, 24, 270, 2_000_000, 1_000_000),
    "fpga": Effort(12, 3, 45),
    "npu": Effort(3, 1, 15),
    "gpu": Effort(1, 0.25, 5),
    "cpu": Effort(0.5, 0.1, 2),
}
EFFORT_SOURCE = "assumed: orders of magnitude; give your own with --develop, --change and --days"
"""No source states these for all kinds alike."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the model. `seconds` of one inference are the same for each of them where
    `exact` (all three alike), else an interval. `joules` of one and `unit_usd` may be unknown.
    """

    name: str
    kind: str
    exact: bool
    seconds: Interval
    joules: float | None
    unit_usd: float | None
    first_usd: float
    change_usd: float
    change_days: float

    @property
    def is_build(self) -> bool:
        return self.kind in BUILDS


@dataclass(frozen=True, slots=True)
class Plan:
    """What is wanted: `units` sold or installed, each used for `years` at `inferences_per_s` on
    average; `guaranteed`: the latency must hold for every inference, not for most.
    """

    units: int
    years: float
    changes_per_year: float
    latency_seconds: float | None = None
    guaranteed: bool = False
    inferences_per_s: float = 0.0
    usd_per_kwh: float = 0.0

    @property
    def changes(self) -> float:
        return self.changes_per_year * self.years

    @property
    def days_between_changes(self) -> float:
        return DAYS_A_YEAR / self.changes_per_year if self.changes_per_year else inf


@dataclass(frozen=True, slots=True)
class Judged:
    """One option: why it will not do (none: it will), and what it costs in all (None: unknown)."""

    option: Option
    faults: tuple[str, ...]
    fixed_usd: float
    energy_usd_per_unit: float | None
    total_usd: float | None

    @property
    def usd_per_unit(self) -> float | None:
        """What one more unit adds: its price and the energy of its life."""
        if self.option.unit_usd is None or self.energy_usd_per_unit is None:
            return None
        return self.option.unit_usd + self.energy_usd_per_unit


@dataclass(frozen=True, slots=True)
class Turning:
    """Where a build and a chip cost the same: units at these changes a year, and changes a year at
    these units; None where no number does it, or nobody knows (`priced`).
    """

    build: str
    chip: str
    priced: bool
    units: float | None
    changes_per_year: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`chosen`: the cheapest of those that will do, if all of them have a price. `unpriced`: those
    that will do and have none.
    """

    judged: tuple[Judged, ...]
    chosen: Option | None
    unpriced: tuple[str, ...]
    turnings: tuple[Turning, ...]

    @property
    def worth(self) -> bool | None:
        """Whether to build hardware; None where nothing will do or a price is missing."""
        return None if self.chosen is None else self.chosen.is_build


def compare(options: Sequence[Option], plan: Plan) -> Verdict:
    """Judge the options by the plan."""
    judged = tuple(_judge(option, plan) for option in options)
    able = [one for one in judged if not one.faults]
    unpriced = tuple(one.option.name for one in able if one.total_usd is None)
    priced = [(one.total_usd, one.option) for one in able if one.total_usd is not None]
    chosen = min(priced, key=lambda pair: pair[0])[1] if priced and not unpriced else None
    turnings = tuple(
        _turning(build, chip, plan)
        for build in judged
        for chip in judged
        if build.option.is_build and not chip.option.is_build
    )
    return Verdict(judged, chosen, unpriced, turnings)


def _judge(option: Option, plan: Plan) -> Judged:
    fixed = option.first_usd + plan.changes * option.change_usd
    energy = _energy_usd(option, plan)
    total = None
    if option.unit_usd is not None and energy is not None:
        total = fixed + plan.units * (option.unit_usd + energy)
    return Judged(option, tuple(_faults(option, plan)), fixed, energy, total)


def _energy_usd(option: Option, plan: Plan) -> float | None:
    """Of one unit's life; nothing where nobody asks for it."""
    if not plan.usd_per_kwh or not plan.inferences_per_s:
        return 0.0
    if option.joules is None:
        return None
    inferences = plan.inferences_per_s * plan.years * DAYS_A_YEAR * 86_400
    return option.joules * inferences / JOULES_A_KWH * plan.usd_per_kwh


def _faults(option: Option, plan: Plan) -> list[str]:
    found: list[str] = []
    limit = plan.latency_seconds
    if limit is not None and option.seconds.likely > limit:
        found.append("too slow")
    elif limit is not None and plan.guaranteed and not option.exact:
        found.append("its latency is a distribution, and the limit must always hold")
    if option.seconds.likely * plan.inferences_per_s > 1:
        found.append("one unit does not keep up with the rate")
    if option.change_days >= plan.days_between_changes:
        found.append(
            f"a change takes {option.change_days:,.3g} days, and the model changes every"
            f" {plan.days_between_changes:,.3g}"
        )
    return found


def _turning(build: Judged, chip: Judged, plan: Plan) -> Turning:
    names = (build.option.name, chip.option.name)
    more, less = chip.usd_per_unit, build.usd_per_unit
    if more is None or less is None:
        return Turning(*names, False, None, None)
    first = build.fixed_usd - chip.fixed_usd
    saved = more - less
    units = first / saved if saved > 0 and first > 0 else 0.0 if first <= 0 and saved > 0 else None
    dearer = build.option.change_usd - chip.option.change_usd
    room = plan.units * saved - (build.option.first_usd - chip.option.first_usd)
    changes = room / (plan.years * dearer) if dearer > 0 and room >= 0 else None
    return Turning(*names, True, units, changes)
