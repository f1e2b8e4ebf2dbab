"""Random legal programs shaped like layers: constant weights, chains of MatMul, then Requants.

`machine.fuzz` draws every instruction on its own, so its chains seldom end in a Requant of just
their sums. Here they mostly do, while loads, reductions and reloaded slots come in between.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz import random_inputs
from ridgeline.machine.fuzz.assembly import PARAMETER_RECORDS, assemble
from ridgeline.machine.fuzz.draw import Draw
from ridgeline.machine.fuzz.operands import Operands
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    Requant,
    Space,
    WindowReduce,
)
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.operands import bank_mask
from ridgeline.machine.overlap import overlap_faults
from ridgeline.machine.program import Program


class LayerMaker:
    """Draws chains and what lies between them."""

    def __init__(self, machine: Machine, rng: np.random.Generator) -> None:
        self.machine = machine
        self.draw = Draw(rng)
        self.operands = Operands(machine, self.draw)
        self.instructions: list[Instruction] = []
        self.windows: list[MatMul] = []
        """First MatMuls of earlier chains, whose windows later ones use again."""

    def add(self, one: Instruction) -> None:
        one = with_banks(one, self.machine)
        if not overlap_faults(one):
            self.instructions.append(one)

    def slot(self, number: int) -> LoadWeights:
        one = self.operands.load_weights()
        while one.from_buffer or one.transposed:
            one = self.operands.load_weights()
        return replace(one, slot=number)

    def parameters(self, number: int) -> LoadParams:
        count = min(self.machine.unified_buffer.line_bytes, PARAMETER_RECORDS)
        if self.draw.chance(0.2):
            count = self.draw.between(1, count)
        address = PARAMETER_BYTES * self.draw.between(0, PARAMETER_RECORDS - count)
        return LoadParams(slot=number, device_address=address, count=count)

    def fill(self) -> None:
        """Load every slot."""
        for number in range(self.machine.array.weight_slots):
            self.add(self.slot(number))
        for number in range(self.machine.vector.parameter_slots):
            self.add(self.parameters(number))

    def between(self) -> None:
        """Perhaps an instruction of another kind."""
        draw, operands = self.draw, self.operands
        choice = draw.between(0, 11)
        if choice == 0:
            self.add(self.slot(draw.between(0, self.machine.array.weight_slots - 1)))
        elif choice == 1:
            self.add(self.parameters(draw.between(0, self.machine.vector.parameter_slots - 1)))
        elif choice == 2:
            self.add(operands.load())
        elif choice == 3:
            self.add(operands.store() if draw.chance(0.5) else operands.host_write())
        elif choice == 4:
            self.add(operands.elementwise())
        elif choice == 5 and operands.window_operations:
            self.add(operands.window_reduce())
        elif choice == 6 and "lookup" in self.machine.vector.operations:
            self.add(operands.lookup())

    def _matmul(self, first: MatMul | None) -> MatMul:
        """One MatMul of a chain: of the windows of an earlier one, or of others as many."""
        draw = self.draw
        one = self.operands.matmul(None, set())
        known = [w for w in self.windows if first is None or w.counts == first.counts]
        if known and draw.chance(0.6):
            one = draw.choice(known)
        elif first is not None:
            lines = self.machine.unified_buffer.lines
            walk = draw.plain_window(lines, one.format == 2, first.m)
            one = replace(one, **walk.operands())
        slot = draw.between(0, self.machine.array.weight_slots - 1)
        return replace(one, slot=slot, keep_weights=0)

    def chain(self) -> None:
        """MatMuls that add up, then mostly a Requant of what they made, or two."""
        draw = self.draw
        length = draw.between(1, 4)
        first = self._matmul(None)
        most = DATAFLOW_RULES[self.machine.array.dataflow].most_m(self.machine.array)
        entry = draw.between(0, self.machine.array.accumulator_entries - min(first.m, most))
        stays = self.machine.array.dataflow == "output-stationary"
        for number in range(length):
            one = first if number == 0 else self._matmul(first)
            accumulate = int(number > 0 or (not stays and draw.chance(0.15)))
            last = int(number == length - 1 or not stays)
            one = replace(one, entry=entry, accumulate=accumulate, last=last)
            self.add(one)
            self.windows.append(one)
            if number < length - 1:
                self.between()
        for _ in range(draw.choice((0, 1, 1, 1, 1, 2))):
            self.between()
            self.add(replace(self.operands.requant(None), **self._output_of(first), entry=entry))

    def _output_of(self, first: MatMul) -> dict[str, int]:
        """A walk of output lines for every entry of a chain, mostly in order."""
        counts = first.counts
        strides = self.draw.line_strides(2)
        lines = self.machine.unified_buffer.lines - 1
        walk = self.draw.walk(0, lines, strides, counts, height=2)
        return {
            "out_line": walk.start,
            **{f"count_{i}": value for i, value in enumerate(counts)},
            **{f"out_stride_{i}": value for i, value in enumerate(walk.strides)},
        }


def with_banks(one: Instruction, machine: Machine) -> Instruction:
    """The instruction with the banks that it touches."""
    accesses = one.accesses(machine)
    read = bank_mask(accesses.reads.get(Space.BUFFER), machine)
    written = bank_mask(accesses.writes.get(Space.BUFFER), machine)
    if isinstance(one, (Elementwise, WindowReduce, Lookup)):
        return replace(one, in_banks=read, out_banks=written)
    if isinstance(one, Requant):
        return replace(one, out_banks=written)
    return replace(one, banks=read | written) if read | written else one


def layer_program(machine: Machine, rng: np.random.Generator, chains: int) -> Program:
    """A legal program of about that many chains; all of device memory is constant at the start."""
    maker = LayerMaker(machine, rng)
    maker.fill()
    for _ in range(chains):
        maker.chain()
        maker.between()
    program = assemble(maker.instructions, machine, maker.operands.device_bytes, rng)
    return with_constants(program, rng)


def with_constants(program: Program, rng: np.random.Generator) -> Program:
    """The program with its input in device memory made a constant."""
    data = random_inputs(program, rng)["data"]
    constants = np.concatenate([program.constants, data])
    return replace(program, constants=constants, device_inputs=())
