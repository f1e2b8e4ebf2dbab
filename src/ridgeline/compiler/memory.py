"""Addresses in device and host memory: a growing pointer, in whole granules."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.instructions.state import GRANULE_BYTES


@dataclass(slots=True)
class Space:
    """Hands out addresses from `next_address` on, so that nothing shares a granule."""

    next_address: int = 0

    def take(self, size_bytes: int) -> int:
        """The address of `size_bytes` new bytes."""
        address = self.next_address
        self.next_address += -(-size_bytes // GRANULE_BYTES) * GRANULE_BYTES
        return address
