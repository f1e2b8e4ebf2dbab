"""What one run of a whole model asks of a chip, and how long a chip of a class takes for it.

time = layers x launch + arithmetic + movement, from constants that classes of chips and software
share (`data/systems.toml`), none of which belongs to one chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from ridgeline.chips.sheet import Chip, Peak
from ridgeline.errors import RidgelineError


@dataclass(frozen=True, slots=True)
class Work:
    """One run: `items` samples or tokens at once. Operations are 2 x multiply-accumulates.

    `vector_bytes` is one pass over what the layers write; `cache_bytes` are keys and values.
    `stored_bytes` must fit in the memory. `peaks`: precisions, the first that a chip has is taken.
    `unpacked` counts weights of fewer bits than are multiplied, each as often as it is read, and
    `expanded_bytes` what such weights take when they are written out and read again.
    `link_bytes` come from the host and go back to it.
    """

    name: str
    per: str
    items: int
    layers: int
    operations: float
    weight_bytes: float
    cache_bytes: float
    vector_bytes: float
    stored_bytes: float
    peaks: tuple[str, ...]
    unpacked: float = 0.0
    expanded_bytes: float = 0.0
    link_bytes: float = 0.0

    @property
    def moved_bytes(self) -> float:
        """The least that main memory gives: weights and cache once, results out and in again."""
        return self.weight_bytes + self.cache_bytes + 2 * self.vector_bytes

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.operations / self.moved_bytes


@dataclass(frozen=True, slots=True)
class Rates:
    """What a sheet gives; `issue_hz` is processors x clock, None where the sheet lacks either.

    `vector_operations_per_s` is the fp32 peak, which unpacks weights.
    """

    operations_per_s: float
    memory_bytes_per_s: float
    issue_hz: float | None
    vector_operations_per_s: float | None = None
    on_chip_bytes: float = 0.0
    link_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Constants:
    """What chips of a class have in common under one kind of software.

    `launch_seconds` of each layer; `compute_fraction` of the dense peak; `bandwidth_fraction` of
    the memory's rate; `load_bytes_per_cycle` that one processor brings in, which limits small
    kernels on chips with few processors and fast memory; `cache_fraction` of that rate for keys
    and values, read by few processors; `vector_passes` over the results beside the products;
    `unpack_operations` of the fp32 peak for each weight of fewer bits than are multiplied.
    """

    launch_seconds: float
    compute_fraction: float
    bandwidth_fraction: float
    load_bytes_per_cycle: float
    cache_fraction: float
    vector_passes: float
    unpack_operations: float


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of one run, and what they are made of."""

    launch_seconds: float
    compute_seconds: float
    weight_seconds: float
    cache_seconds: float
    vector_seconds: float
    link_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        body = max(self.compute_seconds, self.weight_seconds)
        moved = self.cache_seconds + self.vector_seconds + self.link_seconds
        return self.launch_seconds + body + moved

    @property
    def side(self) -> str:
        """What most of the time goes to."""
        memory = self.vector_seconds + self.cache_seconds
        if self.weight_seconds > self.compute_seconds:
            memory += self.weight_seconds
        compute = self.compute_seconds if self.compute_seconds >= self.weight_seconds else 0.0
        found = {"launch": self.launch_seconds, "compute": compute, "memory": memory}
        found["link"] = self.link_seconds
        return max(found, key=lambda side: found[side])


def parts(work: Work, rates: Rates, constants: Constants) -> Parts:
    """The time of one run, part by part."""
    one = constants
    issue = inf if rates.issue_hz is None else rates.issue_hz * one.load_bytes_per_cycle
    reads = min(rates.memory_bytes_per_s * one.bandwidth_fraction, issue)
    # Weights that fit on the chip stay there from run to run, and come as fast as processors load.
    resident = work.weight_bytes + 2 * work.vector_bytes / work.layers <= rates.on_chip_bytes
    weights = issue if resident and issue < inf else reads
    compute = work.operations / (rates.operations_per_s * one.compute_fraction)
    if rates.vector_operations_per_s is not None:
        compute += work.unpacked * one.unpack_operations / rates.vector_operations_per_s
    return Parts(
        launch_seconds=work.layers * one.launch_seconds,
        compute_seconds=compute,
        weight_seconds=work.weight_bytes / weights + work.expanded_bytes / reads,
        cache_seconds=work.cache_bytes / (reads * one.cache_fraction),
        vector_seconds=one.vector_passes * work.vector_bytes / reads,
        link_seconds=link_seconds(work, rates),
    )


def link_seconds(work: Work, rates: Rates) -> float:
    """To bring what the host gives and takes; 0 where the sheet has no link."""
    if rates.link_bytes_per_s is None:
        return 0.0
    return work.link_bytes / rates.link_bytes_per_s


def roofline_seconds(work: Work, rates: Rates) -> float:
    """The least time: arithmetic at the dense peak beside memory at its rate.

    What stays on the chip from run to run, if it fits, is not read again.
    """
    moved = work.moved_bytes if work.weight_bytes > rates.on_chip_bytes else work.cache_bytes
    body = max(work.operations / rates.operations_per_s, moved / rates.memory_bytes_per_s)
    return max(body, link_seconds(work, rates))


def peak_of(chip: Chip, names: tuple[str, ...]) -> Peak:
    """The chip's peak in the first of these precisions that it has.

    A chip without any 16-bit peak multiplies them in fp32. Raises RidgelineError if there is none.
    """
    for name in (*names, *(("fp32",) if "fp16" in names else ())):
        found = [peak for peak in chip.peaks if peak.precision == name]
        if found:
            return max(found, key=lambda peak: peak.dense.value)
    return chip.peak(names[0])


def rates_of(chip: Chip, names: tuple[str, ...]) -> Rates:
    """What the model needs of a sheet. Raises RidgelineError for a chip without a roofline."""
    memory = chip.main_memory
    if memory is None or memory.bandwidth is None:
        raise RidgelineError(
            f"{chip.name} has no roofline: no source states the rate of its memory",
            where="--chip",
            fix="Take another chip, or a TOML file with your own figure",
        )
    on_chip = [m.size.value for m in chip.memories if m.level == "on-chip" and m.size is not None]
    vector = chip.peak("fp32").dense.value if "fp32" in chip.precisions() else None
    issue = chip.processors.value * chip.clock.value if chip.processors and chip.clock else None
    return Rates(
        operations_per_s=peak_of(chip, names).dense.value,
        memory_bytes_per_s=memory.bandwidth.value,
        issue_hz=issue,
        vector_operations_per_s=vector,
        on_chip_bytes=max(on_chip, default=0.0),
        link_bytes_per_s=chip.host_bytes_per_s,
    )


def capacity_bytes(chip: Chip) -> float | None:
    """What its memories hold: main, or on-chip where there is none. None is unknown."""
    for level in ("main", "on-chip"):
        found = [m for m in chip.memories if m.level == level]
        if found:
            sizes = [m.size.value for m in found if m.size is not None]
            return sum(sizes) if len(sizes) == len(found) else None
    return None
