"""What an instruction does that costs energy, as exact counts; `machine.energy` prices them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts of one instruction. A memory is charged for what it really moves: the unified buffer
    for whole lines, device memory for whole bursts.
    """

    macs: int = 0
    """Multiply-accumulates in the array, of real weights; the image's padding included."""
    mac_format: str = "int8"
    """Format of the activations that `macs` multiply."""
    array_register_bytes: int = 0
    """Written into the registers of elements: operands as they pass, and sums."""
    accumulator_read_bytes: int = 0
    accumulator_write_bytes: int = 0
    buffer_reads: int = 0
    """Lines read from the unified buffer."""
    buffer_writes: int = 0
    """Lines written, wholly or in part."""
    slot_read_bytes: int = 0
    """From weight and parameter slots."""
    slot_write_bytes: int = 0
    device_read_bytes: int = 0
    """From device memory, in whole bursts."""
    device_write_bytes: int = 0
    host_link_bytes: int = 0
    vector_operations: int = 0
    """Steps of single lanes of the vector unit."""
