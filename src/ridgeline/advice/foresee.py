"""How long a program will take after a change, from its run as it is: nothing is compiled.

Of each layer the run says what it needed of each resource and what of that it waited for. What it
will need is the same instructions on the changed machine, or, where the change moves the borders of
tiles or what fits on chip, the same scaled as the outlines of both are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    moved = replace(_more_on_host(run.program, times), machine=machine)
    now = busy_cycles(moved)
    if planned:
        now = list(_planned(run, then, machine, times, now))
    longer = _array_latency(machine) - _array_latency(run.program.machine)
    total = float(run.made.cycles) - sum(row.cycles for row in run.made.rows)
    rows = zip(run.made.rows, was, now, strict=False)
    return total + sum(
        after(row, b0, b1) + longer * _drains(row, run.program.machine) for row, b0, b1 in rows
    )


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


def _planned(
    run: Run, then: Graph, machine: Machine, times: int, now: list[dict[Limit, float]]
) -> Iterator[dict[Limit, float]]:
    """Busy cycles scaled as the outlines are, by the estimate of room that fits the run best."""
    moved = sum(row.device_memory_bytes for row in run.made.rows)
    olds = outlines(run.graph, run.program.machine)
    best = min(range(len(olds)), key=lambda i: abs(moved_bytes(olds[i]) - moved))
    old, new = olds[best], outlines(then, machine)[best]
    for row, busy in zip(run.made.rows, now, strict=False):
        scaled = _scaled(row, busy, old, new, machine)
        link = busy.get("host link")
        if link is not None:
            scaled["host link"] = link * times
        yield scaled


def _scaled(
    row: LayerRow, busy: dict[Limit, float], old: Outline, new: Outline, machine: Machine
) -> dict[Limit, float]:
    a, b = old.get(row.name), new.get(row.name)
    if a is None or b is None:
        return busy
    scaled = dict(busy)
    parts: tuple[tuple[Limit, float, float], ...] = (
        ("compute", a.array_cycles, b.array_cycles),
        ("vector", a.vector_cycles, b.vector_cycles),
        ("memory", a.moved_bytes, b.moved_bytes),
    )
    for limit, was, now in parts:
        if was and limit in busy:
            scaled[limit] = busy[limit] * now / was
    if not a.moved_bytes and b.moved_bytes:
        rate = machine.device_memory.bytes_per_s / machine.clock_hz
        scaled["memory"] = busy.get("memory", 0.0) + b.moved_bytes / rate
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
        rest = fixed + computed + sum(c for r, c in less.items() if r != resource)
        total += _waited(cycles, was.get(resource, 0.0), now.get(resource, 0.0), rest)
    return total


def _in_part(cycles: float, before: float, then: float) -> float:
    """Of what was waited for, as much as is needed of before; latencies stay."""
    if not before:
        return cycles
    alone = max(0.0, cycles - before)
    return alone + (cycles - alone) * then / before


def _waited(cycles: float, before: float, then: float, rest: float) -> float:
    hidden = max(0.0, before - cycles)
    if then > before:
        return max(cycles, then - max(hidden, rest))
    if not before:
        return cycles
    alone, within = max(0.0, cycles - before), min(hidden, rest)
    return alone + max(0.0, then - within - (hidden - within) * then / before)
