"""The answer: each layer's time as an interval, what limits it, how full the chip is, and why."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from ridgeline.chips.sheet import Chip
from ridgeline.workload.layer import Layer, Workload

Basis = Literal["this chip", "its class", "attained fractions"]
"""Constants fitted on this chip, on others of its class, or fractions that others attained."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds: 85 of 100 lie between `low` and `high`, half of them below `likely`."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Interval) -> Interval:
        """The sum of times whose errors go together, so that it is not too narrow."""
        return Interval(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def scaled(self, low: float, high: float) -> Interval:
        return Interval(self.likely * low, self.likely, self.likely * high)


NOTHING = Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Part:
    """What one resource of the chip takes for a layer.

    `resource` is "compute", "vector", "launch", "host link" or a memory's name, for which `bytes`
    are those that pass through it.
    """

    resource: str
    seconds: float
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer on one chip.

    `limit` is the resource that takes longest. `utilisation` is the layer's operations over those
    of the dense peak in the likely time (None: the layer multiplies nothing, or an unknown
    number), `cause` why it is below 1, and `cure_batch` the least batch at which that cause is
    gone (None: none up to 4,096 times as large cures it, as far as the memory holds them).
    """

    layer: Layer
    seconds: Interval
    limit: str
    parts: tuple[Part, ...]
    utilisation: float | None
    cause: str
    cure_batch: int | None = None

    def part(self, resource: str) -> Part | None:
        return next((p for p in self.parts if p.resource == resource), None)


@dataclass(frozen=True, slots=True)
class Bound:
    """A workload on a chip in one precision. `resident` says whether weights stay on chip.

    `peak_operations_per_s` is the dense peak that the precision is multiplied at.
    """

    workload: Workload
    chip: Chip
    precision: str
    peak_operations_per_s: float
    layers: tuple[LayerTime, ...]
    seconds: Interval
    basis: Basis
    resident: bool
    notes: tuple[str, ...] = ()

    @property
    def batch(self) -> int:
        return self.workload.batch

    @property
    def utilisation(self) -> float | None:
        """Operations of all layers over those of the dense peak in the likely time."""
        operations = self.workload.operations
        if operations is None or not self.seconds.likely:
            return None
        return operations / (self.seconds.likely * self.peak_operations_per_s)

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.seconds.likely if self.seconds.likely else inf
