"""Changes of a machine file or batch: predicted from the report of the run as it is, and applied.

A prediction knows the run as it is and what each layer needs of each resource after the change
(its busy cycles), and compiles nothing. To apply is to compile and simulate again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ridgeline.compiler.bounds import Bounds, bounds
from ridgeline.compiler.pipeline import compile
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.loader import machine_from_dict, machine_to_dict
from ridgeline.machine.program import HostSegment, Program
from ridgeline.machine.simulate import simulate
from ridgeline.machine.tabulate import busy_cycles, report
from ridgeline.results.rows import LayerRow, Limit, Report

GraphAt = Callable[[int], Graph]
"""The quantised graph at a batch so many times as large; raises RidgelineError if there is none."""
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


@dataclass(frozen=True, slots=True)
class MachineChange:
    """Fields of the machine multiplied, or the batch."""

    name: str
    factors: tuple[tuple[str, int], ...] = ()
    batch: int = 1


CHANGES = (
    MachineChange("device memory x 2", (("device_memory.bytes_per_s", 2),)),
    MachineChange("host link x 2", (("host_link.bytes_per_s", 2),)),
    MachineChange("vector lanes x 2", (("vector.lanes", 2),)),
    MachineChange("array x 2 by x 2", (("array.rows", 2), ("array.cols", 2))),
    MachineChange("unified buffer x 2", (("unified_buffer.bytes", 2),)),
    MachineChange("batch x 4", (), 4),
)


@dataclass(frozen=True, slots=True)
class Applied:
    """Cycles for each sample before, as predicted, and as simulated after compiling again.

    `achieved` is None where it was not tried, `predicted` where it cannot be; `reason` says why.
    """

    change: MachineChange
    before: float
    predicted: float | None
    achieved: float | None = None
    reason: str = ""

    @property
    def error(self) -> float | None:
        """Of the predicted gain (before over after), relative to the achieved."""
        if self.predicted is None or self.achieved is None:
            return None
        return self.achieved / self.predicted - 1


def changed(machine: Machine, change: MachineChange) -> Machine:
    """The machine with fields multiplied; lines of the buffer fit the array as it becomes."""
    data = machine_to_dict(machine)
    for key, factor in change.factors:
        section, _, field = key.partition(".")
        data[section][field] *= factor
        if section == "array":
            data["unified_buffer"].pop("line_bytes", None)
    return machine_from_dict(data)


def advise_machine(graph_at: GraphAt, machine: Machine, *, apply: bool = False) -> list[Applied]:
    """Each change predicted, and with `apply` compiled and simulated; most predicted gain first."""
    graph = graph_at(1)
    program = compile(graph, machine)
    made = report(program, simulate(program))
    found = [_tried(change, graph_at, graph, program, made, apply=apply) for change in CHANGES]
    return sorted(found, key=lambda one: (one.predicted is None, one.predicted or 0.0))


def _tried(
    change: MachineChange,
    graph_at: GraphAt,
    graph: Graph,
    program: Program,
    made: Report,
    *,
    apply: bool,
) -> Applied:
    before = float(made.cycles)
    try:
        machine = changed(program.machine, change)
        then = _at_batch(graph_at, change.batch, graph)
        predicted = _predicted(change, graph, then, program, machine, made) / change.batch
        achieved = None
        if apply:
            achieved = simulate(compile(then, machine)).cycles / change.batch
    except RidgelineError as error:
        return Applied(change, before, None, None, error.what)
    return Applied(change, before, predicted, achieved)


def _at_batch(graph_at: GraphAt, times: int, graph: Graph) -> Graph:
    """The graph at so many times its batch. Raises RidgelineError where it stays as it was."""
    if times == 1:
        return graph
    then = graph_at(times)
    for value, was in zip(then.inputs, graph.inputs, strict=True):
        if value.type.shape[:1] != tuple(times * size for size in was.type.shape[:1]):
            raise RidgelineError(
                f"the batch is fixed: input '{value.name}' stays {list(value.type.shape)}"
            )
    return then


def _predicted(
    change: MachineChange,
    graph: Graph,
    then: Graph,
    program: Program,
    machine: Machine,
    made: Report,
) -> float:
    """Cycles of the whole run after the change."""
    was = busy_cycles(program)
    array = any(key.startswith("array.") for key, _ in change.factors)
    if array or change.batch > 1:
        forms = bounds(graph, program.machine), bounds(then, machine)
        hosted = busy_cycles(_more_on_host(program, change.batch))
        now = list(_by_bounds(change, made, was, hosted, *forms))
    else:
        now = busy_cycles(replace(program, machine=machine))
    total = float(made.cycles) - sum(row.cycles for row in made.rows)
    rows = zip(made.rows, was, now, strict=False)
    return total + sum(after(row, b0, b1) for row, b0, b1 in rows)


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


def _by_bounds(
    change: MachineChange,
    made: Report,
    was: list[dict[Limit, float]],
    hosted: list[dict[Limit, float]],
    old: Bounds,
    new: Bounds,
) -> Iterator[dict[Limit, float]]:
    """Busy cycles scaled as the closed forms of each layer's best way are."""
    ways = [
        {x.name: min(x.ways, key=lambda w: w.cycles) for x in b.layers if x.ways}
        for b in (old, new)
    ]
    times = change.batch
    for row, busy, host in zip(made.rows, was, hosted, strict=False):
        a, b = ways[0].get(row.name), ways[1].get(row.name)
        scale: dict[Limit, float] = dict.fromkeys(busy, float(times))
        moved = row.device_memory_bytes
        if moved:
            weights = min(row.weight_bytes, moved)
            scale["memory"] = (weights + times * (moved - weights)) / moved
        if a is not None and b is not None:
            if a.array_cycles and b.array_cycles:
                scale["compute"] = b.array_cycles / a.array_cycles
            if a.vector_cycles and b.vector_cycles:
                scale["vector"] = b.vector_cycles / a.vector_cycles
        yield {n: host[n] if n == "fallback" else c * scale[n] for n, c in busy.items()}


def after(row: LayerRow, was: Busy, now: Busy) -> float:
    """A layer's cycles when what it needs of each resource changes.

    Of a resource's cycles those in the ledger were waited for, the others went on behind the rest
    of the layer; they still do, as far as that lasts.
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
    total = fixed + computed
    for resource, cycles in waited.items():
        total += _waited(resource, cycles, row.cycles, computed - array, was, now)
    return total


def _waited(
    resource: Limit, cycles: float, whole: float, longer: float, was: Busy, now: Busy
) -> float:
    before, then = was.get(resource, 0.0), now.get(resource, 0.0)
    if not before:
        return cycles
    hidden = max(0.0, before - cycles)
    rest = whole - cycles
    if rest > 0:
        hidden *= max(0.0, 1 + longer / rest)
    alone = max(0.0, cycles - before)
    return max(0.0, then - hidden) + alone
