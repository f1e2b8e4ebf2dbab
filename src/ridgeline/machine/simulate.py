"""When every instruction starts and ends: an event simulation in O(number of instructions).

At each step the unit whose next instruction can start first is advanced; ties go to the array, then
the vector unit, then the users of the device-memory port in order of request. Because an
instruction never drains in the cycle in which it starts, nothing found later can start earlier, so
one pass is exact. What the array does inside is the recurrence of `dataflow.array_schedule`. The
loop itself is `timeline`; this module prepares its columns and reads its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.machine.code import Code, Integers
from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.event import Event
from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.program import DeviceSegment, HostSegment, Program
from ridgeline.machine.timings import Timings

PRIORITY = (Unit.ARRAY, Unit.VECTOR, Unit.LINK, Unit.LOAD, Unit.STORE, Unit.WEIGHTS)
"""Who goes first when several units could start in one cycle (the port: after order of request)."""

OBSTACLES = (*(unit.name.lower() for unit in Unit), "unit", "dispatch", "shift", "bank", "port")
"""What `Event.waited_for` may be, by its number in `timeline`."""


@dataclass(frozen=True, eq=False)
class SegmentTrace:
    """Cycles [begin, begin + cycles) of one segment, with its events (none on the host).

    times [instructions, 7]: the columns of `timeline`.
    """

    begin: int
    cycles: int
    segment: DeviceSegment | HostSegment
    times: Integers = field(default_factory=lambda: np.zeros((0, 7), np.int64))

    @property
    def host(self) -> str:
        """The name of a host segment; empty on the device."""
        return self.segment.name if isinstance(self.segment, HostSegment) else ""

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """An event for every instruction, in program order."""
        if isinstance(self.segment, HostSegment):
            return ()
        return events_of(self.segment.instructions, self.times)


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
            times, cycles = simulate_code(segment.code, program.machine)
            trace = SegmentTrace(begin, cycles, segment, times)
        else:
            trace = SegmentTrace(begin, host_cycles(segment, program.machine), segment)
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
    instructions: Sequence[Instruction], machine: Machine
) -> tuple[tuple[Event, ...], int]:
    """Events in program order, and the segment's cycles, Halt included."""
    times, cycles = simulate_code(Code.of(instructions), machine)
    return events_of(instructions, times), cycles


def simulate_code(code: Code, machine: Machine, queue_depth: int = 0) -> tuple[Integers, int]:
    """Times [n, 7] as the columns of `timeline`, and the segment's cycles, Halt included.

    `queue_depth`, where given, stands in for the machine's.
    """
    from ridgeline.machine import timeline

    if not len(code):
        return np.zeros((0, 7), np.int64), 1
    lists = _by_unit(code)
    rule = _rule(machine, queue_depth or machine.queue_depth)
    times = np.zeros((len(code), 7), np.int64)
    units = np.zeros((5, len(Unit)), np.int64)
    loaders = machine.array.weight_rows_per_cycle
    last_sent = timeline.run(_columns(code, machine), lists, rule, loaders, times, units)
    drained = units[timeline.POSITION]
    if drained.sum() < len(code):
        raise RidgelineError(
            "the program deadlocks: no unit's next instruction can ever start",
            where=_blocked(code, lists, drained, units[timeline.QUEUED]),
            fix="Run: ridgeline check PROGRAM",
        )
    last = int(times[:, timeline.DRAINED].max(initial=0))
    return times, max(int(last_sent) + 1, last) + 1


def _columns(code: Code, machine: Machine) -> Integers:
    """The code as `timeline` takes it."""
    timings = Timings.of(code, machine)
    cycles = (timings.issue, timings.latency, timings.port)
    lengths = [timings.shift, timings.stream, timings.lead]
    passes = np.stack(lengths, axis=2).reshape(len(code), -1)
    return np.column_stack([code.units, *cycles, *code.banks(), timings.passes, code.waits, passes])


def _rule(machine: Machine, queue_depth: int) -> Integers:
    rule = DATAFLOW_RULES[machine.array.dataflow]
    ranks = [PRIORITY.index(unit) for unit in Unit]
    gates = [rule.shift_gated_by_activations] * len(Unit)
    gates[Unit.WEIGHTS] = rule.shift_gated_by_weights
    at_shift = rule.shift_gated_by_activations
    return np.asarray([queue_depth, at_shift, *ranks, *gates], np.int64)


def _by_unit(code: Code) -> Integers:
    """[units, most]: the instructions of each unit, in order."""
    counts = np.bincount(code.units, minlength=len(Unit))
    lists = np.zeros((len(Unit), max(int(counts.max()), 1)), np.int64)
    for unit in Unit:
        lists[unit, : counts[unit]] = np.flatnonzero(code.units == unit)
    return lists


def _blocked(code: Code, lists: Integers, drained: Integers, sent: Integers) -> str:
    """The instructions at the heads of the queues."""
    units = [unit for unit in Unit if drained[unit] < sent[unit]]
    heads = code.ordered(np.asarray([lists[u, drained[u]] for u in units], np.int64))
    pairs = zip(units, heads.instructions(), strict=True)
    return "; ".join(f"{unit.name.lower()}: {one}" for unit, one in pairs)


def events_of(instructions: Sequence[Instruction], times: Integers) -> tuple[Event, ...]:
    """The life of each instruction, from its line of `times`."""
    lines: list[list[int]] = times.tolist()
    return tuple(
        Event(one, dispatched, shifted, ready, start, issued, drained, OBSTACLES[obstacle])
        for one, (dispatched, shifted, ready, start, issued, drained, obstacle) in zip(
            instructions, lines, strict=True
        )
    )
