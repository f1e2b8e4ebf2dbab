"""Which chips serve a mix of models within a latency, how many, and what would make them faster.

A chip meets the latency if the slow end of its interval does; where only the fast end does, the
answer depends on a measurement that was not made, and names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, isclose
from typing import Literal

from ridgeline.chips.sheet import Chip, Sourced
from ridgeline.errors import RidgelineError
from ridgeline.predict.demand import SECONDS_A_YEAR, Demand, Job, Price
from ridgeline.predict.systems import Basis, Estimate, estimate
from ridgeline.predict.work import Work, capacity_bytes

Verdict = Literal["yes", "open", "no"]
"""Open: a measurement that nobody made decides."""
Figure = Literal["bandwidth", "peak", "on-chip memory", "link", "processors"]
FIGURES: tuple[Figure, ...] = ("bandwidth", "peak", "on-chip memory", "link", "processors")
"""Processors stand for what they bring in at once: small kernels wait for it, not for memory."""
STEP = 0.1
"""A figure is raised by a tenth: less would miss that weights begin to fit on the chip."""
Estimator = Callable[[Work, Chip], Estimate]


@dataclass(frozen=True, slots=True)
class Gain:
    """What more of one figure of the sheet does for the mix.

    `elasticity` is the relative change of time over that of the figure, from the mix costed again
    with a tenth more: -1 is in proportion, 0 gains nothing. `seconds_per_unit` is the derivative.
    """

    figure: Figure
    elasticity: float
    seconds_per_unit: float
    unit: str


@dataclass(frozen=True, slots=True)
class Run:
    """One model of the mix on a chip. Times are None where nobody measured the class."""

    name: str
    per: str
    work: Work
    estimate: Estimate
    crossover_batch: int | None
    crossover_context: int | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A chip and the demand. `count` is of the likely times, `least` and `most` of both ends.

    Joules are power x time of a busy chip, an upper bound; None where the sheet has no power.
    """

    chip: Chip
    verdict: Verdict
    reason: str
    runs: tuple[Run, ...]
    count: int | None = None
    least: int | None = None
    most: int | None = None
    utilisation: float | None = None
    joules_per_item: float | None = None
    watts: float | None = None
    usd_per_million: float | None = None
    gains: tuple[Gain, ...] = ()
    measure: str = ""

    @property
    def basis(self) -> Basis:
        """That of the run of which least is known."""
        found = {run.estimate.basis for run in self.runs}
        if "roofline only" in found:
            return "roofline only"
        return "its class" if "its class" in found else "this chip"


def choose(
    jobs: Sequence[Job], chips: Sequence[Chip], demand: Demand, time: Estimator = estimate
) -> list[Choice]:
    """Every chip with its verdict: those that meet the demand first, the fewest and cheapest first.

    Raises RidgelineError for no model, or a price of a chip that is not among those asked about.
    """
    if not jobs:
        raise RidgelineError("needs a model", where="choose", fix="Name one, or an ONNX file")
    strangers = set(demand.prices) - {chip.name for chip in chips}
    if strangers:
        raise RidgelineError(
            f"'{min(strangers)}' is not among the chips asked about",
            where="--price",
            fix="Name it with --chip too, or leave --chip out",
        )
    for job in jobs:
        job.work(demand.batch)  # a fault of the model's own is no chip's
    found = [choice(jobs, chip, demand, time) for chip in chips]
    order = {"yes": 0, "open": 1, "no": 2}
    return sorted(found, key=lambda one: (order[one.verdict], _cost(one), one.chip.name))


def _cost(one: Choice) -> tuple[float, float, float]:
    """What sorts chips: money where it is known, then how many, then power."""
    inf = float("inf")
    money = one.usd_per_million if one.usd_per_million is not None else inf
    count = one.count if one.count is not None else one.least
    return money, count if count is not None else inf, one.watts if one.watts is not None else inf


def choice(jobs: Sequence[Job], chip: Chip, demand: Demand, time: Estimator) -> Choice:
    """One chip: refused by its sheet, or with times, number, power, cost and what to buy."""
    try:
        runs = tuple(_run(job, chip, demand, time) for job in jobs)
    except RidgelineError as error:
        return Choice(chip, "no", error.what, ())
    refused = _unfit(chip, runs, demand)
    if refused:
        return Choice(chip, "no", refused, runs)
    verdict, reason, measure = _verdict(chip, runs, demand)
    if verdict == "no":
        return Choice(chip, verdict, reason, runs, measure=measure)
    seconds = _mixed(jobs, runs, "seconds")
    ends = [_mixed(jobs, runs, end) for end in ("low_seconds", "high_seconds")]
    count = _count(seconds, demand)
    joules = None if seconds is None or chip.tdp is None else chip.tdp.value * seconds
    made = Choice(
        chip=chip,
        verdict=verdict,
        reason=reason,
        runs=runs,
        count=count,
        least=_count(ends[0], demand),
        most=_count(ends[1], demand),
        utilisation=_utilisation(seconds, count, demand),
        joules_per_item=joules,
        watts=count * chip.tdp.value if count and chip.tdp else None,
        measure=measure,
    )
    usd = _usd_per_million(made, seconds, demand)
    return replace(made, usd_per_million=usd, gains=_gains(jobs, chip, demand, time, runs))


def _run(job: Job, chip: Chip, demand: Demand, time: Estimator) -> Run:
    work = job.work(demand.batch)
    made = time(work, chip)
    context = None
    if job.context is not None and work.cache_bytes > 0:
        # Where keys and values weigh as much as weights: beyond, context sets the time.
        context = ceil(job.context * work.weight_bytes / work.cache_bytes)
    return Run(job.name, work.per, work, made, crossover_batch(job, made), context)


def crossover_batch(job: Job, made: Estimate) -> int | None:
    """The least batch whose arithmetic takes as long as its memory; None where none does.

    By the roofline: keys and values grow with the batch, and may keep memory ahead for ever.
    """

    def computes(batch: int) -> bool:
        work = job.work(batch)
        moved = work.moved_bytes if work.weight_bytes > made.rates.on_chip_bytes else 0.0
        moved = max(moved, work.cache_bytes)
        memory = moved / made.rates.memory_bytes_per_s
        return work.operations / made.rates.operations_per_s >= memory

    if not job.work(1).operations:
        return None
    low, high = 0, 1
    while not computes(high):
        low, high = high, 2 * high
        if high > 1 << 19:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high


def _unfit(chip: Chip, runs: Sequence[Run], demand: Demand) -> str:
    """Why the sheet alone refuses: memory or power."""
    needed, size = sum(run.work.stored_bytes for run in runs), capacity_bytes(chip)
    if size is not None and needed > size:
        return f"{_gigabytes(needed)} do not fit into {_gigabytes(size)}"
    if demand.watts is not None and chip.tdp is None:
        return "its power is unknown"
    if demand.watts is not None and chip.tdp is not None and chip.tdp.value > demand.watts:
        return f"it takes {chip.tdp.value:,.3g} W, more than {demand.watts:,.3g} W"
    return ""


def _gigabytes(size_bytes: float) -> str:
    value = size_bytes / 1e9
    return f"{value:,.0f} GB" if value >= 100 else f"{value:.3g} GB"


def _verdict(chip: Chip, runs: Sequence[Run], demand: Demand) -> tuple[Verdict, str, str]:
    """Whether it meets the latency, why, and the measurement that would decide."""
    wanted = demand.latency_seconds
    for run in runs:
        if wanted is not None and run.estimate.low_seconds > wanted:
            least = isclose(run.estimate.low_seconds, run.estimate.roofline_seconds)
            kind = "the least time of its roofline" if least else "the fast end of its interval"
            return "no", f"{run.name} takes longer: {kind}", ""
    unsure = [
        run
        for run in runs
        if run.estimate.seconds is None
        or (wanted is not None and (run.estimate.high_seconds or 0) > wanted)
    ]
    if not unsure:
        return "yes", "", ""
    names = " and ".join(dict.fromkeys(run.work.name for run in unsure))
    measure = f"the time of {names} at batch {demand.batch} on {chip.name}"
    if any(run.estimate.seconds is None for run in unsure):
        return "open", "its class is not measured", measure
    return "open", "its interval reaches beyond the latency", measure


def _mixed(jobs: Sequence[Job], runs: Sequence[Run], end: str) -> float | None:
    """Seconds of a chip for one item of the mix."""
    total = sum(job.share for job in jobs)
    added = 0.0
    for job, run in zip(jobs, runs, strict=True):
        seconds = getattr(run.estimate, end)
        if seconds is None:
            return None
        added += job.share / total * seconds / run.work.items
    return added


def _count(seconds_per_item: float | None, demand: Demand) -> int | None:
    if seconds_per_item is None:
        return None
    if demand.items_per_s is None:
        return 1
    return max(1, ceil(demand.items_per_s * seconds_per_item - 1e-9))


def _utilisation(seconds: float | None, count: int | None, demand: Demand) -> float | None:
    if seconds is None or count is None or demand.items_per_s is None:
        return None
    return demand.items_per_s * seconds / count


def _usd_per_million(one: Choice, seconds: float | None, demand: Demand) -> float | None:
    """Of the rate asked for; where none is, of chips that are always busy."""
    price = demand.prices.get(one.chip.name)
    if price is None or seconds is None or one.count is None:
        return None
    per_second = usd_per_second(price, demand.years)
    items_per_s = demand.items_per_s if demand.items_per_s is not None else 1 / seconds
    return one.count * per_second / items_per_s * 1e6


def usd_per_second(price: Price, years: float) -> float:
    """Rent, or the purchase spread evenly over its years."""
    return price.usd / 3600 if price.hourly else price.usd / (years * SECONDS_A_YEAR)


def _gains(
    jobs: Sequence[Job], chip: Chip, demand: Demand, time: Estimator, runs: Sequence[Run]
) -> tuple[Gain, ...]:
    """The mix costed again with a tenth more of each figure."""
    before = _likely_or_least(jobs, runs)
    if not before:  # nothing to wait for, so that nothing makes it shorter
        return ()
    found: list[Gain] = []
    for figure in FIGURES:
        value, unit = _value(chip, figure, max(runs, key=lambda run: run.estimate.low_seconds))
        if value is None:
            continue
        more = scaled(chip, figure, 1 + STEP)
        again = tuple(
            replace(run, estimate=time(job.work(demand.batch), more))
            for job, run in zip(jobs, runs, strict=True)
        )
        after = _likely_or_least(jobs, again)
        elasticity = (after / before - 1) / STEP
        found.append(Gain(figure, elasticity, (after - before) / (STEP * value), unit))
    return tuple(sorted(found, key=lambda gain: gain.elasticity))


def _likely_or_least(jobs: Sequence[Job], runs: Sequence[Run]) -> float:
    likely = _mixed(jobs, runs, "seconds")
    least = _mixed(jobs, runs, "low_seconds")
    assert least is not None
    return least if likely is None else likely


def _value(chip: Chip, figure: Figure, longest: Run) -> tuple[float | None, str]:
    """The figure that is raised, as it stands on the sheet: of peaks and links that which the run
    that takes longest uses.
    """
    if figure == "peak":
        return longest.estimate.rates.operations_per_s, "operations/s"
    if figure == "bandwidth":
        memory = chip.main_memory
        rate = memory.bandwidth if memory else None
        return (rate.value if rate else None), "bytes/s"
    if figure == "processors":
        return (chip.processors.value if chip.processors and chip.clock else None), "processors"
    if figure == "link":
        return longest.estimate.rates.link_bytes_per_s, "bytes/s"
    sizes = [m.size.value for m in chip.memories if m.level == "on-chip" and m.size is not None]
    return max(sizes, default=None), "bytes"


def scaled(chip: Chip, figure: Figure, factor: float) -> Chip:
    """The chip with one kind of figure multiplied: all peaks, the rate of every memory, ..."""

    def times(one: Sourced | None) -> Sourced | None:
        return None if one is None else replace(one, value=one.value * factor)

    if figure == "peak":
        # The units no longer give the peak.
        peaks = tuple(
            replace(
                peak,
                dense=replace(peak.dense, value=peak.dense.value * factor),
                units=None,
                unchecked=f"{factor:g} times the sheet's",
            )
            for peak in chip.peaks
        )
        return replace(chip, peaks=peaks)
    if figure == "processors":
        return replace(chip, processors=times(chip.processors))
    if figure == "link":
        return replace(
            chip, links=tuple(replace(one, bandwidth=times(one.bandwidth)) for one in chip.links)
        )
    if figure == "bandwidth":
        rates = tuple(replace(m, bandwidth=times(m.bandwidth)) for m in chip.memories)
        return replace(chip, memories=rates)
    sizes = tuple(
        replace(m, size=times(m.size)) if m.level == "on-chip" else m for m in chip.memories
    )
    return replace(chip, memories=sizes)
