"""A machine file as a chip: its peak, memories and host link, for workloads to be put on."""

from __future__ import annotations

from ridgeline.chips.sheet import PRECISIONS, Chip, Link, Memory, Peak, Sourced
from ridgeline.machine.description import Machine


def chip_of(machine: Machine) -> Chip:
    """The sheet that a machine's figures give: what it does at most, not what is simulated."""
    link_bytes_per_s = machine.host_link.bytes_per_s
    link = _figure(machine, "host_link.bytes_per_s", link_bytes_per_s, "bytes/s")
    return Chip(
        *(machine.name, machine.name, "machine file", 2026, "npu", _peaks(machine)),
        memories=_memories(machine),
        links=(Link("PCIe or other host link", link),),
        clock=_figure(machine, "clock_hz", machine.clock_hz, "Hz"),
        array=f"{machine.array.rows}x{machine.array.cols}",
    )


def _figure(machine: Machine, key: str, value: float, unit: str) -> Sourced:
    """What a key of the file gives, with the file's own source of it."""
    source = machine.sources.get(key, f"machine {machine.name}")
    return Sourced(value, unit, source, "machine file", "derived")


def _peaks(machine: Machine) -> tuple[Peak, ...]:
    array, key = machine.array, "array.macs_per_pe_per_cycle"
    each = 2 * array.rows * array.cols * machine.clock_hz
    return tuple(
        Peak(
            name,
            _figure(machine, key, each * float(rate), "operations/s"),
            unchecked="from the machine's own array and clock",
        )
        for name, rate in array.macs_per_pe_per_cycle.items()
        if name in PRECISIONS
    )


def _memories(machine: Machine) -> tuple[Memory, Memory]:
    memory, buffer = machine.device_memory, machine.unified_buffer
    near_bytes_per_s = buffer.banks * buffer.line_bytes * machine.clock_hz
    return (
        Memory(
            "device memory",
            "main",
            _figure(machine, "device_memory.bytes", memory.bytes, "bytes"),
            _figure(machine, "device_memory.bytes_per_s", memory.bytes_per_s, "bytes/s"),
        ),
        Memory(
            "unified buffer",
            "on-chip",
            _figure(machine, "unified_buffer.bytes", buffer.bytes, "bytes"),
            _figure(machine, "unified_buffer.banks", near_bytes_per_s, "bytes/s"),
        ),
    )
