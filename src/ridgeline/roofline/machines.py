"""A machine file as a chip: its peak, memories and host link, for workloads to be put on."""

from __future__ import annotations

from ridgeline.chips.sheet import PRECISIONS, Chip, Link, Memory, Peak, Sourced
from ridgeline.machine.description import Machine


def chip_of(machine: Machine) -> Chip:
    """The sheet that a machine's figures give: what it does at most, not what is simulated."""
    array = machine.array

    def figure(key: str, value: float, unit: str) -> Sourced:
        source = machine.sources.get(key, f"machine {machine.name}")
        return Sourced(value, unit, source, "machine file", "derived")

    peaks = tuple(
        Peak(
            name,
            figure(
                "array.macs_per_pe_per_cycle",
                2 * array.rows * array.cols * float(rate) * machine.clock_hz,
                "operations/s",
            ),
            unchecked="from the machine's own array and clock",
        )
        for name, rate in array.macs_per_pe_per_cycle.items()
        if name in PRECISIONS
    )
    memory, buffer = machine.device_memory, machine.unified_buffer
    near_bytes_per_s = buffer.banks * buffer.line_bytes * machine.clock_hz
    return Chip(
        *(machine.name, machine.name, "machine file", 2026, "npu", peaks),
        memories=(
            Memory(
                "device memory",
                "main",
                figure("device_memory.bytes", memory.bytes, "bytes"),
                figure("device_memory.bytes_per_s", memory.bytes_per_s, "bytes/s"),
            ),
            Memory(
                "unified buffer",
                "on-chip",
                figure("unified_buffer.bytes", buffer.bytes, "bytes"),
                figure("unified_buffer.banks", near_bytes_per_s, "bytes/s"),
            ),
        ),
        links=(
            Link(
                "PCIe or other host link",
                figure("host_link.bytes_per_s", machine.host_link.bytes_per_s, "bytes/s"),
            ),
        ),
        clock=figure("clock_hz", machine.clock_hz, "Hz"),
        array=f"{array.rows}x{array.cols}",
    )
