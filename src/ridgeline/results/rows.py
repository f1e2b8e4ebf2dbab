"""The rows of a report: plain figures, from which every view (text, CSV, JSON) is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.results.energy import IDLE, PowerFacts, sum_by_name

Placed = Literal["array", "vector", "move", "host", ""]
Limit = Literal["compute", "vector", "memory", "host link", "fallback", "none"]

LIMITS: dict[Limit, str] = {
    "compute": "the MAC array",
    "vector": "the vector unit",
    "memory": "device memory",
    "host link": "the link to the host",
    "fallback": "the host",
    "none": "nothing that it needs",
}
"""What each limit means, in words."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer's figures. Cycles are of the machine's clock; a MAC is two operations.

    `cycles` is this layer's part of the whole run: the parts of all layers sum to the total.
    `busy_cycles` holds, for each limit, the cycles that the layer needs of that resource if it
    never waits. `ledger` says where the cycles went, exclusively: its entries sum to `cycles`.
    """

    name: str
    op: str
    placed: Placed
    shape: tuple[int, ...]
    macs: int
    vector_operations: int
    weight_bytes: int
    input_bytes: int
    output_bytes: int
    device_memory_bytes: int
    """Bytes that its transfers move through the device-memory port."""
    cycles: float
    ideal_array_cycles: float
    """Its array work over the array's peak rate: every element busy in every cycle."""
    ideal_memory_cycles: float
    """`device_memory_bytes` over the memory's rate, without the waste of partly used bursts."""
    busy_cycles: Mapping[Limit, float] = field(default_factory=dict[Limit, float])
    ledger: Mapping[str, float] = field(default_factory=dict[str, float])
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """What it does that costs energy: exact counts by the names of `energy.COUNTS`."""
    joules: Mapping[str, float] | None = None
    """Its energy for each of `energy.LEVELS`; None where the machine has no such figures."""
    sqnr_db: float | None = None
    """Signal to quantisation noise of its output against the float model, when known."""
    reason: str = ""
    """Why it is not computed on the accelerator."""
    origin: tuple[str, ...] = ()
    """The ONNX nodes that it came from."""

    @property
    def operations(self) -> int:
        """Two for each multiply-accumulate."""
        return 2 * self.macs

    @property
    def intensity_macs_per_byte(self) -> float | None:
        """MACs over device-memory bytes; None where it moves none."""
        return self.macs / self.device_memory_bytes if self.device_memory_bytes else None

    @property
    def bound(self) -> Limit:
        """The resource that the layer needs for the most cycles; ties go to the first."""
        most: Limit = "none"
        for limit, cycles in self.busy_cycles.items():
            if cycles > self.busy_cycles.get(most, 0):
                most = limit
        return most

    @property
    def bound_cycles(self) -> float:
        """Cycles that the layer cannot go below, whatever the schedule."""
        return self.busy_cycles.get(self.bound, 0)

    @property
    def utilisation(self) -> float:
        """Array work done over what the array could have done in `cycles`; 0 to 1."""
        return self.ideal_array_cycles / self.cycles if self.cycles else 0.0

    @property
    def lost_cycles(self) -> float:
        """Cycles beyond those that its bound allows; below 0 where it works behind others."""
        return self.cycles - self.bound_cycles

    @property
    def energy_joules(self) -> float | None:
        """Over all levels; None where it is not known."""
        return None if self.joules is None else sum(self.joules.values())

    def largest_loss(self) -> tuple[str, float]:
        """The ledger's largest entry that is not useful work, and its cycles; ("", 0) if none."""
        least = self.cycles / 200  # below half a per cent it is no loss worth a word
        losses = {k: v for k, v in self.ledger.items() if k != "useful" and v > least}
        if not losses:
            return "", 0.0
        name = max(losses, key=lambda key: losses[key])
        return name, losses[name]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Right answers of the float model and of the quantised one, of `images` with labels."""

    images: int
    float_right: int | None
    quantised_right: int
    number_format: str = "int8"
    """What the quantised model is called: int8, or int16 for 16-bit activations."""

    @property
    def float_share(self) -> float | None:
        return None if self.float_right is None else self.float_right / self.images

    @property
    def quantised_share(self) -> float:
        return self.quantised_right / self.images


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What a reader of a report needs to know about the machine."""

    name: str
    description: str
    clock_hz: float
    rows: int
    cols: int
    dataflow: str
    device_memory_bytes_per_s: float

    @property
    def peak_macs_per_cycle(self) -> int:
        return self.rows * self.cols

    @property
    def peak_operations_per_s(self) -> float:
        return 2 * self.peak_macs_per_cycle * self.clock_hz

    @property
    def balance_macs_per_byte(self) -> float:
        return self.peak_macs_per_cycle * self.clock_hz / self.device_memory_bytes_per_s


@dataclass(frozen=True, slots=True)
class Report:
    """A model's run on a machine: `cycles` for `batch` inferences, a row for each layer.

    `warm_cycles` are those of a run that finds the constants on chip that the run before left
    there, and `steady_cycles` is the interval between runs that follow each other without a pause,
    when known: input of the next run is loaded while this one computes.
    """

    model: str
    machine: MachineFacts
    numeric_mode: str
    batch: int
    cycles: int
    device_cycles: int
    rows: tuple[LayerRow, ...]
    warm_cycles: int | None = None
    steady_cycles: int | None = None
    accuracy: Accuracy | None = None
    power: PowerFacts | None = None
    """None where the machine has no energy figures."""
    notes: tuple[str, ...] = ()
    """What a reader must know, such as that calibration used random data."""

    @property
    def clock_hz(self) -> float:
        """The machine's clock, slowed where that keeps to its power limit."""
        return self.machine.clock_hz / (self.power.slowdown if self.power else 1)

    @property
    def seconds(self) -> float:
        """Latency of one run."""
        return self.cycles / self.clock_hz

    @property
    def inferences_per_s(self) -> float:
        """One run after the other, each waiting for the one before."""
        return self.batch / self.seconds if self.cycles else 0.0

    @property
    def steady_inferences_per_s(self) -> float | None:
        return self.batch / self.steady_seconds if self.steady_seconds else None

    @property
    def steady_seconds(self) -> float | None:
        """Time between runs that follow each other, at a clock that keeps to the power limit."""
        if not self.steady_cycles:
            return None
        least = self.steady_cycles / self.clock_hz
        if self.power is None or not self.power.throttles or self.power.limit_watts is None:
            return least
        return max(least, self.work_joules / (self.power.limit_watts - self.power.idle_watts))

    @property
    def energy_joules(self) -> float | None:
        """Of one run; None where the machine has no energy figures."""
        return self.total.energy_joules if self.power else None

    @property
    def work_joules(self) -> float:
        """Of one run, without what the machine draws when idle."""
        joules = self.total.joules or {}
        return sum(amount for level, amount in joules.items() if level != IDLE)

    @property
    def average_watts(self) -> float | None:
        """Over one run."""
        joules = self.energy_joules
        return None if joules is None or not self.cycles else joules / self.seconds

    @property
    def steady_watts(self) -> float | None:
        """On average when runs follow each other."""
        if self.power is None or not self.steady_seconds:
            return None
        return self.power.idle_watts + self.work_joules / self.steady_seconds

    @property
    def inferences_per_joule(self) -> float | None:
        """One run after the other, each waiting for the one before."""
        joules = self.energy_joules
        return self.batch / joules if joules else None

    @property
    def array_macs(self) -> int:
        """Multiply-accumulates that the array computes, rather than the vector unit or the host."""
        return sum(row.macs for row in self.rows if row.placed == "array")

    @property
    def total(self) -> LayerRow:
        """The sum of the rows; the run's own cycles."""
        return total_of(self.rows, float(self.cycles))

    @property
    def fallbacks(self) -> tuple[LayerRow, ...]:
        """Layers that the host computes."""
        return tuple(row for row in self.rows if row.placed == "host")

    def worst(self, count: int = 3) -> tuple[LayerRow, ...]:
        """The layers that lose the most cycles above their bound, most first."""
        ranked = sorted(self.rows, key=lambda row: -row.lost_cycles)
        return tuple(row for row in ranked[:count] if row.lost_cycles >= 1)


def total_of(rows: tuple[LayerRow, ...], cycles: float) -> LayerRow:
    """A row that sums `rows`, for a run of `cycles`."""
    busy: dict[Limit, float] = {}
    for row in rows:
        for limit, amount in row.busy_cycles.items():
            busy[limit] = busy.get(limit, 0) + amount
    joules = [row.joules for row in rows if row.joules is not None]
    return LayerRow(
        name="total",
        op="",
        placed="",
        shape=(),
        macs=sum(r.macs for r in rows),
        vector_operations=sum(r.vector_operations for r in rows),
        weight_bytes=sum(r.weight_bytes for r in rows),
        input_bytes=sum(r.input_bytes for r in rows),
        output_bytes=sum(r.output_bytes for r in rows),
        device_memory_bytes=sum(r.device_memory_bytes for r in rows),
        cycles=cycles,
        ideal_array_cycles=sum(r.ideal_array_cycles for r in rows),
        ideal_memory_cycles=sum(r.ideal_memory_cycles for r in rows),
        busy_cycles=busy,
        ledger=sum_by_name(row.ledger for row in rows),
        counts=sum_by_name(row.counts for row in rows),
        joules=sum_by_name(joules) if joules else None,
    )
