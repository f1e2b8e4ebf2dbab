"""What happens before what: the one analysis behind derived waits and the race check.

For each unit it keeps what is known to have drained when an instruction starts: what its
predecessor in the unit knew, its own waits, and what the awaited instructions knew. Two accesses to
one place of which one is a write must be ordered by that knowledge, or by a shared pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, Space, Unit
from ridgeline.machine.instructions.state import Accesses, Places
from ridgeline.machine.walks import SPACES, WalkTable, space_sizes

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


def synchronise(
    instructions: Sequence[Instruction], machine: Machine, host_bytes: int, device_bytes: int
) -> tuple[Instruction, ...]:
    """The same instructions with waits that order every conflict, each of them necessary."""
    code = Code.of(instructions)
    return synchronise_code(code, machine, host_bytes, device_bytes).instructions()


def synchronise_code(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Code:
    """`synchronise` for columns. Raises IndexError where an instruction leaves its memories."""
    from ridgeline.machine import ordering

    if not len(code):
        return code
    table = code.walks(machine)
    spaces = _by_unit(space_sizes(machine, host_bytes, device_bytes))
    columns = _columns(code, table)
    amiss = ordering.order(columns, table.lines, spaces, _rule(machine), table.most_places, True)
    _check(code, amiss)
    return code.with_waits(np.ascontiguousarray(columns[:, ordering.WAITS :]))


def is_ordered(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> bool:
    """Whether the code's waits order every conflict, and every place is in its memory."""
    from ridgeline.machine import ordering

    table = code.walks(machine)
    spaces = _by_unit(space_sizes(machine, host_bytes, device_bytes))
    rule, most = _rule(machine), table.most_places
    return ordering.order(_columns(code, table), table.lines, spaces, rule, most, False) < 0


def touched_banks(code: Code, machine: Machine) -> tuple[Integers, Integers]:
    """Masks [n] of the unified-buffer banks that each instruction reads and writes.

    Raises IndexError where one leaves the buffer.
    """
    from ridgeline.machine import ordering

    table = code.walks(machine)
    everywhere = 1 << 62
    spaces = _by_unit(space_sizes(machine, everywhere, everywhere))
    masks = np.zeros((len(code), 2), np.int64)
    lines = machine.unified_buffer.lines_per_bank
    columns, most = _columns(code, table), table.most_places
    _check(code, ordering.banks(columns, table.lines, spaces, most, lines, masks))
    return masks[:, 0], masks[:, 1]


def last_conflicts(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Integers:
    """For each instruction the last one before it that touches the same place, where one of the
    two writes there; -1 where there is none. Raises IndexError where one leaves its memories.
    """
    from ridgeline.machine import ordering

    table = code.walks(machine)
    spaces = _by_space(space_sizes(machine, host_bytes, device_bytes))
    after = np.full(len(code), -1, np.int64)
    columns, most = _columns(code, table), table.most_places
    _check(code, ordering.last_conflicts(columns, table.lines, spaces, most, after))
    return after


def _check(code: Code, amiss: int) -> None:
    if amiss >= 0:
        (one,) = code.ordered(np.asarray([amiss])).instructions()
        raise IndexError(f"instruction {amiss} leaves its memories or waits for the future: {one}")


def _columns(code: Code, table: WalkTable) -> Integers:
    """The code as `ordering` takes it."""
    return np.column_stack([code.units, table.first, table.counts, code.waits])


def _rule(machine: Machine) -> Integers:
    rule = DATAFLOW_RULES[machine.array.dataflow]
    at_shift = (rule.shift_gated_by_weights, rule.shift_gated_by_activations)
    return np.asarray([(True, True), at_shift], np.int64)


def _by_unit(sizes: dict[str, int]) -> Integers:
    """Spaces as `ordering` takes them, each with a table for every unit that reads or writes it."""
    from ridgeline.machine import ordering

    spaces = np.full((len(SPACES), ordering.SPACE_WIDTH), -1, np.int64)
    places = 0
    for number, space in enumerate(SPACES):
        spaces[number, ordering.SIZE] = sizes[space]
        for start, units in zip((ordering.READERS, ordering.WRITERS), _USERS[space], strict=True):
            for unit in units:
                spaces[number, start + unit] = places
                places += sizes[space]
    return spaces


def _by_space(sizes: dict[str, int]) -> Integers:
    """The same with one table of what read and one of what wrote each space."""
    from ridgeline.machine import ordering

    spaces = np.full((len(SPACES), ordering.SPACE_WIDTH), -1, np.int64)
    spaces[:, ordering.SIZE] = [sizes[space] for space in SPACES]
    ends = np.cumsum(np.repeat(spaces[:, ordering.SIZE], 2))
    begins = (ends - np.repeat(spaces[:, ordering.SIZE], 2)).reshape(-1, 2)
    spaces[:, [ordering.READERS, ordering.WRITERS]] = begins
    return spaces
