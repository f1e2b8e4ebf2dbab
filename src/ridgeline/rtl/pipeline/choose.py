"""Folds and buffers chosen from an interval and a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ridgeline.errors import RidgelineError
from ridgeline.rtl.pipeline.layers import ADD, Layer
from ridgeline.rtl.pipeline.plan import Fold, Plan, Stage, buffer_depth, folds, power_of_two
from ridgeline.rtl.pipeline.timing import times

DEFAULT_MULTIPLIERS = 64
"""A budget where neither it nor an interval is given: half of a middle-sized FPGA's."""

IN_FLIGHT = 64
"""Pixels that a stage may have begun and not finished, at most."""

IMAGES, PIXELS = 4, 64
"""So many images, and pixels at the end, one behind the other, show the interval of images."""


@dataclass(frozen=True, slots=True)
class Target:
    """`interval_cycles` from image to image, at most; None: the shortest that the budget allows.

    `multipliers` of operands and weights, at most; `memory_bits` on chip, at most.
    """

    interval_cycles: int | None = None
    multipliers: int | None = None
    memory_bits: int | None = None


def choose(name: str, layers: list[Layer], target: Target | None = None) -> Plan:
    """The plan that meets the target with the fewest multipliers.

    Raises RidgelineError naming what is not met and the nearest that is.
    """
    target = target or Target()
    options = [folds(layer) for layer in layers]
    where = f"pipeline '{name}'"
    if target.interval_cycles is None:
        budget = DEFAULT_MULTIPLIERS if target.multipliers is None else target.multipliers
        chosen = _within(layers, options, budget, where)
    else:
        chosen = _as_fast(layers, options, target.interval_cycles, where)
        _require_multipliers(layers, options, chosen, target, where)
    plan = _shallow(Plan(name, chosen))
    _require(plan, target, where)
    return plan


def _pixels(layers: list[Layer]) -> int:
    """An image cannot follow sooner than its pixels come in, one a cycle."""
    return layers[0].given[0].pixels


def _with(layers: list[Layer], chosen: list[Fold]) -> tuple[Stage, ...]:
    """Stages whose buffers are far deeper than they need be."""
    return tuple(
        Stage(layer, fold, tuple(
            power_of_two(max(2 * one.pixels, IN_FLIGHT, buffer_depth(layer))) for one in layer.given
        ))
        for layer, fold in zip(layers, chosen, strict=True)
    )  # fmt: skip


def _as_fast(
    layers: list[Layer], options: list[list[tuple[int, Fold]]], interval: int, where: str
) -> tuple[Stage, ...]:
    """Of each layer the fold of fewest multipliers that keeps to the interval."""
    least = max(_pixels(layers), *(choices[-1][0] for choices in options))
    if interval < least:
        slowest = [
            layer.name
            for layer, choices in zip(layers, options, strict=True)
            if choices[-1][0] > interval
        ]
        why = f"'{slowest[0]}' wholly unfolded" if slowest else "taking a pixel a cycle"
        raise RidgelineError(
            f"an interval of {interval:,} cycles cannot be: {why} takes longer",
            where=where,
            fix=f"The shortest is {least:,}",
        )
    return _with(layers, [_fold_within(choices, interval) for choices in options])


def _fold_within(choices: list[tuple[int, Fold]], interval: int) -> Fold:
    """Choices come slowest first, and so the one of fewest multipliers first."""
    return next(fold for cycles, fold in choices if cycles <= interval)


def _within(
    layers: list[Layer], options: list[list[tuple[int, Fold]]], budget: int, where: str
) -> tuple[Stage, ...]:
    """The shortest interval that so many multipliers allow."""
    least = max(_pixels(layers), *(choices[-1][0] for choices in options))
    candidates = sorted({cycles for one in options for cycles, _ in one if cycles >= least})
    candidates = candidates or [least]
    low, high = 0, len(candidates) - 1
    slowest = _with(layers, [_fold_within(one, candidates[-1]) for one in options])
    if Plan("", slowest).multipliers > budget:
        raise RidgelineError(
            f"{budget} multipliers are too few: there are {len(layers)} stages",
            where=where,
            fix=f"The fewest are {Plan('', slowest).multipliers}",
        )
    while low < high:
        middle = (low + high) // 2
        stages = _with(layers, [_fold_within(one, candidates[middle]) for one in options])
        if Plan("", stages).multipliers <= budget:
            high = middle
        else:
            low = middle + 1
    return _with(layers, [_fold_within(one, candidates[low]) for one in options])


def _require_multipliers(
    layers: list[Layer],
    options: list[list[tuple[int, Fold]]],
    chosen: tuple[Stage, ...],
    target: Target,
    where: str,
) -> None:
    needed = Plan("", chosen).multipliers
    if target.multipliers is None or needed <= target.multipliers:
        return
    fastest = _within(layers, options, target.multipliers, where)
    nearest = max(stage.image_cycles for stage in fastest)
    raise RidgelineError(
        f"an interval of {target.interval_cycles:,} cycles needs {needed} multipliers, more than"
        f" {target.multipliers}",
        where=where,
        fix=f"With {target.multipliers} it is {max(nearest, _pixels(layers)):,} cycles",
    )


def _shallow(plan: Plan) -> Plan:
    """Each buffer halved as often as neither the interval nor the latency grows."""
    wanted = _speed(plan)
    for number, stage in enumerate(plan.stages):
        for place in range(len(stage.depths)):
            least = 1 if stage.layer.kind == ADD else _window_pixels(stage.layer)
            while plan.stages[number].depths[place] // 2 >= least:
                smaller = _with_depth(plan, number, place, plan.stages[number].depths[place] // 2)
                try:
                    speed = _speed(smaller)
                except RidgelineError:
                    break
                if speed[0] > wanted[0] or speed[1] > wanted[1]:
                    break
                plan = smaller
    while plan.output_depth > 1:
        smaller = replace(plan, output_depth=plan.output_depth // 2)
        if _speed(smaller) != _speed(plan):
            break
        plan = smaller
    return plan


def _window_pixels(layer: Layer) -> int:
    """A buffer holds at least the rows of a window, or the image."""
    image = layer.given[0]
    return min(layer.window.span[0], image.height) * image.width


def _speed(plan: Plan) -> tuple[int, int]:
    return interval_cycles(plan), times(plan).latency_cycles


def interval_cycles(plan: Plan) -> int:
    """Cycles from image to image when they follow each other for long."""
    pixels = min(plan.stages[-1].layer.made.pixels, plan.stages[0].layer.given[0].pixels)
    return times(plan, max(IMAGES, PIXELS // pixels)).interval_cycles


def _with_depth(plan: Plan, number: int, place: int, depth: int) -> Plan:
    depths = list(plan.stages[number].depths)
    depths[place] = depth
    stages = list(plan.stages)
    stages[number] = replace(stages[number], depths=tuple(depths))
    return replace(plan, stages=tuple(stages))


def _require(plan: Plan, target: Target, where: str) -> None:
    interval, _ = _speed(plan)
    if target.interval_cycles is not None and interval > target.interval_cycles:
        raise RidgelineError(
            f"images follow each other every {interval:,} cycles with these stages, and not every"
            f" {target.interval_cycles:,}",
            where=where,
            fix="Ask for a shorter interval, so that stages wait less for each other",
        )
    if target.memory_bits is not None and plan.memory_bits > target.memory_bits:
        weights = sum(stage.weight_memory_bits for stage in plan.stages)
        raise RidgelineError(
            f"needs {plan.memory_bits:,} bits of memory on chip, {weights:,} of them weights, and"
            f" {target.memory_bits:,} are there",
            where=where,
            fix="Give weights fewer bits with --bits, or use the array, whose weights come from"
            " device memory",
        )
