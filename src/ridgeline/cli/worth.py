"""`ridgeline worth`: hardware of one's own beside chips to buy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from ridgeline import api
from ridgeline.advice.worth import BUILDS, EFFORTS, Option, Plan, compare
from ridgeline.chips.loader import find, load_chip
from ridgeline.cli.model import parse_shapes, prepare, read_graph
from ridgeline.cli.outputs import say
from ridgeline.cli.show import stage, terminal_width
from ridgeline.errors import RidgelineError
from ridgeline.predict.demand import seconds_of
from ridgeline.quant.recipe import Recipe
from ridgeline.render import worth as render
from ridgeline.roofline.bound import Interval
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.roof import usual_precision
from ridgeline.workload.read import read_workloads

MOST = 1e15


@dataclass(frozen=True, slots=True)
class WorthOptions:
    """The options of `ridgeline worth`, as the command line has them."""

    model: Path
    build: str
    kind: str
    settings: tuple[str, ...]
    chips: tuple[str, ...]
    precision: str | None
    shapes: tuple[str, ...]
    units: int
    years: float
    changes: float
    latency: str | None
    guaranteed: bool
    rate: float
    kwh: float
    unit: tuple[str, ...]
    develop: tuple[str, ...]
    change: tuple[str, ...]
    days: tuple[str, ...]
    joules: tuple[str, ...]
    json: bool


@dataclass(frozen=True, slots=True)
class _Given:
    """The user's own figures, by option and name."""

    unit: dict[str, float]
    develop: dict[str, float]
    change: dict[str, float]
    days: dict[str, float]
    joules: dict[str, float]


def show_worth(options: WorthOptions) -> None:
    """Compare and print. Raises RidgelineError naming the option at fault."""
    plan = _plan(options)
    machine = api.load_machine(options.build, options.settings)
    names = [find(name) if not name.endswith(".toml") else name for name in options.chips]
    chips = {chip.name: chip for chip in map(load_chip, names)}
    if not chips:
        raise RidgelineError(
            "needs a chip to compare with", where="worth", fix="Name one or more with --chip"
        )
    given = _given(options, [machine.name, *chips])
    shapes = parse_shapes(options.shapes)
    graph = prepare(read_graph(options.model, shapes, None), Recipe(), None, None).graph
    with stage("compiling"):
        program = api.compile(graph, machine)
        report = api.report(program, api.simulate(program))
    exact = Interval(report.seconds, report.seconds, report.seconds)
    drawn = report.energy_joules
    found = [_option(machine.name, options.kind, exact, drawn, given, exact=True)]
    (workload,) = read_workloads(options.model, (None,), shapes)
    for chip in chips.values():
        bound = bound_of(workload, chip, options.precision or usual_precision(chip))
        power = chip.tdp.value if chip.tdp is not None else None
        joules = power * bound.seconds.likely if power is not None else None
        kind = _kind(chip.chip_class)
        found.append(_option(chip.name, kind, bound.seconds, joules, given, exact=False))
    verdict = compare(found, plan)
    if options.json:
        say(json.dumps(render.worth_as_json(options.model.stem, plan, verdict), indent=2))
        return
    named = {one.name for one in found}
    assumed = any(set(x) != named for x in (given.develop, given.change, given.days))
    say(render.worth(options.model.stem, plan, verdict, assumed, terminal_width()))


def _kind(chip_class: str) -> str:
    """Whose effort a class of the catalogue takes: what has its own compiler is like an NPU."""
    return chip_class if chip_class in ("gpu", "cpu", "fpga") else "npu"


def _option(
    name: str, kind: str, seconds: Interval, joules: float | None, given: _Given, *, exact: bool
) -> Option:
    effort = EFFORTS[kind]
    return Option(
        name=name,
        kind=kind,
        exact=exact,
        seconds=seconds,
        joules=given.joules.get(name, joules),
        unit_usd=given.unit.get(name),
        first_usd=given.develop.get(name, effort.first_usd),
        change_usd=given.change.get(name, effort.change_usd),
        change_days=given.days.get(name, effort.change_days),
    )


def _plan(options: WorthOptions) -> Plan:
    _above("--units", options.units)
    _above("--years", options.years)
    for option, value in (
        ("--changes", options.changes),
        ("--rate", options.rate),
        ("--kwh", options.kwh),
    ):
        if not (0 <= value <= MOST):
            raise RidgelineError(f"is {value:g}", where=option, fix="Give a number from 0 on")
    if options.kind not in BUILDS:
        raise RidgelineError(
            f"there is no kind of build '{options.kind}'",
            where="--kind",
            fix=f"Known: {', '.join(BUILDS)}",
        )
    limit = seconds_of(options.latency) if options.latency is not None else None
    if options.guaranteed and limit is None:
        raise RidgelineError(
            "needs a latency to hold", where="--guaranteed", fix="Give it with --latency 10ms"
        )
    if options.kwh and not options.rate:
        raise RidgelineError(
            "needs how often a unit works",
            where="--kwh",
            fix="Give inferences a second with --rate",
        )
    return Plan(
        *(options.units, options.years, options.changes, limit, options.guaranteed),
        *(options.rate, options.kwh),
    )


def _above(option: str, value: float) -> None:
    if not (isfinite(value) and 0 < value <= MOST):
        raise RidgelineError(f"is {value:g}", where=option, fix="Give a number above 0")


def _given(options: WorthOptions, names: Sequence[str]) -> _Given:
    if len(set(names)) < len(names):
        raise RidgelineError(
            f"'{names[0]}' names both the machine and a chip", where="--chip", fix="Leave one out"
        )
    return _Given(
        _figures("--unit", options.unit, names),
        _figures("--develop", options.develop, names),
        _figures("--change", options.change, names),
        _figures("--days", options.days, names),
        _figures("--joules", options.joules, names),
    )


def _figures(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """NAME=NUMBER, by the name of the machine or of a chip that is compared."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not equals or not 0 <= value <= MOST:
            raise RidgelineError(
                f"'{text}' is not NAME=NUMBER", where=option, fix=f"For example: {names[0]}=40"
            )
        known = [one for one in names if one == name.strip()]
        if not known:
            raise RidgelineError(
                f"'{name}' is not compared here", where=option, fix=f"Compared: {', '.join(names)}"
            )
        if name.strip() in found:
            raise RidgelineError(f"'{name}' is given twice", where=option, fix="Give it once")
        found[name.strip()] = value
    return found
