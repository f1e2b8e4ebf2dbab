"""How long a program will take after a change, from its run as it is: nothing is compiled.

Of each layer the run says what it needed of each resource and what of that it waited for. What it
will need is the same instructions on the changed machine, or, where the change moves the borders of
tiles or what fits on chip, the same scaled as the outlines of both are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ridgeline.compiler.outline import Outline, moved_bytes, outlines
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.latencies import LATENCIES
from ridgeline.machine.program import HostSegment, Program
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

    `planned`: tiles, or what fits on chip, are not those of the run. Raises RidgelineError where
    the machine cannot hold a layer's form.
    """
    was = busy_cycles(run.program)
    grown = _more_on_host(run.program, times)
    now = busy_cycles(grown if planned else replace(grown, machine=machine))
    slots = [0.0] * len(now)
    if planned:
        old, new = _outlines(run, then, machine)
        now = [
            _scaled(row, busy, old, new, machine, times)
            for row, busy in zip(run.made.rows, now, strict=False)
        ]
        slots = [_slot_cycles(row, new) - _slot_cycles(row, old) for row in run.made.rows]
    longer = _array_latency(machine) - _array_latency(run.program.machine)
    total = float(run.made.cycles) - sum(row.cycles for row in run.made.rows)
    for row, before, busy, slot in zip(run.made.rows, was, now, slots, strict=False):
        drain = longer * _drains(row, run.program.machine)
        total += max(0.0, after(row, before, busy) + drain + slot)
    return total


def _slot_cycles(row: LayerRow, outline: Outline) -> float:
    need = outline.get(row.name)
    return 0.0 if need is None else need.slot_cycles


def _array_latency(machine: Machine) -> int:
    return machine.array.rows + machine.array.cols + LATENCIES.array


def _drains(row: LayerRow, machine: Machine) -> bool:
    """Whether all waited until the array's last sums were out, as they do before other layers."""
    waited = max(row.ledger.get(name, 0.0) for name in PIPELINE)
    return row.placed == "array" and waited >= machine.array.cols


def _more_on_host(program: Program, times: int) -> Program:
    """The program whose host segments work on so many samples: calls cost the same, work grows."""
    segments = tuple(
        replace(
            s, operations=s.operations * times, inputs=s.inputs * times, outputs=s.outputs * times
        )
        if isinstance(s, HostSegment)
        else s
        for s in program.segments
    )
    return replace(program, segments=segments)


def _outlines(run: Run, then: Graph, machine: Machine) -> tuple[Outline, Outline]:
    """Before and after, by the estimate of room that fits the run best."""
    moved = sum(row.device_memory_bytes for row in run.made.rows)
    olds = outlines(run.graph, run.program.machine)
    best = min(range(len(olds)), key=lambda i: abs(moved_bytes(olds[i]) - moved))
    return olds[best], outlines(then, machine)[best]


def _scaled(
    row: LayerRow,
    busy: dict[Limit, float],
    old: Outline,
    new: Outline,
    machine: Machine,
    times: int,
) -> dict[Limit, float]:
    """Busy cycles of a layer, scaled as the outlines are; its part of the link's by the batch."""
    a, b = old.get(row.name), new.get(row.name)
    if "host link" in busy:
        busy = {**busy, "host link": busy["host link"] * times}
    if a is None or b is None:
        return busy
    scaled: dict[Limit, float] = dict(busy)
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
    of the layer and behind other layers. Of fewer cycles the same part is waited for, since what
    can go on early is bound by room; more go on behind the rest for as long as that lasts.
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
    less = {r: _in_part(c, was.get(r, 0.0), now.get(r, 0.0)) for r, c in waited.items()}
    total = fixed + computed
    for resource, cycles in waited.items():
        rest = computed + (less.get("vector", 0.0) if resource != "vector" else 0.0)
        before, then = was.get(resource, 0.0), now.get(resource, 0.0)
        total += _waited(cycles, before, then, rest, max(0.0, computed - array))
    return total


def _in_part(cycles: float, before: float, then: float) -> float:
    """Of what was waited for, as much as is needed of before; latencies stay."""
    if not before:
        return cycles
    alone = max(0.0, cycles - before)
    return alone + (cycles - alone) * then / before


def _waited(cycles: float, before: float, then: float, rest: float, longer: float) -> float:
    """What is waited for of a resource: `rest` is what else the layer does meanwhile, `longer` how
    much more of that the array does than before.
    """
    hidden = max(0.0, before - cycles)
    if then > before:
        return max(cycles, then - max(hidden + longer, rest))
    if not before:
        return cycles
    alone, within = max(0.0, cycles - before), min(hidden, rest)
    beyond = (hidden - within) * then / before
    return alone + max(0.0, then - within - longer - beyond)
