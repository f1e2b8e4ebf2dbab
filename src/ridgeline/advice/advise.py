"""Every change costed again by the model that costed the case, ranked by what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.advice.case import GAIN, Advice, Case, Change, advice
from ridgeline.advice.changes import FIGURES, MORE, changes
from ridgeline.advice.sparsity import check_sparse
from ridgeline.errors import RidgelineError
from ridgeline.roofline.bound import NOTHING, Bound, LayerTime
from ridgeline.workload.layer import Workload

EXPLAINED = 3


@dataclass(frozen=True, slots=True)
class LayerAdvice:
    """One of the layers that take longest. Shares are of its own time, of one sample.

    `best` saves the most of it; `idle` is a change of the chip that gains nothing, or least.
    """

    time: LayerTime
    share: float
    best: str
    best_share: float
    idle: str
    idle_share: float


@dataclass(frozen=True, slots=True)
class Advised:
    """A model on a chip with what would help: `advice` with the most saved first.

    `held` is what the estimate counts on already: without it the time would be longer by so much.
    """

    bound: Bound
    advice: tuple[Advice, ...]
    held: tuple[Advice, ...]
    layers: tuple[LayerAdvice, ...]


def advise_on(case: Case, unfused: Workload | None, model: str, target: str) -> Advised:
    """All changes of `changes` tried on a case; `model` and `target` stand in commands.

    `unfused` is the workload node by node, where it is known. Raises RidgelineError where the case
    itself has no time.
    """
    before = case.bound()
    found = [_tried(before, case, change) for change in changes(case, model, target)]
    found.sort(key=lambda one: (one.verdict == "not possible", -one.saved.likely))
    held = tuple(_held(before, case, unfused))
    return Advised(before, tuple(found), held, tuple(_layers(before, found)))


def _tried(before: Bound, case: Case, change: Change) -> Advice:
    try:
        if change.after.sparse:
            check_sparse(case.chip, case.precision)
        return advice(before, change, change.after.bound())
    except RidgelineError as error:
        return Advice(change, "not possible", NOTHING, 0.0, NOTHING, None, error.what)


def _held(before: Bound, case: Case, unfused: Workload | None) -> list[Advice]:
    """What is assumed to be done, undone and costed: `saved` is what doing it saves."""
    found: list[Advice] = []
    if unfused is not None and len(unfused.layers) > len(case.workload.layers):
        without = Case(unfused, case.chip, case.precision)
        nodes, kernels = len(unfused.layers), len(case.workload.layers)
        name = f"{nodes:,} nodes fused into {kernels:,} layers"
        check = f"a profile shows {kernels:,} kernels, not {nodes:,}"
        made = Change("fusion", name, case, check)
        found.append(advice(without.bound(), made, before))
    return found


def _layers(before: Bound, found: Sequence[Advice]) -> list[LayerAdvice]:
    """Of the layers that take longest: what helps most, and what of the chip gains nothing."""
    order = sorted(range(len(before.layers)), key=lambda i: -before.layers[i].seconds.likely)
    made: list[LayerAdvice] = []
    for place in order[:EXPLAINED]:
        one = before.layers[place]
        gains = {
            a.change.name: _gain(before, a.bound, place)
            for a in found
            if a.bound is not None and len(a.bound.layers) == len(before.layers)
        }
        if not gains or not before.seconds.likely:
            continue
        best = max(gains, key=lambda name: gains[name])
        idle = _idle(gains)
        share = one.seconds.likely / before.seconds.likely
        made.append(LayerAdvice(one, share, best, gains[best], idle, gains[idle]))
    return made


def _idle(gains: dict[str, float]) -> str:
    """Of the chip's figures the first that gains nothing, as sheets advertise them; else the least.

    Less than nothing is something else: a slower layer.
    """
    sold = [name for name in (f"{name} x {MORE}" for _, name in FIGURES) if name in gains]
    nothing = [name for name in sold if abs(gains[name]) < GAIN]
    return nothing[0] if nothing else min(sold, key=lambda name: gains[name])


def _gain(before: Bound, after: Bound, place: int) -> float:
    """The part of a layer's time for one sample that a change saves."""
    was = before.layers[place].seconds.likely / before.batch
    now = after.layers[place].seconds.likely / after.batch
    return 1 - now / was if was else 0.0
