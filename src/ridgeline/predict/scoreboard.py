"""Published figures of whole models beside what is predicted of chips left out of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from statistics import median

from ridgeline.predict.systems import LEAST_CHIPS, half_log_width, held_out_seconds, systems
from ridgeline.predict.whole_models import Figure, figures


@dataclass(frozen=True, slots=True)
class Score:
    """One figure. Times are of one run; None, with `refused` as the reason, is no prediction.

    Predicted by constants fitted without this chip; the interval by other chips' errors alone.
    """

    figure: Figure
    refused: str
    seconds: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None

    @property
    def scored(self) -> bool:
        return self.seconds is not None

    @property
    def error(self) -> float:
        """Absolute error as part of the measured time."""
        assert self.seconds is not None
        assert self.figure.seconds is not None
        return abs(self.seconds / self.figure.seconds - 1)

    @property
    def inside(self) -> bool:
        assert self.low_seconds is not None
        assert self.high_seconds is not None
        assert self.figure.seconds is not None
        return self.low_seconds <= self.figure.seconds <= self.high_seconds

    @property
    def half_width(self) -> float:
        """Half of the interval, as part of the predicted time."""
        assert self.low_seconds is not None
        assert self.high_seconds is not None
        assert self.seconds is not None
        return (self.high_seconds - self.low_seconds) / 2 / self.seconds


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the figures of one class and software, or of all: what the bars are about."""

    group: str
    figures: int
    chips: int
    median_error: float
    mean_error: float
    covered: float
    half_width: float


def scores() -> list[Score]:
    """All figures that are kept, in order."""
    return [_score(one) for one in figures()]


def _score(one: Figure) -> Score:
    if one.work is None:
        return Score(one, one.refused)
    if len(systems()[one.group].chips) < LEAST_CHIPS:
        return Score(one, f"fewer than {LEAST_CHIPS} chips were measured with this software")
    seconds, width = held_out_seconds(one), half_log_width(one.group, one.chip)
    assert seconds is not None
    assert width is not None
    return Score(one, "", seconds, seconds * exp(-width), seconds * exp(width))


def summaries(found: list[Score]) -> list[Summary]:
    """One of each class and software, then one of all."""
    scored = [one for one in found if one.scored]
    groups = dict.fromkeys(one.figure.group for one in scored)
    each = [_summary(g, [one for one in scored if one.figure.group == g]) for g in groups]
    return [*each, _summary("all", scored)]


def _summary(group: str, scored: list[Score]) -> Summary:
    errors = [one.error for one in scored]
    return Summary(
        group=group,
        figures=len(scored),
        chips=len({one.figure.chip for one in scored}),
        median_error=median(errors),
        mean_error=sum(errors) / len(errors),
        covered=sum(one.inside for one in scored) / len(scored),
        half_width=median(one.half_width for one in scored),
    )
