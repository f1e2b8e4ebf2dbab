"""The order of the program: what can start first stands first.

Program order is what the dispatcher sees, and a full queue holds up all that follows. So loads are
hoisted to just behind what they must follow, the program is simulated with queues without end, and
instructions are sorted by when they start there: then none waits in a queue before its time. Only
weights that come ahead of their layer would be in the way of others so early: they come as late as
the gaps of the device-memory port allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, Requant, Unit
from ridgeline.machine.order import last_conflicts, synchronise_code
from ridgeline.machine.simulate import simulate_code
from ridgeline.machine.timings import Timings

Bools = npt.NDArray[np.bool_]
LOADS = (Load, LoadWeights, LoadParams)
SLACK = 1.02
"""Room left for a Load that comes ahead, over its own cycles."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The Load `load`, by number, that comes before its layer: `user` is the first that reads what
    it brings, and its lines are free once the layers below `since` have run.
    """

    load: int
    user: int
    since: int

    def behind(self, others: int) -> Ahead:
        """The same where so many instructions stand before."""
        return Ahead(self.load + others, self.user + others, self.since)


def prefetch(
    code: Code, machine: Machine, host_bytes: int, device_bytes: int, ahead: Sequence[Ahead] = ()
) -> Code:
    """The same instructions with their waits, in an order of the same meaning, each as early as it
    may be; the Loads that come ahead as late.

    The order of starts keeps each unit's own order and every conflict's, and waits count
    instructions of one unit: so they hold in it as they were derived.
    """
    order = _hoisted(code, machine, host_bytes, device_bytes)
    if ahead:
        found = _with_ahead(code, order, machine, host_bytes, device_bytes, ahead)
        if found is not None:
            return synchronise_code(code.ordered(found), machine, host_bytes, device_bytes)
    ordered = synchronise_code(code.ordered(order), machine, host_bytes, device_bytes)
    return ordered.ordered(np.argsort(_starts(ordered, machine), kind="stable"))


def _starts(ordered: Code, machine: Machine) -> Integers:
    """When each instruction starts if no queue is ever full."""
    from ridgeline.machine import timeline  # Numba loads slowly, and `--help` needs none.

    return simulate_code(ordered, machine, len(ordered) + 1)[0][:, timeline.START]


def _with_ahead(
    code: Code,
    order: Integers,
    machine: Machine,
    host_bytes: int,
    device_bytes: int,
    ahead: Sequence[Ahead],
) -> Integers | None:
    """The order with the Loads ahead in the gaps of the others; None where they find no place."""
    early = np.zeros(len(code), np.bool_)
    early[[one.load for one in ahead]] = True
    rest = order[~early[order]]
    start = np.zeros(len(code), np.int64)
    others = synchronise_code(code.ordered(rest), machine, host_bytes, device_bytes)
    start[rest] = _starts(others, machine)
    if not _late_starts(code, machine, ahead, start):
        return None
    # In its own cycle a Load goes behind what it must follow and before what follows it.
    place = np.empty(len(code), np.int64)
    place[order] = np.arange(len(code))
    return np.lexsort((place, start))


def _late_starts(code: Code, machine: Machine, ahead: Sequence[Ahead], start: Integers) -> bool:
    """Sets the starts of the Loads ahead, in the gaps that the others leave at the port; False
    where one would come before its lines are free, or behind who needs it.
    """
    loads = np.asarray([one.load for one in ahead], np.int64)
    rest = np.ones(len(code), np.bool_)
    rest[loads] = False
    port = Timings.of(code, machine).port
    _delay(ahead, start, port, rest)
    needed = start[[one.user for one in ahead]]
    users = rest & (port > 0)
    moments, free = _gaps(start[users], port[users])
    limit = float(free[-1])
    for number in np.argsort(needed, kind="stable")[::-1]:
        limit = min(limit, float(np.interp(needed[number], moments, free)))
        limit -= SLACK * float(port[loads[number]])
        start[loads[number]] = int(np.interp(max(limit, 0.0), free, moments))
    layers, times = code.layers[rest], start[rest]
    by_layer = np.zeros(int(code.layers.max()) + 2, np.int64)
    np.maximum.at(by_layer, layers + 1, times)
    freed = np.maximum.accumulate(by_layer)[[one.since for one in ahead]]
    start[loads] = np.maximum(start[loads], freed)
    return not bool((start[loads] > needed).any())


def _delay(ahead: Sequence[Ahead], start: Integers, port: Integers, rest: Bools) -> None:
    """Moves the others' starts back where the port cannot have brought in time what they need."""
    users = rest & (port > 0)
    moments, free = _gaps(start[users], port[users])
    needed = start[[one.user for one in ahead]]
    brought, delay = 0.0, 0.0
    since: list[float] = []
    delays: list[float] = []
    for number in np.argsort(needed, kind="stable"):
        brought += SLACK * float(port[ahead[int(number)].load])
        arrival = float(np.interp(max(brought - delay, 0.0), free, moments)) + delay
        if brought - delay > free[-1]:
            arrival += brought - delay - float(free[-1])
        if arrival > needed[number] + delay:
            delay = arrival - float(needed[number])
            since.append(float(needed[number]))
            delays.append(delay)
    found = np.searchsorted(since, start[rest], side="right")
    start[rest] += np.concatenate([[0.0], delays])[found].astype(np.int64)


def _gaps(
    start: Integers, busy: Integers
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(moments, free cycles of the port until each) beside what is busy from `start` on."""
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(start[order] + busy[order])
    begins = np.maximum(start[order], np.concatenate([[0], ends[:-1]]))
    moments = np.concatenate([[0], np.column_stack([begins, ends]).reshape(-1)])
    moments = np.append(moments, moments[-1] + 1).astype(np.float64)
    lengths = np.diff(moments)
    lengths[1::2] = 0
    return moments, np.concatenate([[0.0], np.cumsum(lengths)])


def _hoisted(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Integers:
    """Loads, and vector work on rows that are complete while the array still makes others, just
    behind the last that they must follow; all else as emitted.
    """
    vector = code.units == Unit.VECTOR
    moved = np.isin(code.opcodes, [kind.opcode for kind in LOADS])
    moved |= vector & (code.opcodes != Requant.opcode)
    index = np.arange(len(code))
    after = last_conflicts(code, machine, host_bytes, device_bytes)
    # Vector work passes other layers, not its own: those rows are needed as they were emitted.
    for layer in np.unique(code.layers):
        own = np.flatnonzero((code.layers == layer) & vector)
        after[own] = np.maximum.accumulate(after[own])
    return np.lexsort((index, moved, np.where(moved, after, index)))
