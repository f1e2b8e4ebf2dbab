"""Why the array stands still: the reasons of each gap before a MatMul, and of the time after all.

A reason is an interval in which something that the MatMul needs is not there. Where reasons
overlap, the first of `REASONS` counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ridgeline.machine.dataflow import DATAFLOW_RULES, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import MatMul, Requant, Unit
from ridgeline.machine.simulate import Event, SegmentTrace

REASONS = (
    "weight stall",
    "weight shift",
    "vector",
    "read-after-write",
    "input",
    "store",
    "link",
    "issue",
    "drain",
)
"""In order of priority; see docs/validation.md for what each means."""

ORDER_OF_UNITS = (
    (Unit.VECTOR, "vector"),
    (Unit.STORE, "store"),
    (Unit.LOAD, "input"),
    (Unit.WEIGHTS, "weight stall"),
    (Unit.LINK, "link"),
)
"""Where no MatMul waits, a cycle belongs to the first of these that is busy; else it is drain."""

_OF_UNIT = {unit.name.lower(): name for unit, name in ORDER_OF_UNITS}
_PLACE = {name: place for place, name in enumerate(REASONS)}


@dataclass(frozen=True, slots=True)
class Reason:
    """`name` holds in cycles [begin, end). The counters overlap with other reasons:
    `read_after_write` and `input` say that such a result, or loaded data, were missing.
    """

    name: str
    begin: int
    end: int
    read_after_write: bool = False
    input: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """An idle interval of the array with its one reason, and what else was missing in it."""

    reason: str
    begin: int
    end: int
    read_after_write: bool = False
    input: bool = False


def split(begin: int, end: int, reasons: list[Reason], otherwise: str) -> Iterable[Stall]:
    """[begin, end) in pieces, each with the first reason that holds, `otherwise` if none does."""
    edges = {begin, end}
    for reason in reasons:
        edges.update(edge for edge in (reason.begin, reason.end) if begin < edge < end)
    ordered = sorted(edges)
    for first, after in pairwise(ordered):
        holding = [r for r in reasons if r.begin <= first < r.end]
        name = min((r.name for r in holding), key=_PLACE.__getitem__, default=otherwise)
        yield Stall(
            name,
            first,
            after,
            any(r.read_after_write for r in holding),
            any(r.input for r in holding),
        )


class SegmentStalls:
    """The stalls of one device segment."""

    def __init__(self, segment: SegmentTrace, machine: Machine) -> None:
        self.segment = segment
        self.by_unit: list[list[Event]] = [[] for _ in Unit]
        for event in segment.events:
            self.by_unit[event.instruction.unit].append(event)
        self.machine = machine
        rule = DATAFLOW_RULES[machine.array.dataflow]
        self.shift_gates = [u for u in Unit if u is Unit.WEIGHTS and rule.shift_gated_by_weights]
        if rule.shift_gated_by_activations:
            self.shift_gates += [u for u in Unit if u is not Unit.WEIGHTS]
        self.held_up = self._held_up(segment.events)
        self.held_up_until = [end for _, _, end in self.held_up]
        self.vector_busy_since = self._busy_since(self.by_unit[Unit.VECTOR])
        self.bank_releases = {
            event.issued: event
            for unit in (Unit.WEIGHTS, Unit.STORE, Unit.VECTOR)
            for event in self.by_unit[unit]
            if event.instruction.read_banks
        }

    @staticmethod
    def _held_up(events: Sequence[Event]) -> list[tuple[str, int, int]]:
        """(reason, begin, end) where the dispatcher stands before the full queue of a unit."""
        held: list[tuple[str, int, int]] = []
        could = 0
        for event in events:
            if event.dispatched > could:
                name = _OF_UNIT.get(event.instruction.unit.name.lower(), "issue")
                held.append((name, could, event.dispatched))
            could = event.dispatched + 1
        return held

    @staticmethod
    def _busy_since(events: list[Event]) -> list[int]:
        """For each instruction of a unit, since when the unit has been busy without a pause."""
        since: list[int] = []
        for before, event in zip([None, *events], events, strict=False):
            runs_on = before is not None and before.issued == event.start
            since.append(since[-1] if runs_on else event.start)
        return since

    def all(self) -> Iterable[Stall]:
        """Every idle interval of the array, in order of time."""
        free = 0
        for event in self.by_unit[Unit.ARRAY]:
            if event.start > free:
                yield from split(free, event.start, self.reasons(event, free), "issue")
            free = event.issued
        yield from self._after(free)

    def reasons(self, event: Event, free: int) -> list[Reason]:
        """What the MatMul of `event` still needs from cycle `free` on, and until when."""
        reasons = [*self._of_shift(event), *self._of_dispatch(event, free)]
        for unit in Unit:
            if event.instruction.waits[unit]:
                reasons += self._of_wait(event, unit, free)
        if event.start > event.ready:
            reasons.append(Reason(self._bank_holder(event), event.ready, event.start))
        return reasons

    def _of_dispatch(self, event: Event, free: int, *, missing_input: bool = False) -> list[Reason]:
        """Its turn at the dispatcher, or the unit before whose full queue the dispatcher stands."""
        reasons = [Reason("issue", 0, event.dispatched + 1, input=missing_input)]
        number = bisect_right(self.held_up_until, event.dispatched) - 1
        while number >= 0 and self.held_up_until[number] > free:
            reasons.append(Reason(*self.held_up[number], input=missing_input))
            number -= 1
        return reasons

    def _of_shift(self, event: Event) -> list[Reason]:
        """The shift takes its cycle once all that gates it is there; before, that is the reason."""
        gated = event.dispatched + 1
        for unit in self.shift_gates:
            count = event.instruction.waits[unit]
            if count:
                gated = max(gated, self.by_unit[unit][count - 1].drained)
        assert isinstance(event.instruction, MatMul)
        first = event.instruction.passes(self.machine)[0]
        lead = shift_lead_cycles(self.machine.array, first)
        return [Reason("weight shift", gated, event.shifted + lead)]

    def _of_wait(self, event: Event, unit: Unit, free: int) -> list[Reason]:
        count = event.instruction.waits[unit]
        awaited = self.by_unit[unit][count - 1]
        until = awaited.drained
        if unit is Unit.VECTOR:
            return self._of_vector(event, awaited, self.vector_busy_since[count - 1])
        if unit is Unit.LOAD:
            return self._of_load(awaited, "input", free, missing_input=True)
        if unit is Unit.WEIGHTS:
            return self._of_load(awaited, "weight stall", free, missing_input=False)
        return [Reason(_OF_UNIT.get(unit.name.lower(), "issue"), 0, until)]

    def _of_load(self, load: Event, name: str, free: int, *, missing_input: bool) -> list[Reason]:
        """What a load is short of: the dispatcher, then what it waits for itself, then the memory.

        `name` holds from when it could run but for the memory and its own unit. Before, the unit
        that it waits for last is the reason; for a slot or lines that the array still reads, drain.
        """
        dispatched = load.dispatched + 1
        waits = [
            (self.by_unit[unit][count - 1].drained, unit)
            for unit, count in zip(Unit, load.instruction.waits, strict=True)
            if count and unit is not load.instruction.unit
        ]
        waited, last = max(waits, default=(0, Unit.ARRAY))
        asked = max(dispatched, waited)
        reasons = self._of_dispatch(load, free, missing_input=missing_input)
        if load.instruction.unit is Unit.WEIGHTS and last is Unit.LOAD:
            # Weights that come on chip ahead are weights from when memory could bring them.
            ahead = self.by_unit[last][load.instruction.waits[last] - 1]
            reasons += self._of_load(ahead, name, free, missing_input=missing_input)
        else:
            held = "drain" if last is Unit.ARRAY else _OF_UNIT[last.name.lower()]
            reasons.append(Reason(held, dispatched, asked, input=missing_input))
        return [*reasons, Reason(name, asked, load.drained, input=missing_input)]

    @staticmethod
    def _of_vector(event: Event, awaited: Event, busy_since: int) -> list[Reason]:
        """Accumulators that are still being read: vector. Activations that are not written yet:
        vector while that unit works without a pause, read-after-write before and after.
        """
        matmul, reader = event.instruction, awaited.instruction
        assert isinstance(matmul, MatMul)
        if isinstance(reader, Requant):
            apart = (
                reader.entry + reader.m <= matmul.entry or matmul.entry + matmul.m <= reader.entry
            )
            if not apart:
                return [Reason("vector", 0, awaited.drained)]
        return [
            Reason("vector", busy_since, awaited.issued, read_after_write=True),
            Reason("read-after-write", 0, awaited.drained, read_after_write=True),
        ]

    def _bank_holder(self, event: Event) -> str:
        """Who released the bank in the cycle in which the MatMul could start."""
        holder = self.bank_releases.get(event.start)
        return _OF_UNIT[holder.instruction.unit.name.lower()] if holder else "issue"

    def _after(self, free: int) -> Iterable[Stall]:
        """Time without a MatMul to come, by the unit that is busy."""
        marks: list[tuple[int, int, int]] = []
        for place, (unit, _) in enumerate(ORDER_OF_UNITS):
            for event in self.by_unit[unit]:
                # What is on the link is under way until it has arrived.
                end = event.drained if unit is Unit.LINK else event.issued
                begin = max(event.start, free)
                if begin < end:
                    marks += [(begin, place, 1), (end, place, -1)]
        busy = [0] * len(ORDER_OF_UNITS)
        now = free
        for when, place, change in [*sorted(marks), (self.segment.cycles, 0, 0)]:
            if when > now:
                yield Stall(self._busiest(busy), now, when)
                now = when
            busy[place] += change

    @staticmethod
    def _busiest(busy: list[int]) -> str:
        for count, (_, name) in zip(busy, ORDER_OF_UNITS, strict=True):
            if count:
                return name
        return "drain"
