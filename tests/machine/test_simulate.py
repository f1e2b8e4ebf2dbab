"""The compiled event loop against the same loop over objects, event by event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from reference_simulation import simulate_plainly
from ridgeline.errors import RidgelineError
from ridgeline.machine.code import Code
from ridgeline.machine.description import DATAFLOWS, Machine
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import Instruction, MatMul, Unit
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.simulate import OBSTACLES, simulate, simulate_instructions
from ridgeline.machine.timings import Timings

SETTINGS = (
    ["array.rows=4", "array.cols=4"],
    ["array.rows=2", "array.cols=8", "array.weight_rows_per_cycle=2", "unified_buffer.banks=8"],
    ["array.rows=8", "array.cols=8", "array.stream_after_rows=8", "queue_depth=1"],
    ["array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48"],
    ["device_memory.bytes_per_s=50e6", "device_memory.burst_bytes=64"],
)
PROGRAMS = 40


def machine_of(number: int, flow: str) -> Machine:
    small = ["unified_buffer.bytes=8192", "array.accumulator_entries=48"]
    return load_machine("tiny-8", [*SETTINGS[number], f"array.dataflow={flow}", *small])


def programs(number: int, flow: str) -> list[Program]:
    rng = np.random.default_rng([number, DATAFLOWS.index(flow), 7])
    return [random_program(machine_of(number, flow), rng) for _ in range(PROGRAMS)]


def instructions_of(program: Program) -> tuple[Instruction, ...]:
    (segment,) = program.segments
    assert isinstance(segment, DeviceSegment)
    return segment.instructions


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_every_event_is_that_of_the_plain_loop(flow: str) -> None:
    """Every cycle and every obstacle, in 200 random programs of each dataflow."""
    seen: Counter[str] = Counter()
    for number in range(len(SETTINGS)):
        for program in programs(number, flow):
            events, cycles = simulate_plainly(instructions_of(program), program.machine)
            (segment,) = simulate(program).segments
            assert segment.events == events
            assert segment.cycles == cycles
            seen.update(event.waited_for for event in events)
    assert {"unit", "dispatch", "bank", "port", "weights", "vector"} <= set(seen) <= set(OBSTACLES)


@pytest.mark.parametrize("flow", DATAFLOWS)
def test_timings_are_those_of_each_instruction(flow: str) -> None:
    for number in range(len(SETTINGS)):
        for program in programs(number, flow)[:10]:
            instructions = instructions_of(program)
            made = Timings.of(Code.of(instructions), program.machine)
            for place, one in enumerate(instructions):
                time = one.timing(program.machine)
                assert made.issue[place] == time.issue_cycles
                assert made.latency[place] == time.latency_cycles
                assert made.port[place] == time.port_cycles
                if isinstance(one, MatMul):
                    passes = one.passes(program.machine)
                    assert made.passes[place] == len(passes)
                    for number_, each in enumerate(passes):
                        assert made.shift[place, number_] == each.shift_cycles
                        assert made.stream[place, number_] == each.stream_cycles


def test_code_gives_its_instructions_back() -> None:
    for number, flow in enumerate(DATAFLOWS):
        for program in programs(number, flow):
            instructions = instructions_of(program)
            assert Code.of(instructions).instructions() == instructions


def test_a_deadlock_names_the_heads_of_the_queues() -> None:
    machine = machine_of(0, "weight-stationary")
    waits = [0] * len(Unit)
    waits[Unit.ARRAY] = 1
    stuck = replace(MatMul(), waits=(*waits,))
    with pytest.raises(RidgelineError, match="the program deadlocks") as caught:
        simulate_instructions((stuck,), machine)
    assert caught.value.where == "array: MatMul   [wait array>=1]"
    with pytest.raises(RidgelineError) as plain:
        simulate_plainly((stuck,), machine)
    assert plain.value.where == caught.value.where


def test_nothing_takes_the_cycle_of_halt() -> None:
    machine = machine_of(0, "weight-stationary")
    assert simulate_instructions((), machine) == simulate_plainly((), machine)
