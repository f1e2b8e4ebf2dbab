"""What a machine is: its blocks and their parameters, complete and checked when constructed.

The compiler, the execution, the simulation and the RTL generator all read this one object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Literal

from ridgeline.errors import RidgelineError
from ridgeline.numerics.requantize import DEFAULT_MODE, MODES

Dataflow = Literal["weight-stationary", "output-stationary", "input-stationary"]
DATAFLOWS: tuple[str, ...] = ("weight-stationary", "output-stationary", "input-stationary")

ARRAY_FORMATS = ("int8", "int16")
"""Activation formats that an array may take, beside int8 weights: int16 in two byte passes."""

VECTOR_OPERATIONS = (
    "requantize",
    "add",
    "mul",
    "rescale",
    "max_pool",
    "average_pool",
    "depthwise",
    "lookup",
    "slope",
    "subtract",
    "maximum",
    "minimum",
)

# Widths of the instruction fields bound the machine; see machine/instructions.
MAX_LINES = 1 << 20
MAX_BANKS = 16
MAX_ARRAY_SIDE = 512
MAX_ACCUMULATOR_ENTRIES = 1 << 16


@cache
def _burst_cycles(bytes_per_s: float, clock_hz: float, burst_bytes: int) -> Fraction:
    return burst_bytes * Fraction(clock_hz) / Fraction(bytes_per_s)


def _require(condition: bool, key: str, what: str, fix: str = "") -> None:
    if not condition:
        raise RidgelineError(what, where=key, fix=fix)


def _positive(key: str, value: float, most: float | None = None) -> None:
    _require(value > 0, key, f"must be greater than 0, not {value}")
    if most is not None:
        _require(value <= most, key, f"{value} is more than the instruction set holds ({most})")


def _between(key: str, value: float, least: float, most: float) -> None:
    _require(least <= value <= most, key, f"must lie in {least:g} to {most:g}, not {value:g}")


def _rate(key: str, value: float) -> None:
    """A rate that some part could have: from one a second to a million times a million million."""
    _between(key, value, 1, 1e18)


def _wait(key: str, value: float) -> None:
    """A time that someone would wait: from nothing to a quarter of an hour."""
    _between(key, value, 0, 1000)


@dataclass(frozen=True, slots=True)
class Array:
    """The MAC array: `rows` along k, `cols` along n.

    `macs_per_pe_per_cycle` names the activation formats that the array takes and their rate.
    `weight_rows_per_cycle` rows of a tile shift from the weight buffer into the array each cycle.
    """

    rows: int
    cols: int
    dataflow: Dataflow
    macs_per_pe_per_cycle: Mapping[str, Fraction]
    weight_rows_per_cycle: int
    weight_slots: int
    accumulator_entries: int
    accumulator_bits: int
    stream_after_rows: int = 1
    """Rows of a tile that have shifted in before the stream past it begins."""

    def __post_init__(self) -> None:
        _positive("array.rows", self.rows, MAX_ARRAY_SIDE)
        _positive("array.cols", self.cols, MAX_ARRAY_SIDE)
        _require(
            self.dataflow in DATAFLOWS,
            "array.dataflow",
            f"'{self.dataflow}' is not a dataflow",
            "Use one of " + ", ".join(DATAFLOWS),
        )
        _positive("array.weight_rows_per_cycle", self.weight_rows_per_cycle, self.rows)
        _positive("array.stream_after_rows", self.stream_after_rows, self.rows)
        _positive("array.weight_slots", self.weight_slots, 256)
        _require(
            self.weight_slots >= 2,
            "array.weight_slots",
            f"{self.weight_slots} slot cannot hold one tile while the next is read",
            "Use at least 2",
        )
        _positive("array.accumulator_entries", self.accumulator_entries, MAX_ACCUMULATOR_ENTRIES)
        _require(
            self.accumulator_entries >= 2,
            "array.accumulator_entries",
            "1 entry cannot be double-buffered",
            "Use at least 2",
        )
        _require(
            self.accumulator_bits in (32, 48),
            "array.accumulator_bits",
            f"{self.accumulator_bits} bits are not built",
            "Use 32, or 48 for int16 activations",
        )
        self._check_formats()

    def _check_formats(self) -> None:
        for name, rate in self.macs_per_pe_per_cycle.items():
            key = f"array.macs_per_pe_per_cycle.{name}"
            _require(
                name in ARRAY_FORMATS,
                key,
                f"'{name}' is not a format of the array",
                "Known: " + ", ".join(ARRAY_FORMATS),
            )
            built = Fraction(1, planes_of(name))
            _require(rate == built, key, f"rate {rate} is not built", f"Use {float(built)}")
        _require(
            "int8" in self.macs_per_pe_per_cycle, "array.macs_per_pe_per_cycle", "int8 is missing"
        )


def planes_of(activation_format: str) -> int:
    """Byte planes, and so unified-buffer lines and passes, of one vector of this format."""
    return 2 if activation_format == "int16" else 1


@dataclass(frozen=True, slots=True)
class UnifiedBuffer:
    """On-chip activations: `bytes` in `banks` of equal size, read and written a line at a time."""

    bytes: int
    banks: int
    line_bytes: int

    @property
    def lines(self) -> int:
        return self.bytes // self.line_bytes

    @property
    def lines_per_bank(self) -> int:
        return self.lines // self.banks

    def __post_init__(self) -> None:
        _positive("unified_buffer.bytes", self.bytes)
        _positive("unified_buffer.banks", self.banks, MAX_BANKS)
        _positive("unified_buffer.line_bytes", self.line_bytes, 4096)
        _require(
            self.bytes % (self.banks * self.line_bytes) == 0,
            "unified_buffer.bytes",
            f"{self.bytes} bytes do not divide into {self.banks} banks of {self.line_bytes}-byte"
            " lines",
            f"Use a multiple of {self.banks * self.line_bytes}",
        )
        _positive("unified_buffer.bytes / line_bytes", self.lines, MAX_LINES)


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """`lanes` channels a cycle; `operations` are those that it has, the rest fall to the host."""

    lanes: int
    operations: tuple[str, ...]
    parameter_slots: int
    requantize: str = DEFAULT_MODE
    """How accumulators become stored integers: a row of `numerics.requantize.MODES`."""

    def __post_init__(self) -> None:
        _positive("vector.lanes", self.lanes, 4096)
        _require(
            self.requantize in MODES,
            "vector.requantize",
            f"'{self.requantize}' is not a way to requantise",
            "Known: " + ", ".join(MODES),
        )
        _positive("vector.parameter_slots", self.parameter_slots, 16)
        for name in self.operations:
            _require(
                name in VECTOR_OPERATIONS,
                "vector.operations",
                f"'{name}' is not an operation of the vector unit",
                "Known: " + ", ".join(VECTOR_OPERATIONS),
            )
        _require(
            "requantize" in self.operations,
            "vector.operations",
            "'requantize' is missing: nothing could leave the accumulators",
        )


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """DRAM or HBM behind one port. Every burst that an access touches costs its whole transfer."""

    bytes: int
    bytes_per_s: float
    burst_bytes: int
    latency_cycles: int
    lines_per_cycle: int = 1

    def __post_init__(self) -> None:
        _positive("device_memory.bytes", self.bytes, 1 << 40)
        _rate("device_memory.bytes_per_s", self.bytes_per_s)
        _positive("device_memory.burst_bytes", self.burst_bytes, 4096)
        _require(
            self.burst_bytes >= 8 and self.burst_bytes & (self.burst_bytes - 1) == 0,
            "device_memory.burst_bytes",
            f"{self.burst_bytes} is not a power of two of at least 8",
        )
        _require(
            0 <= self.latency_cycles < 1 << 16,
            "device_memory.latency_cycles",
            f"must lie in 0 to 65535, not {self.latency_cycles}",
        )
        _positive("device_memory.lines_per_cycle", self.lines_per_cycle, 64)


@dataclass(frozen=True, slots=True)
class HostLink:
    """Host memory to device memory, e.g. PCIe: payload rate and one-way latency."""

    bytes_per_s: float
    latency_seconds: float

    def __post_init__(self) -> None:
        _rate("host_link.bytes_per_s", self.bytes_per_s)
        _wait("host_link.latency_seconds", self.latency_seconds)


@dataclass(frozen=True, slots=True)
class Host:
    """The declared host model: what an operator costs that falls back. Never the wall clock."""

    operations_per_s: float
    bytes_per_s: float
    overhead_seconds: float

    def __post_init__(self) -> None:
        _rate("host.operations_per_s", self.operations_per_s)
        _rate("host.bytes_per_s", self.bytes_per_s)
        _wait("host.overhead_seconds", self.overhead_seconds)


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of one thing done, and watts when nothing is. What is not known is not guessed: a
    machine has all of these figures or no energy at all.
    """

    mac_joules: Mapping[str, float]
    """Of a multiply-accumulate in the array, by the format of the activation."""
    array_register_joules_per_byte: float
    accumulator_joules_per_byte: float
    unified_buffer_joules_per_byte: float
    slot_joules_per_byte: float
    device_memory_joules_per_byte: float
    host_link_joules_per_byte: float
    vector_operation_joules: float
    idle_watts: float

    def __post_init__(self) -> None:
        for name in self.mac_joules:
            known = "Known: " + ", ".join(ARRAY_FORMATS)
            key = f"energy.mac_joules.{name}"
            _require(name in ARRAY_FORMATS, key, f"'{name}' is not a format of the array", known)
        for name, joules in self.mac_joules.items():
            _between(f"energy.mac_joules.{name}", joules, 0, 1e-3)
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, float):
                _between(f"energy.{name}", value, 0, 1e5 if name == "idle_watts" else 1e-3)


PowerPolicy = Literal["flag", "throttle"]
POWER_POLICIES: tuple[str, ...] = ("flag", "throttle")


@dataclass(frozen=True, slots=True)
class Power:
    """The most that the busiest window may draw: told, or kept to by slowing the clock."""

    window_seconds: float
    limit_watts: float | None = None
    policy: PowerPolicy = "flag"

    def __post_init__(self) -> None:
        _between("power.window_seconds", self.window_seconds, 1e-9, 1000)
        if self.limit_watts is not None:
            _between("power.limit_watts", self.limit_watts, 1e-6, 1e6)
        _require(
            self.policy in POWER_POLICIES,
            "power.policy",
            f"'{self.policy}' is not a policy",
            "Use one of " + ", ".join(POWER_POLICIES),
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """One accelerator. `sources` says for each dotted key where its figure comes from."""

    name: str
    description: str
    clock_hz: float
    array: Array
    unified_buffer: UnifiedBuffer
    vector: VectorUnit
    device_memory: DeviceMemory
    host_link: HostLink
    host: Host
    queue_depth: int
    energy: Energy | None = None
    power: Power | None = None
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        _between("clock_hz", self.clock_hz, 1, 1e11)
        _positive("queue_depth", self.queue_depth, 1024)
        line_bytes, array = self.unified_buffer.line_bytes, self.array
        whole = lcm(array.rows, array.cols)
        _require(
            line_bytes % array.rows == 0 and line_bytes % array.cols == 0,
            "unified_buffer.line_bytes",
            f"{line_bytes} is not a multiple of array.rows ({array.rows}) and array.cols"
            f" ({array.cols}), so a vector could cross a line",
            f"Use {whole}, or leave it out",
        )
        _require(
            self.vector.requantize == DEFAULT_MODE or array.accumulator_bits == 32,
            "vector.requantize",
            f"'{self.vector.requantize}' takes 32-bit accumulators, and array.accumulator_bits is"
            f" {array.accumulator_bits}",
            f"Use {DEFAULT_MODE}",
        )
        self._check_energy()

    def _check_energy(self) -> None:
        if self.energy is None:
            _require(
                self.power is None, "power", "needs the figures of [energy], which are missing"
            )
            return
        for name in self.array.macs_per_pe_per_cycle:
            key = f"energy.mac_joules.{name}"
            _require(name in self.energy.mac_joules, key, "is missing: the array takes this format")
        limit, idle = self.power and self.power.limit_watts, self.energy.idle_watts
        if limit is not None:
            what = f"{limit:g} is not above energy.idle_watts ({idle:g}), so no clock keeps to it"
            _require(limit > idle, "power.limit_watts", what)

    @property
    def burst_cycles(self) -> Fraction:
        """Cycles that the device-memory port is busy for one burst."""
        memory = self.device_memory
        return _burst_cycles(memory.bytes_per_s, self.clock_hz, memory.burst_bytes)

    @property
    def link_bytes_per_cycle(self) -> Fraction:
        return Fraction(self.host_link.bytes_per_s) / Fraction(self.clock_hz)

    @property
    def link_latency_cycles(self) -> int:
        return round(self.host_link.latency_seconds * self.clock_hz)

    @property
    def peak_macs_per_s(self) -> float:
        """Peak int8 multiply-accumulates per second (operations are twice this)."""
        return self.array.rows * self.array.cols * self.clock_hz

    @property
    def balance_macs_per_byte(self) -> float:
        """Peak int8 MACs per second over device-memory bytes per second."""
        return self.peak_macs_per_s / self.device_memory.bytes_per_s
