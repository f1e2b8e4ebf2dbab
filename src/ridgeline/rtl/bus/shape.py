"""Widths of the bus around the accelerator, and what no bus can be."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine

PAGE_BYTES = 4096
"""A burst of AXI must not cross a multiple of this (AMBA AXI, IHI 0022, A3.4.1)."""

MOST_BURST_BEATS = 256
"""Of an incrementing burst of AXI4 (IHI 0022, A3.4.1)."""

DATA_BITS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Widths that AXI has (IHI 0022, A1.3.1)."""

ADDRESS_BITS, BURST_BEATS = 32, 16
"""Where nothing else is asked for: what every AXI interconnect takes."""

LEAST_ADDRESS_BITS, MOST_ADDRESS_BITS = 16, 64


@dataclass(frozen=True, slots=True)
class BusShape:
    """A memory bus: bits of its data and addresses, and the longest burst asked for.

    Raises RidgelineError for what AXI does not have.
    """

    data_bits: int
    address_bits: int = ADDRESS_BITS
    burst_beats: int = BURST_BEATS

    def __post_init__(self) -> None:
        if self.data_bits not in DATA_BITS:
            nearest = min(DATA_BITS, key=lambda bits: abs(bits - self.data_bits))
            raise RidgelineError(
                f"an AXI data bus has a power of two of bits from {DATA_BITS[0]} to"
                f" {DATA_BITS[-1]}, not {self.data_bits}",
                fix=f"Give --bus-bits {nearest}",
            )
        if not 1 <= self.burst_beats <= MOST_BURST_BEATS:
            raise RidgelineError(
                f"a burst has from 1 to {MOST_BURST_BEATS} beats, not {self.burst_beats}",
                fix="Give --burst-beats 16",
            )
        if not LEAST_ADDRESS_BITS <= self.address_bits <= MOST_ADDRESS_BITS:
            raise RidgelineError(
                f"an address has from {LEAST_ADDRESS_BITS} to {MOST_ADDRESS_BITS} bits,"
                f" not {self.address_bits}",
                fix="Give --address-bits 32",
            )

    def require_room(self, machine: Machine) -> None:
        """Raise RidgelineError where the machine's device memory is larger than the bus reaches."""
        size = machine.device_memory.bytes
        needed = (size - 1).bit_length()
        if needed > self.address_bits:
            raise RidgelineError(
                f"device memory of {size:,} bytes has addresses of {needed} bits, and the bus"
                f" {self.address_bits}",
                where=f"machine {machine.name}",
                fix=f"Give --address-bits {max(needed, 32)}",
            )

    @property
    def data_bytes(self) -> int:
        return self.data_bits // 8

    @property
    def lane_bits(self) -> int:
        """Bits of a byte's place within a beat."""
        return self.data_bytes.bit_length() - 1

    @property
    def size_code(self) -> int:
        """What ARSIZE and AWSIZE say: a beat has 2 to this power of bytes."""
        return self.lane_bits
