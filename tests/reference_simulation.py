"""The simulation written plainly, one object an instruction: what `machine.timeline` is held to."""

from __future__ import annotations

from ridgeline.errors import RidgelineError
from ridgeline.machine.dataflow import DATAFLOW_RULES, Pass, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.event import Event
from ridgeline.machine.instructions import Instruction, MatMul, Unit
from ridgeline.machine.simulate import PRIORITY

NEVER = 1 << 60
UNITS = tuple(Unit)

_PLACE = {unit: place for place, unit in enumerate(PRIORITY)}


def simulate_plainly(
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
        self.port_drained = [0] * len(Unit)
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
        free = max(self.unit_free[unit], self._in_order(unit, index))
        if free >= when:
            when, what = free, "unit"
        if self.dispatch_at[index] + 1 > when:
            when, what = self.dispatch_at[index] + 1, "dispatch"
        return when, what

    def _in_order(self, unit: Unit, index: int) -> int:
        """From when on the instruction's first result comes behind the last of those before it."""
        timing, done = self.timings[index], self.drained[unit]
        after_port = 0 if timing.port_cycles else self.port_drained[unit]
        if unit is not Unit.VECTOR or not done:
            return after_port
        return max(after_port, done[-1] - timing.latency_cycles)

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
        drained = issued + timing.latency_cycles
        self.hold_banks(unit, instruction.read_banks, issued, instruction.write_banks, drained)
        if timing.port_cycles:
            self.port_free = start + timing.port_cycles
            self.port_drained[unit] = drained
        self.unit_free[unit] = issued
        self.popped[unit].append(start)
        self.drained[unit].append(drained)
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


class ArrayStages:
    """The array unit: one stage shifts the next pass's stationary operand, one streams."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        rule = DATAFLOW_RULES[machine.array.dataflow]
        others = tuple(u for u in Unit if u is not Unit.WEIGHTS)
        self.shift_gates: tuple[Unit, ...] = ()
        if rule.shift_gated_by_weights:
            self.shift_gates += (Unit.WEIGHTS,)
        if rule.shift_gated_by_activations:
            self.shift_gates += others
        self.banks_at_shift = rule.shift_gated_by_activations
        self.loaders = [0] * machine.array.weight_rows_per_cycle
        self.turn = 0
        self.entered = 0
        self.free = 0
        self.passes: tuple[Pass, ...] = ()
        self.number = 0
        self.shifting: int | None = None
        self.first: tuple[int, int, int, str] = (0, 0, 0, "")

    def _instruction(self, run: Run) -> MatMul | None:
        place = run.position[Unit.ARRAY]
        queue = run.queued[Unit.ARRAY]
        if place >= len(queue):
            return None
        instruction = run.instructions[queue[place]]
        assert isinstance(instruction, MatMul)
        return instruction

    def next_step(self, run: Run) -> int | None:
        """The cycle of the next shift start or stream start; None when it cannot be known yet."""
        instruction = self._instruction(run)
        if instruction is None:
            return None
        if not self.passes:
            self.passes = instruction.passes(self.machine)
            self.number = 0
        when = (
            self._shift_time(run, instruction)
            if self.shifting is None
            else (self._stream_time(run, instruction)[0])
        )
        return None if when >= NEVER else when

    def _shift_time(self, run: Run, instruction: MatMul) -> int:
        index = run.queued[Unit.ARRAY][run.position[Unit.ARRAY]]
        when = max(self.entered, run.dispatch_at[index] + 1)
        one = self.passes[self.number]
        if one.shift_cycles:
            when = max(when, self.loaders[self.turn])
            when = max(when, run.waits_done(instruction, self.shift_gates)[0])
            if self.banks_at_shift:
                when = max(when, run.banks_free(Unit.ARRAY, instruction.read_banks, 0))
        return when

    def _stream_time(self, run: Run, instruction: MatMul) -> tuple[int, int, str]:
        """(start, ready, obstacle) of the current pass's stream."""
        assert self.shifting is not None
        when, what = run.waits_done(instruction, UNITS)
        if self.free >= when:
            when, what = self.free, "unit"
        led = self.shifting + shift_lead_cycles(self.machine.array, self.passes[self.number])
        if led > when:
            when, what = led, "shift"
        ready = when
        if not self.banks_at_shift:
            banks = run.banks_free(Unit.ARRAY, instruction.read_banks, 0)
            if banks > when:
                when, what = banks, "bank"
        return when, ready, what

    def advance(self, run: Run, when: int) -> int:
        instruction = self._instruction(run)
        assert instruction is not None
        one = self.passes[self.number]
        if self.shifting is None:
            self._shift(run, instruction, one, when)
            return 0
        _, ready, what = self._stream_time(run, instruction)
        if self.number == 0:
            self.first = (self.shifting, ready, when, what)
        self.free = when + one.stream_cycles
        self.entered = when + 1
        self.shifting = None
        if not self.banks_at_shift:
            run.hold_banks(Unit.ARRAY, instruction.read_banks, self.free, 0, 0)
        self.number += 1
        if self.number < len(self.passes):
            return 0
        self._complete(run, instruction)
        return 1

    def _shift(self, run: Run, instruction: MatMul, one: Pass, when: int) -> None:
        if self.number == 0:
            run.popped[Unit.ARRAY].append(when)
        if one.shift_cycles:
            self.loaders[self.turn] = when + one.shift_cycles
            self.turn = (self.turn + 1) % len(self.loaders)
            if self.banks_at_shift:
                end = when + one.shift_cycles
                run.hold_banks(Unit.ARRAY, instruction.read_banks, end, 0, 0)
        self.shifting = when

    def _complete(self, run: Run, instruction: MatMul) -> None:
        index = run.queued[Unit.ARRAY][run.position[Unit.ARRAY]]
        shifted, ready, start, what = self.first
        drained = self.free + instruction.timing(self.machine).latency_cycles
        run.drained[Unit.ARRAY].append(drained)
        run.position[Unit.ARRAY] += 1
        run.events[index] = Event(
            instruction,
            run.dispatch_at[index],
            shifted,
            ready,
            start,
            self.free,
            drained,
            what,
        )
        self.passes = ()
