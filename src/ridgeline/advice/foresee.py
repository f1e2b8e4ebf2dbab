"""How long a program will take after a change, from its run as it is: nothing is compiled.

Of each layer the run says what it needed of each resource and what of that it waited for. What it
will need is the same instructions on the changed machine, or, where the change moves the borders of
tiles or what fits on chip, the same scaled as the outlines of both are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ridgeline.compiler.outline import Need, Outline, Plan, moved_bytes, plan_of
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.latencies import LATENCIES
from ridgeline.machine.program import Program
from ridgeline.machine.tabulate import busy_cycles
from ridgeline.results.rows import LayerRow, Limit, Report

Busy = Mapping[Limit, float]

RESOURCE: dict[str, Limit] = {
    "useful": "compute",
    "again": "compute",
    "unused": "compute",
    "weight shift": "compute",
    "weight stall": "memory",
    "input": "memory",
    "store": "memory",
    "vector": "vector",
    "read-after-write": "vector",
    "link": "host link",
    "host": "fallback",
}
"""Whose work each entry of the ledger waits for; the rest (issue, drain) stays as it is."""
PIPELINE = ("read-after-write", "drain")
"""Entries in which the last sums of a layer leave the array."""


@dataclass(frozen=True, slots=True)
class Run:
    """A compiled graph and the report of its run."""

    graph: Graph
    program: Program
    made: Report


def foreseen(run: Run, then: Graph, machine: Machine, times: int, *, planned: bool) -> float:
    """Cycles of the run of `then`, `times` the batch, on `machine`.

    `planned`: tiles, what fits on chip or what runs where are not those of the run. Raises
    RidgelineError where the machine cannot hold a layer's form.
    """
    was = busy_cycles(run.program)
    rows = list(zip(run.made.rows, was, strict=False))
    total = float(run.made.cycles) - sum(row.cycles for row in run.made.rows)
    if not planned:
        now = busy_cycles(replace(run.program, machine=machine))
        return total + sum(after(row, b, n) for (row, b), n in zip(rows, now, strict=False))
    before, later = plan_of(run.graph, run.program.machine), plan_of(then, machine)
    old, new = _fitting(run, before, later)
    longer = _array_latency(machine) - _array_latency(run.program.machine)
    for row, busy in rows:
        a, b = old.get(row.name), new.get(row.name)
        if a is None:
            total += row.cycles + (0.0 if b is None else _alone(b, machine))
        elif b is not None:
            drain = longer * _drains(row, run.program.machine)
            made = after(row, busy, _scaled(busy, a, b, machine, times))
            total += max(0.0, made + drain + b.slot_cycles - a.slot_cycles)
    parts = later.device_parts - before.device_parts
    crossed = 2 * parts * machine.link_latency_cycles
    return total + later.host_cycles - before.host_cycles + crossed


def _fitting(run: Run, before: Plan, later: Plan) -> tuple[Outline, Outline]:
    """Before and after, by the estimate of room that fits the run best."""
    moved = sum(row.device_memory_bytes for row in run.made.rows)
    found = zip(before.outlines, later.outlines, strict=True)
    return min(found, key=lambda pair: abs(moved_bytes(pair[0]) - moved))


def _alone(need: Need, machine: Machine) -> float:
    """Of a layer that the host made before."""
    port = need.moved_bytes * machine.clock_hz / machine.device_memory.bytes_per_s
    return max(need.array_cycles + need.slot_cycles, need.vector_cycles, port)


def _array_latency(machine: Machine) -> int:
    return machine.array.rows + machine.array.cols + LATENCIES.array


def _drains(row: LayerRow, machine: Machine) -> bool:
    """Whether all waited until the array's last sums were out, as they do before other layers."""
    waited = max(row.ledger.get(name, 0.0) for name in PIPELINE)
    return row.placed == "array" and waited >= machine.array.cols


def _scaled(busy: Busy, a: Need, b: Need, machine: Machine, times: int) -> dict[Limit, float]:
    """Busy cycles of a layer, scaled as the outlines are; its part of the link's by the batch."""
    scaled: dict[Limit, float] = dict(busy)
    if "host link" in scaled:
        scaled["host link"] *= times
    parts: tuple[tuple[Limit, float, float], ...] = (
        ("compute", a.array_cycles, b.array_cycles),
        ("vector", a.vector_cycles, b.vector_cycles),
        ("memory", a.moved_bytes - a.spilled_bytes, b.moved_bytes - b.spilled_bytes),
    )
    for limit, was, now in parts:
        if was and limit in busy:
            scaled[limit] = busy[limit] * now / was
    # Whole lines go out and come back: these waste no bursts, whatever the other transfers do.
    more = (b.spilled_bytes - a.spilled_bytes) / machine.device_memory.bytes_per_s
    if more:
        memory = scaled.get("memory", 0.0) + more * machine.clock_hz
        scaled["memory"] = max(memory, 0.0)
    return scaled


def after(row: LayerRow, was: Busy, now: Busy) -> float:
    """A layer's cycles when what it needs of each resource changes.

    Of a resource's cycles those in the ledger were waited for, the others went on behind the rest
    of the layer for as long as that lasts, and beyond it behind other layers: there as many bytes
    still do, since what comes early is bound by the room for it.
    """
    waited: dict[Limit, float] = {}
    fixed = 0.0
    for entry, cycles in row.ledger.items():
        resource = RESOURCE.get(entry)
        if resource is None:
            fixed += cycles
        else:
            waited[resource] = waited.get(resource, 0.0) + cycles
    array = waited.pop("compute", 0.0)
    needed = was.get("compute", 0.0)
    computed = array * now.get("compute", 0.0) / needed if needed else array
    for resource in now:
        if resource != "compute":
            waited.setdefault(resource, 0.0)
    vector = waited.get("vector", 0.0)
    made = _in_part(vector, was.get("vector", 0.0), now.get("vector", 0.0))
    total = fixed + computed
    for resource, cycles in waited.items():
        other = resource != "vector"
        rest = _Rest(array + other * vector, computed + other * made, max(0.0, computed - array))
        total += _waited(cycles, was.get(resource, 0.0), now.get(resource, 0.0), rest)
    return total


@dataclass(frozen=True, slots=True)
class _Rest:
    """What else a layer does while it waits, before and then; how much longer the array takes."""

    before: float
    then: float
    longer: float


def _in_part(cycles: float, before: float, then: float) -> float:
    """Of what was waited for, as much as is needed of before; latencies stay."""
    if not before:
        return cycles
    alone = max(0.0, cycles - before)
    return alone + (cycles - alone) * then / before


def _waited(cycles: float, before: float, then: float, rest: _Rest) -> float:
    """What is waited for of a resource when it is needed for `then` cycles."""
    hidden = max(0.0, before - cycles)
    if then > before:
        return max(cycles, then - max(hidden + rest.longer, rest.then))
    if not before:
        return cycles
    alone, within = max(0.0, cycles - before), min(hidden, rest.before)
    beyond = (hidden - within) * then / before
    return alone + max(0.0, then - min(within, rest.then) - rest.longer - beyond)
