"""The time of whole models on a chip: constants of its class and software, and how far off.

A class is known as far as other chips of it were measured: the interval around a time is what
leaving out a chip showed, and a chip of a class that nobody measured has its least time only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import ceil, exp, log
from typing import Any, Literal

from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.predict.whole_models import Figure, class_of, figures
from ridgeline.predict.work import Constants, Parts, Rates, Work, parts, rates_of, roofline_seconds

LEVEL = 0.85
"""Part of figures of a chip left out that the interval is to hold."""
LEAST_CHIPS = 3
"""With fewer, constants without a chip are those of one other, and say nothing of a class."""
SOFTWARE = {"token": ("compiled", "llama.cpp"), "sample": ("TensorRT", "ncnn")}
"""Which is taken for a chip whose software is not said: the fastest that its class has."""
Basis = Literal["this chip", "its class", "roofline only"]


@dataclass(frozen=True, slots=True)
class System:
    """A class of chips under one kind of software: constants on all of its chips, and without."""

    name: str
    constants: Constants
    without: dict[str, Constants]
    chips: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The time of one run: 85 of 100 lie between `low_seconds` and `high_seconds`.

    On a class that nobody measured, `low_seconds` is the least time, and the others are unknown.
    """

    low_seconds: float
    seconds: float | None
    high_seconds: float | None
    roofline_seconds: float
    side: str
    basis: Basis
    system: str
    parts: Parts | None
    rates: Rates


@cache
def systems() -> dict[str, System]:
    """Every class and software with measured figures."""
    path = resources.files("ridgeline.predict") / "data" / "systems.toml"
    data: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    chips: dict[str, dict[str, None]] = {}
    for one in figures():
        if one.work is not None:
            chips.setdefault(one.group, {})[one.chip] = None
    return {
        name: System(
            name=name,
            constants=Constants(**table["constants"]),
            without={c: Constants(**values) for c, values in table.get("without", {}).items()},
            chips=tuple(chips[name]),
        )
        for name, table in data.items()
    }


def held_out_seconds(one: Figure) -> float | None:
    """What the figure's chip is predicted to take by constants fitted without it."""
    system = systems()[one.group]
    if one.work is None or one.chip not in system.without:
        return None
    rates = rates_of(load_chip(one.chip), one.work.peaks)
    return parts(one.work, rates, system.without[one.chip]).seconds


@cache
def _log_ratios(name: str) -> tuple[tuple[str, float], ...]:
    """(chip, log of measured over predicted) of each figure of a system, its chip left out."""
    found: list[tuple[str, float]] = []
    for one in figures():
        if one.work is None or one.group != name or one.seconds is None:
            continue
        seconds = held_out_seconds(one)
        if seconds is not None:
            found.append((one.chip, log(one.seconds / seconds)))
    return tuple(found)


def half_log_width(name: str, but: str | None = None) -> float | None:
    """Half of the interval's width in logarithms, by figures of all chips `but` one."""
    return _level(abs(ratio) for chip, ratio in _log_ratios(name) if chip != but)


def _level(sizes: Iterable[float]) -> float | None:
    """The size that LEVEL of n + 1 lie within, as of one more than those seen."""
    ordered = sorted(sizes)
    if not ordered:
        return None
    return ordered[min(ceil((len(ordered) + 1) * LEVEL), len(ordered)) - 1]


def system_of(chip: Chip, work: Work) -> System | None:
    """The class of the chip with the software that suits the work; None if none was measured.

    Fewer chips than make a class say something of themselves only.
    """
    for software in SOFTWARE[work.per]:
        found = systems().get(f"{class_of(chip)}, {software}")
        if found is None or not found.without:
            continue
        if chip.name in found.chips or len(found.chips) >= LEAST_CHIPS:
            return found
    return None


def estimate(work: Work, chip: Chip) -> Estimate:
    """The time of one run on a chip, as an interval.

    Raises RidgelineError for a chip without such a peak or without a known rate of memory.
    """
    rates = rates_of(chip, work.peaks)
    least = roofline_seconds(work, rates)
    system = system_of(chip, work)
    width = half_log_width(system.name) if system else None
    if system is None or width is None:
        memory = work.operations / rates.operations_per_s < least
        side = "memory" if memory else "compute"
        return Estimate(least, None, None, least, side, "roofline only", "", None, rates)
    made = parts(work, rates, system.constants)
    seconds = max(made.seconds, least)
    basis: Basis = "this chip" if chip.name in system.chips else "its class"
    low, high = max(seconds * exp(-width), least), seconds * exp(width)
    return Estimate(low, seconds, high, least, made.side, basis, system.name, made, rates)
