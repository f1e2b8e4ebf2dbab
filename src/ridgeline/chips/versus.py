"""Chips side by side: where their rooflines meet, and what each is good for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.chips.sheet import Chip
from ridgeline.errors import RidgelineError

BYTES = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "fp4": 0.5,
}
"""Storage of one element in bytes."""
WORKLOADS = (
    ("1 x 4096 x 4096", 1, 4096, 4096),
    ("32 x 4096 x 4096", 32, 4096, 4096),
    ("256 x 4096 x 4096", 256, 4096, 4096),
    ("4096 x 4096 x 4096", 4096, 4096, 4096),
)
"""One token of a language model, a prompt or batch of some, and a large product."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time of one product on a chip, by its roofline; `side` is what sets it."""

    chip: str
    seconds: float
    side: str


@dataclass(frozen=True, slots=True)
class Case:
    """One product on every chip. `operations_per_byte` counts each operand once."""

    name: str
    operations_per_byte: float
    bounds: tuple[Bound, ...]

    @property
    def best(self) -> Bound:
        return min(self.bounds, key=lambda bound: bound.seconds)


@dataclass(frozen=True, slots=True)
class Versus:
    """Chips in one precision, with `crossover`: operations/byte at which the faster one changes."""

    precision: str
    chips: tuple[Chip, ...]
    cases: tuple[Case, ...]
    crossover_operations_per_byte: float | None


def compare(chips: Sequence[Chip], precision: str | None) -> Versus | None:
    """The chips in `precision`, or that with the highest peak that all have; None if none is.

    Raises RidgelineError for a precision that one of them does not have.
    """
    if precision is None:
        shared = [p for p in chips[0].precisions() if all(p in c.precisions() for c in chips)]
        if not shared:
            return None
        precision = max(shared, key=lambda p: min(c.peak(p).dense.value for c in chips))
    rates = [_rates(chip, precision) for chip in chips]
    if any(rate is None for rate in rates):
        return Versus(precision, tuple(chips), (), None)
    known = [rate for rate in rates if rate is not None]
    cases = tuple(_case(name, m, n, k, precision, chips, known) for name, m, n, k in WORKLOADS)
    return Versus(precision, tuple(chips), cases, _crossover(known))


def _rates(chip: Chip, precision: str) -> tuple[float, float] | None:
    """Operations/s and bytes/s, or None where the memory's rate is unknown."""
    peak, memory = chip.peak(precision), chip.main_memory
    if memory is None or memory.bandwidth is None:
        return None
    return peak.dense.value, memory.bandwidth.value


def _case(
    name: str,
    m: int,
    n: int,
    k: int,
    precision: str,
    chips: Sequence[Chip],
    rates: Sequence[tuple[float, float]],
) -> Case:
    operations = 2 * m * n * k
    moved_bytes = BYTES[precision] * (m * k + k * n + m * n)
    bounds: list[Bound] = []
    for chip, (peak, bandwidth) in zip(chips, rates, strict=True):
        compute, memory = operations / peak, moved_bytes / bandwidth
        side = "compute" if compute > memory else "memory"
        bounds.append(Bound(chip.name, max(compute, memory), side))
    return Case(name, operations / moved_bytes, tuple(bounds))


def _crossover(rates: Sequence[tuple[float, float]]) -> float | None:
    """Of two chips, one with the higher peak and one with the higher rate: where their roofs meet.

    Below it the higher rate wins, above it the higher peak: the lower peak reached on the slower
    memory.
    """
    if len(rates) != 2:
        return None
    (peak_a, rate_a), (peak_b, rate_b) = rates
    if (peak_a - peak_b) * (rate_a - rate_b) >= 0:
        return None
    return min(peak_a, peak_b) / min(rate_a, rate_b)


def require_two(chips: Sequence[Chip]) -> None:
    """Raise RidgelineError unless there are at least two chips, none of them twice."""
    names = [chip.name for chip in chips]
    if len(chips) < 2:
        raise RidgelineError(
            "needs at least two chips", where="chips compare", fix="Name two, or --peak for yours"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise RidgelineError(f"'{twice}' is given twice", where="chips compare")
