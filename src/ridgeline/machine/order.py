"""What happens before what: the one analysis behind derived waits and the race check.

For each unit it keeps what is known to have drained when an instruction starts: what its
predecessor in the unit knew, its own waits, and what the awaited instructions knew. Two accesses to
one place of which one is a write must be ordered by that knowledge, or by a shared pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, Space, Unit
from ridgeline.machine.instructions.state import GRANULE_BYTES, Accesses, Places

UNITS = len(Unit)
Clock = list[int]

_USERS: dict[str, tuple[tuple[Unit, ...], tuple[Unit, ...]]] = {
    Space.HOST: ((Unit.LINK,), (Unit.LINK,)),
    Space.DEVICE: (
        (Unit.LINK, Unit.LOAD, Unit.WEIGHTS),
        (Unit.LINK, Unit.STORE),
    ),
    Space.BUFFER: (
        (Unit.STORE, Unit.ARRAY, Unit.VECTOR, Unit.WEIGHTS),
        (Unit.LOAD, Unit.VECTOR),
    ),
    Space.ACCUMULATORS: ((Unit.ARRAY, Unit.VECTOR), (Unit.ARRAY,)),
    Space.SLOTS: ((Unit.ARRAY,), (Unit.WEIGHTS,)),
    Space.PARAMETERS: ((Unit.VECTOR,), (Unit.WEIGHTS,)),
}
"""Units that read and that write each space."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A place that two instructions use without an order between them.

    `unit` and `count`: the earlier one is the count-th instruction of that unit. `at_shift`: the
    order is needed already when the array shifts its stationary operand in.
    """

    space: str
    unit: Unit
    count: int
    at_shift: bool


class OrderTracker:
    """Feed it instructions in program order; it finds conflicts and keeps the clocks."""

    def __init__(self, machine: Machine, sizes: dict[str, int]) -> None:
        self.machine = machine
        self.issued: Clock = [0] * UNITS
        self.known: list[Clock] = [[0] * UNITS for _ in Unit]
        self.starts: list[list[tuple[int, ...]]] = [[] for _ in Unit]
        self.readers: dict[tuple[str, Unit], npt.NDArray[np.int32]] = {}
        self.writers: dict[tuple[str, Unit], npt.NDArray[np.int32]] = {}
        for space, (readers, writers) in _USERS.items():
            for unit in readers:
                self.readers[space, unit] = np.zeros(sizes[space], np.int32)
            for unit in writers:
                self.writers[space, unit] = np.zeros(sizes[space], np.int32)
        rule = DATAFLOW_RULES[machine.array.dataflow]
        self.weights_at_shift = rule.shift_gated_by_weights
        self.activations_at_shift = rule.shift_gated_by_activations
        self.shift_gates = [u for u in Unit if self._gates_shift(u)]

    def clocks(self, instruction: Instruction) -> tuple[Clock, Clock]:
        """(at start, at shift): counts known drained, given the instruction's waits."""
        return self.clocks_with(instruction.unit, instruction.waits)

    def clocks_with(self, unit: Unit, waits: Sequence[int]) -> tuple[Clock, Clock]:
        """`clocks` of the next instruction of `unit` if it had these waits."""
        before = self.known[unit]
        start = self._with_waits(before, waits, range(UNITS))
        if unit is not Unit.ARRAY:
            return start, start
        return start, self._with_waits(before, waits, self.shift_gates)

    def _gates_shift(self, unit: Unit) -> bool:
        if unit is Unit.WEIGHTS:
            return self.weights_at_shift
        return self.activations_at_shift

    def _with_waits(self, before: Clock, waits: Sequence[int], units: list[Unit] | range) -> Clock:
        clock = list(before)
        for unit in units:
            count = waits[unit]
            if count > clock[unit]:
                clock = [
                    max(a, b) for a, b in zip(clock, self.starts[unit][count - 1], strict=True)
                ]
                clock[unit] = count
        return clock

    def conflicts(
        self, instruction: Instruction, accesses: Accesses, start: Clock, shift: Clock
    ) -> list[Conflict]:
        """Accesses of earlier instructions that are not ordered before this one."""
        found: list[Conflict] = []
        unit = instruction.unit
        for space, places in accesses.reads.items():
            early = self._read_at_shift(unit, space)
            clock = shift if early else start
            for writer in _USERS[space][1]:
                if writer is unit and space in accesses.forwarded:
                    continue
                count = self._latest(self.writers[space, writer], places)
                if count > clock[writer]:
                    found.append(Conflict(space, writer, count, early))
        for space, places in accesses.writes.items():
            readers, writers = _USERS[space]
            # Memory-latency pipelines of the weights unit may overtake each other; others may not.
            for writer in writers:
                in_order = writer is unit and unit is not Unit.WEIGHTS
                count = 0 if in_order else self._latest(self.writers[space, writer], places)
                if count > start[writer]:
                    found.append(Conflict(space, writer, count, False))
            for reader in readers:
                count = 0 if reader is unit else self._latest(self.readers[space, reader], places)
                if count > start[reader]:
                    found.append(Conflict(space, reader, count, False))
        return found

    def _read_at_shift(self, unit: Unit, space: str) -> bool:
        if unit is not Unit.ARRAY:
            return False
        return (space == Space.SLOTS and self.weights_at_shift) or (
            space == Space.BUFFER and self.activations_at_shift
        )

    @staticmethod
    def _latest(table: npt.NDArray[np.int32], places: Places) -> int:
        return int(table[places].max(initial=0))

    def record(self, instruction: Instruction, accesses: Accesses, start: Clock) -> None:
        """Take the instruction into account, with its clock at start."""
        unit = instruction.unit
        self.issued[unit] += 1
        number = self.issued[unit]
        for space, places in accesses.reads.items():
            self.readers[space, unit][places] = number
        for space, places in accesses.writes.items():
            self.writers[space, unit][places] = number
        self.known[unit] = start
        self.starts[unit].append(tuple(start))


def space_sizes(machine: Machine, host_bytes: int, device_bytes: int) -> dict[str, int]:
    """How many places each space has."""
    return {
        Space.HOST: host_bytes // GRANULE_BYTES + 1,
        Space.DEVICE: device_bytes // GRANULE_BYTES + 1,
        Space.BUFFER: machine.unified_buffer.lines,
        Space.ACCUMULATORS: machine.array.accumulator_entries,
        Space.SLOTS: machine.array.weight_slots,
        Space.PARAMETERS: machine.vector.parameter_slots,
    }


def synchronise(
    instructions: list[Instruction], machine: Machine, host_bytes: int, device_bytes: int
) -> tuple[Instruction, ...]:
    """The same instructions with waits that order every conflict, each of them necessary."""
    code = [(i, i.accesses(machine)) for i in instructions]
    return synchronise_traced(code, machine, host_bytes, device_bytes)


def synchronise_traced(
    code: Sequence[tuple[Instruction, Accesses]],
    machine: Machine,
    host_bytes: int,
    device_bytes: int,
) -> tuple[Instruction, ...]:
    """`synchronise` for instructions whose accesses are known."""
    tracker = OrderTracker(machine, space_sizes(machine, host_bytes, device_bytes))
    result: list[Instruction] = []
    for instruction, accesses in code:
        waits = _ordering_waits(tracker, instruction, accesses)
        tracker.record(instruction, accesses, tracker.clocks_with(instruction.unit, waits)[0])
        changed = (*waits,) != instruction.waits
        result.append(replace(instruction, waits=(*waits,)) if changed else instruction)
    return tuple(result)


def _ordering_waits(
    tracker: OrderTracker, instruction: Instruction, accesses: Accesses
) -> list[int]:
    """The instruction's own waits and the fewest more that order all its conflicts."""

    def found(waits: list[int]) -> list[Conflict]:
        start, shift = tracker.clocks_with(instruction.unit, waits)
        return tracker.conflicts(instruction, accesses, start, shift)

    waits = list(instruction.waits)
    # One wait at a time: what the awaited instruction knew often settles the others.
    while conflicts := found(waits):
        worst = max(conflicts, key=lambda c: (c.at_shift, c.count))
        waits[worst.unit] = max(waits[worst.unit], worst.count)
    added = [unit for unit in range(UNITS) if waits[unit] != instruction.waits[unit]]
    if len(added) < 2:
        return waits
    # A later one may imply an earlier one: none that is left, beyond those given, can go.
    for unit in added:
        fewer = [*waits[:unit], instruction.waits[unit], *waits[unit + 1 :]]
        if not found(fewer):
            waits = fewer
    return waits
