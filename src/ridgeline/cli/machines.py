"""`ridgeline machines`: the table of machines, or every field of one with where it comes from."""

from __future__ import annotations

import json
from typing import Any

from ridgeline.cli.outputs import say
from ridgeline.cli.show import terminal_width
from ridgeline.machine.description import Machine
from ridgeline.machine.loader import load_machine, machine_names, machine_to_dict
from ridgeline.render.machine import figures
from ridgeline.render.plain import columns_of, left, visible, wrapped
from ridgeline.render.units import quantity, size

HEADINGS = ("machine", "array", "clock", "peak", "on chip", "memory", "rate", "MAC/byte")


def show_machines(name: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Print all shipped machines, or the one called `name` (or in that file)."""
    if name is None:
        machines = [load_machine(one, settings) for one in machine_names()]
        say(json.dumps([_summary(m) for m in machines], indent=2) if as_json else table(machines))
    else:
        machine = load_machine(name, settings)
        details = {**machine_to_dict(machine), "summary": _summary(machine)}
        say(json.dumps(details, indent=2) if as_json else fields(machine, terminal_width()))


def _summary(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "description": machine.description,
        "rows": machine.array.rows,
        "cols": machine.array.cols,
        "clock_hz": machine.clock_hz,
        "peak_operations_per_s": 2 * machine.peak_macs_per_s,
        "unified_buffer_bytes": machine.unified_buffer.bytes,
        "device_memory_bytes": machine.device_memory.bytes,
        "device_memory_bytes_per_s": machine.device_memory.bytes_per_s,
        "balance_macs_per_byte": machine.balance_macs_per_byte,
    }


def table(machines: list[Machine]) -> str:
    """A line for each machine: array, peak, memories, and the balance point between the two."""
    lines: list[list[str]] = [list(HEADINGS)]
    for machine in machines:
        lines.append(
            [
                visible(machine.name),
                f"{machine.array.rows}x{machine.array.cols}",
                quantity(machine.clock_hz, "Hz"),
                quantity(2 * machine.peak_macs_per_s, "OPS"),
                size(machine.unified_buffer.bytes),
                size(machine.device_memory.bytes),
                quantity(machine.device_memory.bytes_per_s, "B/s"),
                f"{machine.balance_macs_per_byte:,.0f}",
            ]
        )
    wide = [max(columns_of(line[i]) for line in lines) for i in range(len(HEADINGS))]
    texts: list[str] = []
    for line in lines:
        cells = [left(line[0], wide[0])]
        cells += [cell.rjust(w) for cell, w in zip(line[1:], wide[1:], strict=True)]
        texts.append("  ".join(cells).rstrip())
    remarks = [
        "",
        "Peak is int8; an operation is half a multiply-accumulate. A layer with fewer",
        "MACs for each byte of device memory than the last column is limited by that",
        "memory. `ridgeline machines NAME` shows every field and where it comes from.",
    ]
    return "\n".join([*texts, *remarks])


def fields(machine: Machine, width: int) -> str:
    """Every field with its value, and below it where the figure comes from."""
    width = max(width, 40)
    lines = wrapped(visible(f"{machine.name}: {machine.description}"), width, "    ")
    peak = quantity(2 * machine.peak_macs_per_s, "OPS")
    balance = f"{machine.balance_macs_per_byte:,.1f} MACs/byte"
    lines += [f"peak {peak}, balance {balance}", ""]
    for key, value, source in figures(machine):
        lines += wrapped(visible(f"{key} = {value}"), width, "    ")
        lines += ["    " + line for line in wrapped(visible(source), width - 4)]
    return "\n".join(lines)
