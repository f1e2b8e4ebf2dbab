"""Joules of what instructions do: their counts times the machine's figures, level by level."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.machine.description import Energy, Machine
from ridgeline.machine.instructions import Activity
from ridgeline.results.energy import ARRAY_MACS, IDLE

Counts = dict[str, int]
"""By the names of `results.energy.COUNTS`, and of multiply-accumulates by format."""


def add_counts(counts: Counts, activity: Activity) -> None:
    """Add one instruction's activity."""
    for name, amount in (
        (ARRAY_MACS + activity.mac_format, activity.macs),
        ("array_register_bytes", activity.array_register_bytes),
        ("accumulator_read_bytes", activity.accumulator_read_bytes),
        ("accumulator_write_bytes", activity.accumulator_write_bytes),
        ("buffer_reads", activity.buffer_reads),
        ("buffer_writes", activity.buffer_writes),
        ("slot_read_bytes", activity.slot_read_bytes),
        ("slot_write_bytes", activity.slot_write_bytes),
        ("device_read_bytes", activity.device_read_bytes),
        ("device_write_bytes", activity.device_write_bytes),
        ("host_link_bytes", activity.host_link_bytes),
        ("lane_operations", activity.vector_operations),
    ):
        if amount:
            counts[name] = counts.get(name, 0) + amount


def joules_by_level(
    counts: Mapping[str, int], machine: Machine, cycles: float
) -> dict[str, float] | None:
    """Energy of these counts, and of `cycles` of idle power; None without the machine's figures."""
    if machine.energy is None:
        return None
    levels = _work(counts, machine.energy, machine.unified_buffer.line_bytes)
    levels[IDLE] = machine.energy.idle_watts * cycles / machine.clock_hz
    return levels


def work_joules(activity: Activity, machine: Machine) -> float:
    """Energy of one instruction, without idle power. The machine must have its figures."""
    assert machine.energy is not None
    counts: Counts = {}
    add_counts(counts, activity)
    return sum(_work(counts, machine.energy, machine.unified_buffer.line_bytes).values())


def _work(counts: Mapping[str, int], energy: Energy, line_bytes: int) -> dict[str, float]:
    def total(*names: str) -> int:
        return sum(counts.get(name, 0) for name in names)

    multiply = sum(total(ARRAY_MACS + name) * joules for name, joules in energy.mac_joules.items())
    lines = total("buffer_reads", "buffer_writes")
    sums = total("accumulator_read_bytes", "accumulator_write_bytes")
    slots = total("slot_read_bytes", "slot_write_bytes")
    device = total("device_read_bytes", "device_write_bytes")
    registers = total("array_register_bytes")
    return {
        "multiply": multiply,
        "registers": registers * energy.array_register_joules_per_byte,
        "accumulators": sums * energy.accumulator_joules_per_byte,
        "unified buffer": lines * line_bytes * energy.unified_buffer_joules_per_byte,
        "slots": slots * energy.slot_joules_per_byte,
        "device memory": device * energy.device_memory_joules_per_byte,
        "host link": total("host_link_bytes") * energy.host_link_joules_per_byte,
        "vector": total("lane_operations") * energy.vector_operation_joules,
    }
