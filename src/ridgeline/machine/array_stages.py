"""The array unit in the simulation: one stage shifts the next pass's operand in, one streams."""

from __future__ import annotations

from typing import Protocol

from ridgeline.machine.dataflow import DATAFLOW_RULES, Pass, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.event import NEVER, Event
from ridgeline.machine.instructions import Instruction, MatMul, Unit

UNITS = tuple(Unit)


class Run(Protocol):
    """What the array needs of the simulation that it is part of."""

    instructions: tuple[Instruction, ...]
    events: list[Event | None]
    drained: list[list[int]]
    popped: list[list[int]]
    queued: list[list[int]]
    dispatch_at: list[int]
    position: list[int]

    def waits_done(self, instruction: Instruction, units: tuple[Unit, ...]) -> tuple[int, str]:
        """When the waits on `units` are satisfied, and the last one's name."""
        ...

    def banks_free(self, unit: int, reads: int, writes: int) -> int:
        """When no other unit holds any of these banks."""
        ...

    def hold_banks(self, unit: int, reads: int, read_end: int, writes: int, write_end: int) -> None:
        """Hold banks until the given cycles."""
        ...


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
