"""Joules of what instructions do: their counts times the machine's figures, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import ARRAY_FORMATS, Energy, Machine
from ridgeline.machine.instructions import Activity, Instruction
from ridgeline.results.energy import ARRAY_MACS, COUNTS, IDLE

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NAMES = (*(ARRAY_MACS + name for name in ARRAY_FORMATS), *COUNTS)
"""What is counted: the columns of a table of activity."""


def activity_table(instructions: Sequence[Instruction], machine: Machine) -> Integers:
    """Counts [instruction, name]."""
    rows = [_row(one.activity(machine)) for one in instructions]
    return np.asarray(rows, np.int64).reshape(len(rows), len(NAMES))


@lru_cache(maxsize=65536)
def _row(activity: Activity) -> tuple[int, ...]:
    """In the order of NAMES."""
    macs = (activity.macs if activity.mac_format == name else 0 for name in ARRAY_FORMATS)
    return (
        *macs,
        activity.array_register_bytes,
        activity.accumulator_read_bytes,
        activity.accumulator_write_bytes,
        activity.buffer_reads,
        activity.buffer_writes,
        activity.slot_read_bytes,
        activity.slot_write_bytes,
        activity.device_read_bytes,
        activity.device_write_bytes,
        activity.host_link_bytes,
        activity.vector_operations,
    )


def counts_by_layer(table: Integers, layers: Sequence[int], count: int) -> list[dict[str, int]]:
    """Counts of each of `count` layers, and last of what belongs to none (layer -1)."""
    sums = np.zeros((count + 1, len(NAMES)), np.int64)
    np.add.at(sums, np.asarray(layers, np.int64), table)
    return [
        {name: int(n) for name, n in zip(NAMES, line, strict=True) if n} for line in sums.tolist()
    ]


def joules_by_level(
    counts: Mapping[str, int], machine: Machine, cycles: float
) -> dict[str, float] | None:
    """Energy of these counts, and of `cycles` of idle power; None without the machine's figures."""
    if machine.energy is None:
        return None
    joules: dict[str, float] = {}
    for name, (level, price) in _prices(machine.energy, machine).items():
        joules[level] = joules.get(level, 0.0) + counts.get(name, 0) * price
    joules[IDLE] = machine.energy.idle_watts * cycles / machine.clock_hz
    return joules


def work_joules(table: Integers, energy: Energy, machine: Machine) -> Floats:
    """Energy of each row of a table of activity, without idle power."""
    prices = _prices(energy, machine)
    return table.astype(np.float64) @ np.asarray([prices[name][1] for name in NAMES])


def _prices(energy: Energy, machine: Machine) -> dict[str, tuple[str, float]]:
    """For each name its level and the joules of one."""
    line = machine.unified_buffer.line_bytes * energy.unified_buffer_joules_per_byte
    sums, slots = energy.accumulator_joules_per_byte, energy.slot_joules_per_byte
    device = energy.device_memory_joules_per_byte
    macs = {
        # A format without a figure is one that the array does not take.
        ARRAY_MACS + name: ("multiply", energy.mac_joules.get(name, 0.0))
        for name in ARRAY_FORMATS
    }
    return {
        **macs,
        "array_register_bytes": ("registers", energy.array_register_joules_per_byte),
        "accumulator_read_bytes": ("accumulators", sums),
        "accumulator_write_bytes": ("accumulators", sums),
        "buffer_reads": ("unified buffer", line),
        "buffer_writes": ("unified buffer", line),
        "slot_read_bytes": ("slots", slots),
        "slot_write_bytes": ("slots", slots),
        "device_read_bytes": ("device memory", device),
        "device_write_bytes": ("device memory", device),
        "host_link_bytes": ("host link", energy.host_link_joules_per_byte),
        "lane_operations": ("vector", energy.vector_operation_joules),
    }
