"""The quick proof of legality holds exactly where the slow one finds nothing wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ridgeline.machine.check import faults_one_by_one
from ridgeline.machine.code import Code, operand_names
from ridgeline.machine.description import DATAFLOWS
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.screen import proved_legal

PROGRAMS = 25
CHANGES = 12
STEPS = (1, -1, 2, 7, -7, 64, -64, 1000, -1000, 100_000)


def changed(one: Instruction, rng: np.random.Generator) -> Instruction:
    """The instruction with one of its operands, or a wait, moved."""
    names = [*operand_names(type(one)), "waits"]
    name = names[int(rng.integers(len(names)))]
    if name == "waits":
        waits = list(one.waits)
        unit = int(rng.integers(len(Unit)))
        waits[unit] = max(0, waits[unit] + int(rng.choice([-1, 1, -3])))
        return replace(one, waits=(*waits,))
    value = getattr(one, name)
    step = int(rng.choice([*STEPS, -int(value)]))
    return replace(one, **{name: type(value)(value + step)})


def proved(program: Program, instructions: list[Instruction]) -> bool:
    sizes = (program.host_bytes, program.device_bytes)
    return proved_legal(Code.of(instructions), program.machine, *sizes)


@pytest.mark.parametrize("flow", DATAFLOWS)
@pytest.mark.parametrize("rows", [4, 8])
def test_what_is_proved_is_legal_and_what_is_legal_is_proved(flow: str, rows: int) -> None:
    """Random programs, each changed in one operand at a time: legal, or illegal in every way."""
    settings = [f"array.rows={rows}", f"array.dataflow={flow}", "unified_buffer.bytes=8192"]
    machine = load_machine("tiny-8", [*settings, "array.accumulator_entries=48"])
    rng = np.random.default_rng([DATAFLOWS.index(flow), rows])
    illegal = 0
    for _ in range(PROGRAMS):
        program = random_program(machine, rng, length=20)
        (segment,) = program.segments
        assert isinstance(segment, DeviceSegment)
        instructions = list(segment.instructions)
        assert proved(program, instructions)
        for _ in range(CHANGES):
            place = int(rng.integers(len(instructions)))
            other = changed(instructions[place], rng)
            tried = [*instructions[:place], other, *instructions[place + 1 :]]
            mutant = replace(program, segments=(DeviceSegment(tuple(tried)),))
            faults = faults_one_by_one(mutant, 0, tried, 1)
            assert proved(program, tried) == (not faults), other
            illegal += bool(faults)
    assert illegal > PROGRAMS * CHANGES // 5
