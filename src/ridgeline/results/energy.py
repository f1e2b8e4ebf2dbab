"""What is counted and priced for energy, and how power is judged: names, units and sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Number = TypeVar("Number", int, float)

IDLE = "idle"

LEVELS: dict[str, str] = {
    "multiply": "multiply-accumulates of the array",
    "registers": "operands and sums that pass through the array",
    "accumulators": "sums read and written",
    "unified buffer": "lines read and written",
    "slots": "weights and parameters into and out of their slots",
    "device memory": "bursts",
    "host link": "bytes that cross it",
    "vector": "operations of the vector unit",
    IDLE: "leakage and clock, for as long as the layer's cycles take",
}
"""Where energy goes, and what it is spent on there."""

ARRAY_MACS = "array_macs_"
"""With the format of the activations behind it: the count of multiply-accumulates of the array."""

COUNTS: dict[str, str] = {
    "array_register_bytes": "bytes written into registers of the array's elements",
    "accumulator_read_bytes": "bytes read from the accumulators",
    "accumulator_write_bytes": "bytes written to the accumulators",
    "buffer_reads": "lines read from the unified buffer",
    "buffer_writes": "lines written to the unified buffer",
    "slot_read_bytes": "bytes read from weight and parameter slots",
    "slot_write_bytes": "bytes written to weight and parameter slots",
    "device_read_bytes": "bytes read from device memory, in whole bursts",
    "device_write_bytes": "bytes written to device memory, in whole bursts",
    "host_link_bytes": "bytes over the host link",
    "lane_operations": "steps of single lanes of the vector unit",
}
"""What is counted of every layer, beside its multiply-accumulates by format."""


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """What a report says about power: the machine's figures and the busiest window of the run.

    `peak_watts` is at the machine's full clock, over `window_seconds` or over the whole run where
    that is shorter. `slowdown` is the factor by which the clock is lowered to keep to the limit: 1
    where it is not. None: the machine does not say.
    """

    idle_watts: float
    window_seconds: float | None = None
    peak_watts: float | None = None
    limit_watts: float | None = None
    policy: str = ""
    slowdown: float = 1.0

    @property
    def throttles(self) -> bool:
        return self.limit_watts is not None and self.policy == "throttle"

    @property
    def above_limit(self) -> bool:
        """Whether the busiest window would draw more than the limit at full clock."""
        if self.limit_watts is None or self.peak_watts is None:
            return False
        return self.peak_watts > self.limit_watts


def sum_by_name(tables: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    """The tables added entry by entry, in the order in which entries first occur."""
    total: dict[str, Number] = {}
    for table in tables:
        for name, amount in table.items():
            total[name] = total[name] + amount if name in total else amount
    return total
