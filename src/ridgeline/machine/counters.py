"""What the hardware's performance counters count, from the times of `simulate`.

The ledger looks back: it gives a cycle in which the array stands still to what the next MatMul was
short of, also before that MatMul was there to be seen. A counter sees one cycle, and gives it to
what is missing now. Names and priority are those of the ledger; each unit's counters sum to all
cycles.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ridgeline.machine.event import Event
from ridgeline.machine.instructions import Unit
from ridgeline.machine.simulate import SegmentTrace, Trace

ARRAY_CAUSES: tuple[tuple[str, str], ...] = (
    ("active", "the array streams"),
    ("weight stall", "it waits for weights"),
    ("weight shift", "weights are there and shift in"),
    ("vector", "it waits for a result that the vector unit works on, or for its banks"),
    ("read-after-write", "it waits for a result, and the vector unit does not issue"),
    ("input", "it waits for a Load"),
    ("store", "it waits for a Store, or for its banks"),
    ("issue", "it has no instruction yet, or waits for itself"),
    ("drain", "Halt has come, and no other unit works"),
)
"""Where the array's cycles go, first in priority first. Without an instruction, a cycle belongs to
the unit before whose full queue the dispatcher stands, and after Halt to the first busy unit of
vector, store, load and weights."""

UNIT_CAUSES: tuple[tuple[str, str], ...] = (
    ("active", "issues elements"),
    ("idle", "has no instruction"),
    ("waits", "waits for what another unit is to drain"),
    ("held", "waits for banks, for the port, or for its own results"),
)
"""Where another unit's cycles go."""

OTHER_UNITS = (Unit.LOAD, Unit.STORE, Unit.WEIGHTS, Unit.VECTOR)

OF_UNIT = {
    Unit.VECTOR: "vector",
    Unit.STORE: "store",
    Unit.LOAD: "input",
    Unit.WEIGHTS: "weight stall",
}
"""The array's cause when a unit is what it waits for; in the order in which Halt looks at them."""

CAUSES: tuple[tuple[str, str], ...] = (
    *((f"array {name}", meaning) for name, meaning in ARRAY_CAUSES),
    *(
        (f"{unit.name.lower()} {name}", f"the {unit.name.lower()} unit {meaning}")
        for unit in OTHER_UNITS
        for name, meaning in UNIT_CAUSES
    ),
)
"""Every cause with its meaning: one of the array's and one of each other unit's in each cycle."""

_Cycles = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def counted(trace: Trace) -> dict[str, int]:
    """Cycles of each of CAUSES, all device segments together."""
    total = dict.fromkeys((name for name, _ in CAUSES), 0)
    for segment in trace.segments:
        if not segment.host:
            for name, cycles in _Segment(segment).counts().items():
                total[name] += cycles
    return total


class _Segment:
    """One device segment, cycle by cycle."""

    def __init__(self, segment: SegmentTrace) -> None:
        self.cycles = segment.cycles
        self.now: _Cycles = np.arange(segment.cycles)
        self.events = segment.events
        self.by_unit: dict[Unit, list[Event]] = {unit: [] for unit in Unit}
        for event in segment.events:
            self.by_unit[event.instruction.unit].append(event)
        self.active = {unit: self._active(unit) for unit in Unit}

    def counts(self) -> dict[str, int]:
        found = {f"array {name}": n for name, n in self._array().items()}
        for unit in OTHER_UNITS:
            found |= {f"{unit.name.lower()} {name}": n for name, n in self._unit(unit).items()}
        return found

    def _active(self, unit: Unit) -> _Flags:
        flags = np.zeros(self.cycles, np.bool_)
        for event in self.by_unit[unit]:
            flags[event.start : event.issued] = True
        return flags

    def _following(self, unit: Unit, of: Callable[[Event], int], otherwise: int) -> _Cycles:
        """For each cycle a number of the unit's first instruction that starts after it."""
        starts = np.asarray([event.start for event in self.by_unit[unit]], np.int64)
        values = np.asarray([*map(of, self.by_unit[unit]), otherwise], np.int64)
        found: _Cycles = values[np.searchsorted(starts, self.now, "right")]
        return found

    def _there(self, unit: Unit) -> _Flags:
        """Whether the unit's next instruction is in its queue, or further."""
        return self.now > self._following(unit, lambda event: event.dispatched, self.cycles)

    def _waits(self, unit: Unit, on: Unit) -> _Flags:
        """Whether the unit's next instruction waits for what `on` has not drained."""

        def until(event: Event) -> int:
            count = event.instruction.waits[on]
            return self.by_unit[on][count - 1].drained if count else 0

        return self.now < self._following(unit, until, 0)

    def _unit(self, unit: Unit) -> dict[str, int]:
        active, there = self.active[unit], self._there(unit)
        waits = np.zeros(self.cycles, np.bool_)
        for other in Unit:
            waits |= self._waits(unit, other)
        order = [active, ~there, waits, np.ones(self.cycles, np.bool_)]
        return self._first(order, [name for name, _ in UNIT_CAUSES])

    def _array(self) -> dict[str, int]:
        unit = Unit.ARRAY
        there = self._there(unit)
        waits = {on: self._waits(unit, on) for on in Unit}
        shifting = self.now <= self._following(unit, lambda event: event.shifted, 0)
        works = self.active[Unit.VECTOR]
        causes: list[tuple[_Flags, str]] = [(self.active[unit], "active")]
        causes += [(~there & flags, name) for flags, name in self._dispatcher()]
        causes += [
            (waits[Unit.WEIGHTS], "weight stall"),
            (shifting, "weight shift"),
            (waits[Unit.VECTOR] & works, "vector"),
            (waits[Unit.VECTOR], "read-after-write"),
            (waits[Unit.LOAD], "input"),
            (waits[Unit.STORE], "store"),
            (waits[Unit.ARRAY], "issue"),
        ]
        banks = self._following(unit, lambda event: event.instruction.read_banks, 0)
        for holder in (Unit.WEIGHTS, Unit.VECTOR):
            causes.append(((self._read_banks(holder) & banks) != 0, OF_UNIT[holder]))
        causes.append((np.ones(self.cycles, np.bool_), "store"))
        return self._first([flags for flags, _ in causes], [name for _, name in causes])

    def _read_banks(self, unit: Unit) -> _Cycles:
        """Banks that the unit has held since before each cycle."""
        held = np.zeros(self.cycles, np.int64)
        for event in self.by_unit[unit]:
            held[event.start + 1 : event.issued] = event.instruction.read_banks
        return held

    def _dispatcher(self) -> list[tuple[_Flags, str]]:
        """What the array lacks while it has no instruction, first in priority first."""
        dispatched = np.asarray([event.dispatched for event in self.events], np.int64)
        front = np.searchsorted(dispatched, self.now, "left")
        units = np.asarray([event.instruction.unit for event in self.events] + [-1], np.int64)
        when = np.append(dispatched, self.cycles)
        halted = front == len(self.events)
        stands = ~halted & (self.now < when[front])
        found = [(stands & (units[front] == unit), name) for unit, name in OF_UNIT.items()]
        found.append((~halted, "issue"))
        found += [(self.active[unit], name) for unit, name in OF_UNIT.items()]
        return [*found, (np.ones(self.cycles, np.bool_), "drain")]

    @staticmethod
    def _first(order: list[_Flags], names: list[str]) -> dict[str, int]:
        """How many cycles have each name, by the first flag that holds."""
        which = np.argmax(np.stack(order), axis=0)
        sums = np.bincount(which, minlength=len(order)).tolist()
        found = dict.fromkeys(names, 0)
        for name, cycles in zip(names, sums, strict=True):
            found[name] += cycles
        return found
