"""Changes of a machine file or batch: predicted from the report of the run as it is, and applied.

A prediction knows the run as it is and what each layer needs of each resource after the change
(its busy cycles), and compiles nothing. To apply is to compile and simulate again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ridgeline.advice.foresee import Run, foreseen
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
    planned = change.batch > 1 or any(not k.endswith("per_s") for k, _ in change.factors)
    run = Run(graph, program, made)
    return foreseen(run, then, machine, change.batch, planned=planned)
