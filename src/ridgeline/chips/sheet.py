"""A chip as its sheet describes it. What no source says is None, never 0.

Operations are 2 × multiply-accumulates everywhere. Balance points are operations for each byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ridgeline.errors import RidgelineError

Kind = Literal["vendor", "paper", "measured", "derived", "secondary", "user"]
"""Who says it: the maker, a paper, a measurement, a calculation, a third party, or the user."""
Level = Literal["main", "on-chip", "host"]
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4")
CLASSES = ("gpu", "tpu", "npu", "lpu", "neuromorphic", "cpu", "fpga", "user")
KINDS: tuple[str, ...] = get_args(Kind)
LEVELS: tuple[str, ...] = get_args(Level)
FLAGS = {
    "sparse": "counts products with zeros, which sparse hardware skips",
    "sum": "adds up engines or dies that one kernel cannot use at once",
    "int4": "is in 4-bit numbers",
    "boost": "assumes a clock that designs or parts do not run at",
    "fp16-accumulate": "sums in fp16, twice as fast as in fp32",
    "soc": "is of the whole system on chip, not of this part",
    "precision-unstated": "has no precision that the maker states",
}
"""What makes a headline higher than what a dense product can do."""
CHECKED_WITHIN = 0.02
USUAL_BALANCES = (1.0, 12_500.0)
"""Operations for each byte of main memory, from the least to the most of the catalogue."""


@dataclass(frozen=True, slots=True)
class Sourced:
    """One figure: `value` in `unit`, from `source` of `date`; `uncertain` where that is doubtful.

    `seen` says how the source was read: its `headline` figures, `partly`, or `recalled`.
    """

    value: float
    unit: str
    source: str
    date: str
    kind: Kind
    seen: str = ""
    uncertain: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Units:
    """What a peak multiplies with: `count` units, each so many multiply-accumulates a cycle."""

    name: str
    count: int
    macs_per_cycle: Sourced

    def operations_per_s(self, clock_hz: float) -> float:
        return 2 * self.count * self.macs_per_cycle.value * clock_hz


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that one engine does in one precision; `accumulate` where a source says it.

    Either `units`, whose count × clock gives `dense` within 2 %, or `unchecked`: why not.
    """

    precision: str
    dense: Sourced
    accumulate: str = ""
    engine: str = ""
    sparse: Sourced | None = None
    sparsity: str = ""
    units: Units | None = None
    unchecked: str = ""

    @property
    def label(self) -> str:
        """Such as "fp16 → fp32" or "int8 (DLA)"."""
        text = f"{self.precision} → {self.accumulate}" if self.accumulate else self.precision
        return f"{text} ({self.engine})" if self.engine else text


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory, by level: on the chip, beside it, or behind the host link."""

    name: str
    level: Level
    size: Sourced | None = None
    bandwidth: Sourced | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the host or to other chips, at the rate that is printed."""

    name: str
    bandwidth: Sourced | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """The figure that the sheet shouts, in its precision, and what it is: keys of FLAGS."""

    precision: str
    operations: Sourced
    flags: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Achieved:
    """The most that someone got out of the chip, or the peak of the best design shipped for it."""

    precision: str
    operations: Sourced


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What another source says of the figure called `figure`, such as "peaks.int8"."""

    figure: str
    other: Sourced


@dataclass(frozen=True, slots=True)
class Chip:
    """A spec sheet."""

    name: str
    title: str
    vendor: str
    year: int
    chip_class: str
    peaks: tuple[Peak, ...] = ()
    memories: tuple[Memory, ...] = ()
    links: tuple[Link, ...] = ()
    headline: Headline | None = None
    achieved: tuple[Achieved, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    clock: Sourced | None = None
    tdp: Sourced | None = None
    processors: Sourced | None = None
    array: str = ""
    assumes: str = ""
    milestone: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_peaks()
        names = self.figure_names()
        for one in self.contradictions:
            if one.figure not in names:
                raise RidgelineError(
                    f"there is no figure '{one.figure}' to contradict",
                    where="contradictions",
                    fix="Figures: " + ", ".join(sorted(names)),
                )

    def _check_peaks(self) -> None:
        seen: set[tuple[str, str, str]] = set()
        for peak in self.peaks:
            key = (peak.precision, peak.accumulate, peak.engine)
            where = f"peaks.{peak.precision}"
            if key in seen:
                raise RidgelineError(f"{peak.label} is there twice", where=where)
            seen.add(key)
            if (peak.units is None) == (not peak.unchecked):
                raise RidgelineError(
                    "needs either 'units' or 'unchecked'",
                    where=where,
                    fix="Give units and macs_per_cycle, or the reason why they are not known",
                )
            if peak.units is not None:
                self._check_units(peak, peak.units, where)

    def _check_units(self, peak: Peak, units: Units, where: str) -> None:
        if self.clock is None:
            raise RidgelineError("has 'units', but the chip has no clock", where=where)
        made = units.operations_per_s(self.clock.value)
        if abs(made / peak.dense.value - 1) > CHECKED_WITHIN:
            raise RidgelineError(
                f"{units.count} × {units.macs_per_cycle.value:g} MACs × 2 × clock are {made:.4g}"
                f" operations/s, not {peak.dense.value:.4g}",
                where=where,
                fix="Correct one of them, or say why in 'unchecked' instead of 'units'",
            )

    def figure_names(self) -> set[str]:
        """What a contradiction may name."""
        names = {"headline"} if self.headline else set[str]()
        names |= {"array"} if self.array else set()
        names |= {key for key in ("clock", "tdp", "processors") if getattr(self, key) is not None}
        names |= {f"peaks.{peak.precision}" for peak in self.peaks}
        return names | {f"memories.{memory.name}" for memory in self.memories}

    def precisions(self) -> list[str]:
        """Those that the chip has a peak in, as listed."""
        return list(dict.fromkeys(peak.precision for peak in self.peaks))

    def peak(self, precision: str) -> Peak:
        """The peak of one engine; where accumulators differ, of the widest, which is listed first.

        Raises RidgelineError naming the precisions that the chip has.
        """
        for peak in self.peaks:
            if peak.precision == precision:
                return peak
        has = ", ".join(self.precisions()) or "none that any source states"
        raise RidgelineError(
            f"{self.name} has no peak in '{precision}'", where="--precision", fix=f"It has: {has}"
        )

    def best_achieved(self, precision: str) -> Achieved | None:
        """The highest in this precision."""
        found = [one for one in self.achieved if one.precision == precision]
        return max(found, key=lambda one: one.operations.value, default=None)

    @property
    def main_memory(self) -> Memory | None:
        """The fastest memory beside the chip; of a chip without, the fastest on it or behind it."""
        for level in ("main", "on-chip", "host"):
            found = [m for m in self.memories if m.level == level and m.bandwidth is not None]
            if found:
                return max(found, key=lambda m: m.bandwidth.value if m.bandwidth else 0.0)
        return None

    @property
    def host_bytes_per_s(self) -> float | None:
        """Of the slowest link of a known rate: the faster ones lead to other chips."""
        rates = [link.bandwidth.value for link in self.links if link.bandwidth is not None]
        return min(rates, default=None)

    def balance(self, peak: Peak, memory: Memory | None) -> float | None:
        """Operations for each byte, at which memory and arithmetic take the same time."""
        if memory is None or memory.bandwidth is None:
            return None
        return peak.dense.value / memory.bandwidth.value

    def doubt(self, peak: Peak) -> str:
        """Why the prefix of a peak or of the memory's rate looks wrong; empty where it does not."""
        memory, (low, high) = self.main_memory, USUAL_BALANCES
        balance = self.balance(peak, memory)
        if memory is None or balance is None or low <= balance <= high:
            return ""
        shown = f"{balance:,.0f}" if balance > 1 else f"{balance:.3g}"
        return (
            f"{shown} {peak.precision} operations for each byte of {memory.name}:"
            f" sheets have {low:g} to {high:,.0f}, so check the prefixes of both figures"
        )
