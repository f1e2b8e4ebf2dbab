"""The rows of a report: plain figures, from which every view (text, CSV, JSON) is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Placed = Literal["array", "vector", "move", "host", ""]
Limit = Literal["array", "vector", "memory", "link", "host", "none"]

LIMITS: dict[Limit, str] = {
    "array": "the MAC array",
    "vector": "the vector unit",
    "memory": "device memory",
    "link": "the link to the host",
    "host": "the host",
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
        """Cycles beyond those that useful array work needs."""
        return self.cycles - self.ideal_array_cycles

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

    `steady_cycles` is the interval between runs that follow each other without a pause, when
    known: input of the next run is loaded while this one computes.
    """

    model: str
    machine: MachineFacts
    numeric_mode: str
    batch: int
    cycles: int
    device_cycles: int
    rows: tuple[LayerRow, ...]
    steady_cycles: int | None = None
    accuracy: Accuracy | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know, such as that calibration used random data."""

    @property
    def seconds(self) -> float:
        """Latency of one run."""
        return self.cycles / self.machine.clock_hz

    @property
    def inferences_per_s(self) -> float:
        """One run after the other, each waiting for the one before."""
        return self.batch / self.seconds if self.cycles else 0.0

    @property
    def steady_inferences_per_s(self) -> float | None:
        if not self.steady_cycles:
            return None
        return self.batch * self.machine.clock_hz / self.steady_cycles

    @property
    def total(self) -> LayerRow:
        """The sum of the rows; the run's own cycles."""
        return total_of(self.rows, float(self.cycles))

    @property
    def fallbacks(self) -> tuple[LayerRow, ...]:
        """Layers that the host computes."""
        return tuple(row for row in self.rows if row.placed == "host")

    def worst(self, count: int = 3) -> tuple[LayerRow, ...]:
        """The layers that lose the most cycles, most first."""
        ranked = sorted(self.rows, key=lambda row: -row.lost_cycles)
        return tuple(row for row in ranked[:count] if row.cycles > 0)


def total_of(rows: tuple[LayerRow, ...], cycles: float) -> LayerRow:
    """A row that sums `rows`, for a run of `cycles`."""
    busy: dict[Limit, float] = {}
    ledger: dict[str, float] = {}
    for row in rows:
        for limit, amount in row.busy_cycles.items():
            busy[limit] = busy.get(limit, 0) + amount
        for name, amount in row.ledger.items():
            ledger[name] = ledger.get(name, 0) + amount
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
        ledger=ledger,
    )
