"""Waits found by the compiled loop against those found by sets of places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference_ordering import synchronise_plainly
from ridgeline.machine.code import Code
from ridgeline.machine.description import DATAFLOWS, Machine
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import NO_WAITS, Instruction, MatMul, Space
from ridgeline.machine.loader import load_machine
from ridgeline.machine.operands import bank_mask
from ridgeline.machine.order import is_ordered, synchronise, touched_banks
from ridgeline.machine.program import DeviceSegment, Program

SETTINGS = (
    ["array.rows=4", "array.cols=4"],
    ["array.rows=8", "array.cols=2", "array.weight_rows_per_cycle=4", "array.weight_slots=2"],
    ["array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48"],
)
CASES = [(number, flow) for number in range(len(SETTINGS)) for flow in DATAFLOWS]


def machine_of(number: int, flow: str) -> Machine:
    small = ["unified_buffer.bytes=8192", "array.accumulator_entries=48"]
    return load_machine("tiny-8", [*SETTINGS[number], f"array.dataflow={flow}", *small])


def programs(number: int, flow: str, count: int) -> list[Program]:
    rng = np.random.default_rng([number, DATAFLOWS.index(flow), 11])
    machine = machine_of(number, flow)
    return [random_program(machine, rng, length=int(rng.integers(5, 50))) for _ in range(count)]


def instructions_of(program: Program) -> tuple[Instruction, ...]:
    (segment,) = program.segments
    assert isinstance(segment, DeviceSegment)
    return segment.instructions


@pytest.mark.parametrize(("number", "flow"), CASES)
def test_waits_are_those_of_the_plain_analysis(number: int, flow: str) -> None:
    """With and without waits that are given: they stay, and may settle others."""
    for program in programs(number, flow, 30):
        sizes = (program.host_bytes, program.device_bytes)
        given = instructions_of(program)
        bare = tuple(replace(one, waits=NO_WAITS) for one in given)
        for instructions in (given, bare):
            made = synchronise(instructions, program.machine, *sizes)
            assert made == synchronise_plainly(instructions, program.machine, *sizes)
            assert is_ordered(Code.of(made), program.machine, *sizes)


@pytest.mark.parametrize(("number", "flow"), CASES)
def test_banks_are_those_of_the_places(number: int, flow: str) -> None:
    for program in programs(number, flow, 10):
        instructions = instructions_of(program)
        reads, writes = touched_banks(Code.of(instructions), program.machine)
        for one, read, written in zip(instructions, reads, writes, strict=True):
            accesses = one.accesses(program.machine)
            assert read == bank_mask(accesses.reads.get(Space.BUFFER), program.machine)
            assert written == bank_mask(accesses.writes.get(Space.BUFFER), program.machine)


def test_a_place_outside_is_not_followed() -> None:
    machine = machine_of(0, "weight-stationary")
    beyond = MatMul(line=machine.unified_buffer.lines, banks=1)
    with pytest.raises(IndexError, match="instruction 1 leaves its memories"):
        synchronise((MatMul(banks=1), beyond), machine, 64, 4096)
    assert not is_ordered(Code.of((beyond,)), machine, 64, 4096)
