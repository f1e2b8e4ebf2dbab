"""Two reports side by side: which figures and which layers changed, and conditions on that.

Reports are plain data as their JSON holds them, so that files of different versions compare: a
figure that only one of them has is unknown in the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign, inf
from typing import Any, cast

from ridgeline.errors import RidgelineError, did_you_mean

Json = Mapping[str, Any]

_NOT_SUMS = ("time", "balance")
"""Columns whose total says nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """A figure, or a layer's cycles, before and after; None where it is not known."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        """After less before; what is not known counts as nothing."""
        return (self.after or 0) - (self.before or 0)

    @property
    def share(self) -> float:
        """The difference as a fraction of what was before; infinite from nothing."""
        if not self.difference:
            return 0.0
        return self.difference / abs(self.before) if self.before else copysign(inf, self.difference)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one report to another. `figures` holds all, changed or not.

    `context` holds what makes the two less comparable: another model, machine or batch.
    """

    title: str
    context: tuple[str, ...]
    figures: tuple[Change, ...]
    layers: tuple[Change, ...]

    def figure(self, name: str) -> Change:
        """The figure of this name. Raises RidgelineError with the names near to it."""
        for change in self.figures:
            if change.name == name:
                return change
        known = [change.name for change in self.figures]
        raise RidgelineError(
            f"there is no figure '{name}'", where="--fail-if", fix=did_you_mean(name, known)
        )


def compare(before: Json, after: Json) -> Comparison:
    """The comparison of two reports that follow the schema."""
    first, second = _figures(before), _figures(after)
    names = [*first, *(name for name in second if name not in first)]
    cycles, later = _layer_cycles(before), _layer_cycles(after)
    layers = [*cycles, *(layer for layer in later if layer not in cycles)]
    return Comparison(
        title=f"{after['model']} on {after['machine']['name']}",
        context=tuple(_context(before, after)),
        figures=tuple(Change(name, first.get(name), second.get(name)) for name in names),
        layers=tuple(
            Change(_label(layer), cycles.get(layer), later.get(layer)) for layer in layers
        ),
    )


def _figures(report: Json) -> dict[str, float]:
    """The numbers of the whole run, those of its total, its ledger, and the accuracy."""
    total = cast(Json, report["total"])
    found = {key: value for key, value in report.items() if _is_number(value)}
    for key, value in total.items():
        if _is_number(value) and key not in _NOT_SUMS:
            found.setdefault(key, value)
    for name, cycles in total["ledger_cycles"].items():
        found["ledger_" + re.sub("[ -]", "_", name)] = cycles
    accuracy = report.get("accuracy")
    if accuracy:
        found["accuracy"] = accuracy["quantised_right"] / accuracy["images"]
    found["host_layers"] = sum(layer["placed"] == "host" for layer in report["layers"])
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _layer_cycles(report: Json) -> dict[tuple[str, int], float]:
    """Cycles by name, and by which layer of that name it is."""
    found: dict[tuple[str, int], float] = {}
    seen: dict[str, int] = {}
    for layer in report["layers"]:
        count = seen.get(layer["layer"], 0)
        seen[layer["layer"]] = count + 1
        found[layer["layer"], count] = layer["cycles"]
    return found


def _label(layer: tuple[str, int]) -> str:
    name, count = layer
    return f"{name} #{count + 1}" if count else name


def _context(before: Json, after: Json) -> list[str]:
    pairs = [
        ("model", before["model"], after["model"]),
        ("machine", before["machine"]["name"], after["machine"]["name"]),
        ("batch", before["batch"], after["batch"]),
    ]
    found = [f"{what}: {one} before, {two} after" for what, one, two in pairs if one != two]
    if not found and before["machine"] != after["machine"]:
        found.append(f"machine: {after['machine']['name']}, with other figures than before")
    return found


_CONDITION = re.compile(r"(\w+)\s*([<>])\s*([+-]?)(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit: with a sign on the change (`cycles>+2%`, `cycles>+500`), without on the value."""

    text: str
    figure: str
    above: bool
    amount: float
    of: str
    """"share", "difference" or "value"."""

    def holds(self, comparison: Comparison) -> bool:
        """Whether the figure is beyond the limit. Raises RidgelineError if it is not known."""
        change = comparison.figure(self.figure)
        if change.after is None or (self.of != "value" and change.before is None):
            side = "after" if change.after is None else "before"
            raise RidgelineError(
                f"'{self.figure}' is not known {side}", where=f"--fail-if {self.text}"
            )
        value = {"share": change.share, "difference": change.difference, "value": change.after}
        return value[self.of] > self.amount if self.above else value[self.of] < self.amount


def read_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions that these texts state. Raises RidgelineError for one that states none."""
    return tuple(_condition(text) for text in texts)


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text.strip())
    if found is None or (found[5] and not found[3]):
        raise RidgelineError(
            f"'{text}' is no condition",
            where="--fail-if",
            fix="Write one such as cycles>+2%, accuracy<-0.01 or cycles>100000",
        )
    name, sign, direction, number, percent = found[1], found[2], found[3], found[4], found[5]
    amount = float(direction + number) / (100 if percent else 1)
    of = "share" if percent else "difference" if direction else "value"
    return Condition(text, name, sign == ">", amount, of)
