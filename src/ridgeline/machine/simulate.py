"""When every instruction starts and ends: an event simulation in O(number of instructions).

At each step the unit whose next instruction can start first is advanced; ties go to the array, then
the vector unit, then the users of the device-memory port in order of request. Because an
instruction never drains in the cycle in which it starts, nothing found later can start earlier, so
one pass is exact. What the array does inside is the recurrence of `dataflow.array_schedule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from ridgeline.errors import RidgelineError
from ridgeline.machine.array_stages import ArrayStages
from ridgeline.machine.description import Machine
from ridgeline.machine.event import NEVER, Event
from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.program import DeviceSegment, HostSegment, Program

PRIORITY = (Unit.ARRAY, Unit.VECTOR, Unit.LINK, Unit.LOAD, Unit.STORE, Unit.WEIGHTS)
"""Who goes first when several units could start in one cycle (the port: after order of request)."""

UNITS = tuple(Unit)

_PLACE = {unit: place for place, unit in enumerate(PRIORITY)}


@dataclass(frozen=True, slots=True)
class SegmentTrace:
    """Cycles [begin, begin + cycles) of one segment, with its events (none on the host)."""

    begin: int
    cycles: int
    events: tuple[Event, ...]
    host: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The whole run of a program, in cycles of the machine's clock."""

    program: Program
    segments: tuple[SegmentTrace, ...]

    @property
    def cycles(self) -> int:
        return sum(s.cycles for s in self.segments)

    @property
    def device_cycles(self) -> int:
        return sum(s.cycles for s in self.segments if not s.host)

    @property
    def seconds(self) -> float:
        return self.cycles / self.program.machine.clock_hz


def simulate(program: Program) -> Trace:
    """The cycle-exact Trace of a legal program. Raises RidgelineError when it deadlocks."""
    traces: list[SegmentTrace] = []
    begin = 0
    for segment in program.segments:
        if isinstance(segment, DeviceSegment):
            events, cycles = simulate_instructions(segment.instructions, program.machine)
            trace = SegmentTrace(begin, cycles, events)
        else:
            trace = SegmentTrace(begin, host_cycles(segment, program.machine), (), segment.name)
        traces.append(trace)
        begin += trace.cycles
    return Trace(program, tuple(traces))


def host_cycles(segment: HostSegment, machine: Machine) -> int:
    """The declared host model: overhead + operations / rate + bytes / rate, in machine cycles."""
    host = machine.host
    seconds = (
        Fraction(host.overhead_seconds)
        + Fraction(segment.operations) / Fraction(host.operations_per_s)
        + Fraction(segment.bytes) / Fraction(host.bytes_per_s)
    )
    return ceil(seconds * Fraction(machine.clock_hz))


def simulate_instructions(
    instructions: tuple[Instruction, ...], machine: Machine
) -> tuple[tuple[Event, ...], int]:
    """Events in program order, and the segment's cycles, Halt included."""
    run = Run(instructions, machine)
    run.finish()
    return run.result()


class Run:
    """The state of one segment's simulation."""

    def __init__(self, instructions: tuple[Instruction, ...], machine: Machine) -> None:
        self.instructions = instructions
        self.machine = machine
        self.timings = [one.timing(machine) for one in instructions]
        count = len(instructions)
        self.events: list[Event | None] = [None] * count
        self.drained: list[list[int]] = [[] for _ in Unit]
        self.popped: list[list[int]] = [[] for _ in Unit]
        self.queued: list[list[int]] = [[] for _ in Unit]
        self.dispatch_at = [0] * count
        self.dispatch_next = 0
        self.dispatch_last = -1
        self.unit_free = [0] * len(Unit)
        self.port_free = 0
        banks = machine.unified_buffer.banks
        self.read_free, self.read_owner = [0] * banks, [-1] * banks
        self.write_free, self.write_owner = [0] * banks, [-1] * banks
        self.position = [0] * len(Unit)
        self.array = ArrayStages(machine)
        self._dispatch()

    def _dispatch(self) -> None:
        """Send instructions to their queues, one a cycle, while the next one's queue has room."""
        depth = self.machine.queue_depth
        while self.dispatch_next < len(self.instructions):
            unit = self.instructions[self.dispatch_next].unit
            place = len(self.queued[unit])
            room = 0
            if place >= depth:
                if len(self.popped[unit]) <= place - depth:
                    return
                room = self.popped[unit][place - depth] + 1
            self.dispatch_last = max(self.dispatch_last + 1, room)
            self.dispatch_at[self.dispatch_next] = self.dispatch_last
            self.queued[unit].append(self.dispatch_next)
            self.dispatch_next += 1

    def waits_done(self, instruction: Instruction, units: tuple[Unit, ...]) -> tuple[int, str]:
        """When the waits on `units` are satisfied and the name of the last; NEVER if not yet."""
        when, what = 0, ""
        for unit in units:
            wanted = instruction.waits[unit]
            if not wanted:
                continue
            if wanted > len(self.drained[unit]):
                return NEVER, unit.name.lower()
            if self.drained[unit][wanted - 1] > when:
                when, what = self.drained[unit][wanted - 1], unit.name.lower()
        return when, what

    def banks_free(self, unit: int, reads: int, writes: int) -> int:
        """When no other unit holds any of these banks."""
        when = 0
        for free, owner, mask in (
            (self.read_free, self.read_owner, reads),
            (self.write_free, self.write_owner, writes),
        ):
            bank = 0
            while mask:
                if mask & 1 and owner[bank] != unit:
                    when = max(when, free[bank])
                mask >>= 1
                bank += 1
        return when

    def hold_banks(self, unit: int, reads: int, read_end: int, writes: int, write_end: int) -> None:
        for free, owner, mask, end in (
            (self.read_free, self.read_owner, reads, read_end),
            (self.write_free, self.write_owner, writes, write_end),
        ):
            bank = 0
            while mask:
                if mask & 1:
                    free[bank] = max(free[bank], end) if owner[bank] == unit else end
                    owner[bank] = unit
                mask >>= 1
                bank += 1

    def finish(self) -> None:
        left = len(self.instructions)
        while left:
            best: tuple[int, int, int] | None = None
            chosen: Unit | None = None
            for unit in Unit:
                key = self._array_key() if unit is Unit.ARRAY else self._key(unit)
                if key is not None and (best is None or key < best):
                    best, chosen = key, unit
            if best is None or chosen is None:
                raise RidgelineError(
                    "the program deadlocks: no unit's next instruction can ever start",
                    where=self.blocked(),
                    fix="Run: ridgeline check PROGRAM",
                )
            if chosen is Unit.ARRAY:
                left -= self._advance_array(best[0])
            else:
                self._start(chosen, best[0])
                left -= 1
            self._dispatch()

    def blocked(self) -> str:
        """The instructions at the heads of the queues."""
        heads = [
            f"{unit.name.lower()}: {self.instructions[self.queued[unit][self.position[unit]]]}"
            for unit in Unit
            if self.position[unit] < len(self.queued[unit])
        ]
        return "; ".join(heads)

    def _head(self, unit: Unit) -> int | None:
        place = self.position[unit]
        return self.queued[unit][place] if place < len(self.queued[unit]) else None

    def _ready(self, unit: Unit, index: int) -> tuple[int, str]:
        """When its unit is free, it is in the queue and its waits are satisfied; and the reason."""
        when, what = self.waits_done(self.instructions[index], UNITS)
        if self.unit_free[unit] >= when:
            when, what = self.unit_free[unit], "unit"
        if self.dispatch_at[index] + 1 > when:
            when, what = self.dispatch_at[index] + 1, "dispatch"
        return when, what

    def _key(self, unit: Unit) -> tuple[int, int, int] | None:
        index = self._head(unit)
        if index is None:
            return None
        ready, _ = self._ready(unit, index)
        if ready >= NEVER:
            return None
        instruction = self.instructions[index]
        banks = self.banks_free(unit, instruction.read_banks, instruction.write_banks)
        when = max(ready, banks)
        if unit is Unit.VECTOR:
            return (when, _PLACE[unit], 0)
        # All that may use the port rank alike, then by time of request, then by unit.
        if self.timings[index].port_cycles:
            when = max(when, self.port_free)
        return (when, _PLACE[Unit.LINK], ready * len(Unit) + _PLACE[unit])

    def _start(self, unit: Unit, start: int) -> None:
        index = self.queued[unit][self.position[unit]]
        instruction = self.instructions[index]
        timing = self.timings[index]
        ready, why = self._ready(unit, index)
        if start > ready:
            banks = self.banks_free(unit, instruction.read_banks, instruction.write_banks)
            why = "bank" if banks >= start else "port"
        issued = start + timing.issue_cycles
        done = self.drained[unit]
        drained = max(issued + timing.latency_cycles, done[-1] + 1 if done else 0)
        self.hold_banks(unit, instruction.read_banks, issued, instruction.write_banks, drained)
        if timing.port_cycles:
            self.port_free = start + timing.port_cycles
        self.unit_free[unit] = issued
        self.popped[unit].append(start)
        done.append(drained)
        self.position[unit] += 1
        self.events[index] = Event(
            instruction, self.dispatch_at[index], ready, ready, start, issued, drained, why
        )

    def _array_key(self) -> tuple[int, int, int] | None:
        step = self.array.next_step(self)
        return None if step is None else (step, _PLACE[Unit.ARRAY], 0)

    def _advance_array(self, when: int) -> int:
        """Advance the array by one half-pass; 1 when an instruction is complete."""
        return self.array.advance(self, when)

    def result(self) -> tuple[tuple[Event, ...], int]:
        events = tuple(e for e in self.events if e is not None)
        last = max((e.drained for e in events), default=0)
        return events, max(self.dispatch_last + 1, last) + 1
