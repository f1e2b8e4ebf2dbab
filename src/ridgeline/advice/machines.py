"""Changes of a machine file, batch or format: predicted from the run as it is, and applied.

A prediction (`foresee`) compiles nothing. To apply is to compile and simulate again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from ridgeline.advice.foresee import Run, foreseen
from ridgeline.compiler.outline import plan_of
from ridgeline.compiler.pipeline import compile
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.description import DATAFLOWS, Machine
from ridgeline.machine.loader import machine_from_dict, machine_to_dict
from ridgeline.machine.simulate import simulate
from ridgeline.machine.tabulate import report

Activations = Literal["uint8", "int8", "int16"]
MOST_GROWTH = 64
"""How many times as large a unified buffer is tried, at most, so that all finds room."""


class GraphAt(Protocol):
    """The quantised graph at a batch so many times as large, with activations of a format (those
    that it has, where none is given). Raises RidgelineError if there is none.
    """

    def __call__(self, times: int, activations: Activations | None = None, /) -> Graph: ...


@dataclass(frozen=True, slots=True)
class MachineChange:
    """Fields of the machine multiplied or set, the batch multiplied, or activations of a format."""

    name: str
    factors: tuple[tuple[str, int], ...] = ()
    batch: int = 1
    settings: tuple[tuple[str, str], ...] = ()
    activations: Activations | None = None

    @property
    def planned(self) -> bool:
        """Whether tiles, or what fits on chip, become others: more than rates change."""
        rates = all(key.endswith("bytes_per_s") for key, _ in self.factors)
        return not rates or self.batch > 1 or bool(self.settings) or self.activations is not None


CHANGES = (
    MachineChange("device memory x 2", (("device_memory.bytes_per_s", 2),)),
    MachineChange("host link x 2", (("host_link.bytes_per_s", 2),)),
    MachineChange("vector lanes x 2", (("vector.lanes", 2),)),
    MachineChange("array x 2 by x 2", (("array.rows", 2), ("array.cols", 2))),
    MachineChange("unified buffer x 2", (("unified_buffer.bytes", 2),)),
    MachineChange("batch x 4", (), 4),
)
"""Those that every machine and model is tried with."""

IMPOSSIBLE = (
    ("fuse more", "the compiler fuses all that the machine runs as one"),
    ("other tiles", "the compiler tried others, and strips and parts: the run is of the best"),
    ("int4 weights", "the array takes int8 weights only, which the model has"),
    ("2:4 sparse weights", "the array multiplies zeros too: its machine file has no sparse rate"),
    ("pad channels", "a tile narrower than the array takes its cycles already: nothing is saved"),
)
"""What helps elsewhere and cannot be applied to a machine file, and why."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Cycles for each sample before, as predicted, and as simulated after compiling again.

    `achieved` is None where it was not tried or cannot be, `predicted` where it cannot be; `reason`
    says why.
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
    """The machine with its fields changed; lines of the buffer fit the array as it becomes."""
    data = machine_to_dict(machine)
    for key, factor in change.factors:
        section, _, field = key.partition(".")
        data[section][field] *= factor
        if section == "array":
            data["unified_buffer"].pop("line_bytes", None)
    for key, value in change.settings:
        section, _, field = key.partition(".")
        data[section][field] = value
    return machine_from_dict(data)


def advise_machine(graph_at: GraphAt, machine: Machine, *, apply: bool = False) -> list[Applied]:
    """Each change predicted, and with `apply` compiled and simulated; most predicted gain first.

    Cycles are of the run of `graph_at(1)`. Raises RidgelineError where that does not compile.
    """
    graph = graph_at(1)
    program = compile(graph, machine)
    run = Run(graph, program, report(program, simulate(program)))
    before = float(run.made.cycles)
    found = [_tried(change, graph_at, run, apply=apply) for change in CHANGES]
    for change, reason in _of_this(run):
        if reason:
            found.append(Applied(change, before, None, None, reason))
        else:
            found.append(_tried(change, graph_at, run, apply=apply))
    found += [Applied(MachineChange(name), before, None, None, why) for name, why in IMPOSSIBLE]
    return sorted(found, key=lambda one: (one.predicted is None, one.predicted or 0.0))


def _of_this(run: Run) -> Iterator[tuple[MachineChange, str]]:
    """Changes that this machine or model may have already, each with the reason if it has."""
    machine = run.program.machine
    for flow in DATAFLOWS:
        if flow != machine.array.dataflow:
            yield MachineChange(f"{flow} loops", settings=(("array.dataflow", flow),)), ""
    wide = any(v.type.dtype.bits == 16 for n in run.graph.nodes for v in n.outputs)
    narrow = MachineChange("8-bit activations", activations="uint8")
    yield narrow, "" if wide else "activations have 8 bits, the fewest that the array takes"
    yield _kept_on_chip(run)


def _kept_on_chip(run: Run) -> tuple[MachineChange, str]:
    """A unified buffer in which every value finds room."""
    name, machine = "keep all on chip", run.program.machine
    growth = 1
    while growth <= MOST_GROWTH:
        change = MachineChange(name, (("unified_buffer.bytes", growth),))
        try:
            tight = plan_of(run.graph, changed(machine, change)).outlines[0]
        except RidgelineError as error:
            return change, error.what
        if not any(need.spilled_bytes for need in tight.values()):
            why = "every value finds room in the unified buffer already" if growth == 1 else ""
            return MachineChange(f"{name}: buffer x {growth}", change.factors), why
        growth *= 2
    return MachineChange(name), f"a buffer {MOST_GROWTH} times as large would not hold all"


def _tried(change: MachineChange, graph_at: GraphAt, run: Run, *, apply: bool) -> Applied:
    before, predicted = float(run.made.cycles), None
    try:
        machine = changed(run.program.machine, change)
        then = _graph_of(change, graph_at, run.graph)
        cycles = foreseen(run, then, machine, change.batch, planned=change.planned)
        predicted = cycles / change.batch
        achieved = None
        if apply:
            achieved = simulate(compile(then, machine)).cycles / change.batch
    except RidgelineError as error:
        return Applied(change, before, predicted, None, error.what)
    return Applied(change, before, predicted, achieved)


def _graph_of(change: MachineChange, graph_at: GraphAt, graph: Graph) -> Graph:
    """The graph of a change. Raises RidgelineError where the batch stays as it was."""
    if change.activations is not None:
        then = graph_at(1, change.activations)
        if any(v.type.dtype.bits == 16 for n in then.nodes for v in n.outputs):
            raise RidgelineError("the model's file says 16 bits: quantise the float model anew")
        return then
    if change.batch == 1:
        return graph
    then = graph_at(change.batch)
    for value, was in zip(then.inputs, graph.inputs, strict=True):
        if value.type.shape[:1] != tuple(change.batch * size for size in was.type.shape[:1]):
            raise RidgelineError(
                f"the batch is fixed: input '{value.name}' stays {list(value.type.shape)}"
            )
    return then
