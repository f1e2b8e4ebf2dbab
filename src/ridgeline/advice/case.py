"""A model on a chip, and what a change to one of them does to its time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import hypot
from typing import Literal

from ridgeline.advice.sparsity import sparse_chip, sparse_weights
from ridgeline.chips.sheet import Chip
from ridgeline.roofline.bound import NOTHING, Bound, Interval
from ridgeline.roofline.estimate import bound_of
from ridgeline.roofline.roof import format_constants
from ridgeline.workload.layer import Workload

Kind = Literal["fusion", "precision", "batch", "channels", "on chip", "sparsity", "machine"]
Verdict = Literal["helps", "no gain", "slower", "not possible"]
GAIN = 0.005
"""Of the time: what changes it by less is no gain."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is costed. `sparse`: weights of products are 2:4, multiplied at the sparse peak."""

    workload: Workload
    chip: Chip
    precision: str
    sparse: bool = False

    def bound(self) -> Bound:
        """Its time. Raises RidgelineError where it has none."""
        if not self.sparse:
            return bound_of(self.workload, self.chip, self.precision)
        workload = sparse_weights(self.workload, self.precision)
        dense = bound_of(workload, self.chip, self.precision)
        fast = bound_of(workload, sparse_chip(self.chip), self.precision)
        # Only products with stored weights have zeros to skip.
        layers = tuple(
            b if a.layer.kind == "product" and a.layer.weight_bytes else a
            for a, b in zip(dense.layers, fast.layers, strict=True)
        )
        seconds = reduce(Interval.__add__, (one.seconds for one in layers), NOTHING)
        return replace(dense, layers=layers, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to do: `after` is the case with it done, `check` how to see that it is so."""

    kind: Kind
    name: str
    after: Case
    check: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A change and its predicted effect on one sample. Seconds; `saved` may be below 0.

    `latency` is of a whole run after it. `bound` is None where it is not possible, and `reason`
    then says why.
    """

    change: Change
    verdict: Verdict
    saved: Interval
    share: float
    latency: Interval
    bound: Bound | None = None
    reason: str = ""


def advice(before: Bound, change: Change, after: Bound) -> Advice:
    """What a change saved of a sample's time, by both costed."""
    was = per_sample(before.seconds, before.batch)
    now = per_sample(after.seconds, after.batch)
    apart = format_constants(before.precision) != format_constants(after.precision)
    saved = difference(was, now, apart or before.basis != after.basis)
    share = saved.likely / was.likely if was.likely else 0.0
    verdict: Verdict = "helps" if share >= GAIN else "slower" if share <= -GAIN else "no gain"
    return Advice(change, verdict, saved, share, after.seconds, after)


def per_sample(time: Interval, batch: int) -> Interval:
    return Interval(time.low / batch, time.likely / batch, time.high / batch)


def difference(was: Interval, now: Interval, apart: bool) -> Interval:
    """`was` less `now`. Errors go together, being of one model's constants, unless `apart`."""
    likely = was.likely - now.likely
    if not apart:
        ends = (was.low - now.low, likely, was.high - now.high)
        return Interval(min(ends), likely, max(ends))
    less = hypot(was.likely - was.low, now.high - now.likely)
    more = hypot(was.high - was.likely, now.likely - now.low)
    return Interval(likely - less, likely, likely + more)
