"""A plan leaves the same bytes in every memory as the instructions performed one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from compile_cases import DATAFLOWS, small_machine
from layer_programs import layer_program, with_banks, with_constants
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.check import check
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import Arrays, Execution, execute, memories_singly
from ridgeline.machine.execution import plan, planner, steps, walks
from ridgeline.machine.execution.chains import Chains
from ridgeline.machine.execution.constants import Constants
from ridgeline.machine.execution.hazards import LineSet
from ridgeline.machine.execution.held import ParameterSlots, WeightSlots
from ridgeline.machine.execution.products import Product
from ridgeline.machine.execution.steps import Batch
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.fuzz.assembly import assemble
from ridgeline.machine.instructions import (
    HostRead,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Requant,
)
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Program
from single_node import random_stored

MACHINES = (
    ["array.rows=4", "array.cols=4"],
    ["array.rows=2", "array.cols=8", "array.weight_slots=2"],
    ["array.rows=8", "array.cols=8", "vector.parameter_slots=2"],
    ["array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48"],
)
CASES = [(machine, flow) for machine in range(len(MACHINES)) for flow in DATAFLOWS]
PROGRAMS_OF_EACH = 30
"""4 machines x 3 dataflows x 30 x 2 sorts of programs = 720."""

SORTS = ("constants", "layers")
"""Those of `machine.fuzz` with constant data (`test_laws` has the others), and layers."""


def machine_of(number: int, flow: str) -> Machine:
    settings = [*MACHINES[number], f"array.dataflow={flow}", "unified_buffer.bytes=8192"]
    return load_machine("tiny-8", [*settings, "array.accumulator_entries=48"])


def programs(number: int, flow: str, sort: str, count: int) -> Iterator[tuple[Program, Arrays]]:
    """Programs of one sort, each with its inputs."""
    rng = np.random.default_rng([number, DATAFLOWS.index(flow), SORTS.index(sort)])
    machine = machine_of(number, flow)
    for _ in range(count):
        if sort == "layers":
            program = layer_program(machine, rng, int(rng.integers(2, 9)))
        else:
            program = random_program(machine, rng, length=int(rng.integers(5, 60)))
            program = with_constants(program, rng)
        yield program, random_inputs(program, rng)


def memories(program: Program, inputs: Arrays) -> dict[str, bytes]:
    state = Execution(program, OnnxRuntimeExecutor()).memories(inputs)
    return {
        "host": state.host.tobytes(),
        "device": state.device.tobytes(),
        "buffer": state.buffer.tobytes(),
    }


def memories_meant(program: Program, inputs: Arrays) -> dict[str, bytes]:
    state = memories_singly(program, inputs, OnnxRuntimeExecutor())
    return {
        "host": state.host.tobytes(),
        "device": state.device.tobytes(),
        "buffer": state.buffer.tobytes(),
    }


def fused(program: Program) -> Counter[str]:
    """How many steps of each sort a plan has, and how many products."""
    made = plan(program)
    assert made is not None
    count: Counter[str] = Counter()
    for step in (one for number in made.steps for one in made.steps[number]):
        count[type(step).__name__] += 1
        if isinstance(step, Batch):
            count["Product"] += sum(isinstance(c, Product) for c in step.computations)
    return count


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(("number", "flow"), CASES)
def test_random_programs(number: int, flow: str, sort: str) -> None:
    count: Counter[str] = Counter()
    for program, inputs in programs(number, flow, sort, PROGRAMS_OF_EACH):
        check(program)
        assert memories(program, inputs) == memories_meant(program, inputs)
        count += fused(program)
    assert count["One"]
    if sort == "layers":
        assert count["Product"] > 50, count
        assert count["ChainStep"] > 10, count


@pytest.mark.parametrize("seed", range(0, 120, 2))
def test_networks(seed: int) -> None:
    graph = random_network(seed)
    program = compile(graph, small_machine(DATAFLOWS[seed % 3]))
    rng = np.random.default_rng(seed)
    inputs = {value.name: random_stored(value, rng) for value in graph.inputs}
    assert memories(program, inputs) == memories_meant(program, inputs)


def test_a_plan_runs_again_from_blank_memories() -> None:
    graph = random_network(1)
    program = compile(graph, small_machine())
    rng = np.random.default_rng(1)
    execution = Execution(program, OnnxRuntimeExecutor())
    for _ in range(3):
        inputs = {value.name: random_stored(value, rng) for value in graph.inputs}
        for name, array in execute(program, inputs, OnnxRuntimeExecutor()).items():
            np.testing.assert_array_equal(execution.run(inputs)[name], array)


def test_watched_instructions_come_one_by_one() -> None:
    program = compile(random_network(1), small_machine())
    inputs = {t.name: np.zeros(t.shape, t.dtype.numpy) for t in program.inputs}
    seen: list[Instruction] = []
    watched = execute(program, inputs, OnnxRuntimeExecutor(), lambda one, _: seen.append(one))
    assert seen == program.instructions
    for name, array in execute(program, inputs, OnnxRuntimeExecutor()).items():
        np.testing.assert_array_equal(watched[name], array)


def several(machine: Machine, *segments: list[Instruction]) -> Program:
    """A program of these segments, all of whose device memory is constant."""
    rng = np.random.default_rng(3)
    code = [with_banks(one, machine) for segment in segments for one in segment]
    program = with_constants(assemble(code, machine, 4096, rng), rng)
    ends = np.cumsum([0, *map(len, segments)])
    whole = program.instructions
    parts = [DeviceSegment(tuple(whole[a:b])) for a, b in pairwise(ends)]
    return replace(program, segments=tuple(parts))


def test_sums_and_slots_pass_from_segment_to_segment() -> None:
    machine = machine_of(0, "weight-stationary")
    start = [
        Load(device_address=1024, element_bytes=4, count_0=4, device_stride_0=4, line_stride_0=1),
        LoadWeights(address=1000, k=4, n=4, row_stride=4),
        LoadParams(count=4),
        MatMul(count_0=4, stride_0=1, k=4, n=4, x_limit=4, x_step=1),
    ]
    new_input = [replace(start[0], device_address=2048)]
    end: list[Instruction] = [
        replace(start[3], accumulate=1),
        Requant(count_0=4, out_line=8, out_stride_0=1, channels=4, high=255),
    ]
    program = several(machine, start, new_input, end)
    assert memories(program, {}) == memories_meant(program, {})
    assert fused(program)["ChainStep"] == 1


# Each rule of the planner is needed: without it, bytes differ.


def never_hits(lines: LineSet, first: int, last: int) -> bool:
    return False


FAULTS: dict[str, tuple[object, str, object]] = {
    "lines that wait": (LineSet, "hits", never_hits),
    "chains that read": (Chains, "reading", lambda chains, first, last: []),
    "chains in the same entries": (Chains, "overlapping", lambda chains, entry, m: []),
    "sums read again": (planner, "read_again", lambda program: set()),
    "constants overwritten": (Constants, "stays", lambda constants, start, end: True),
    "weights owed": (WeightSlots, "owed", lambda slots, slot: []),
    "parameters owed": (ParameterSlots, "owed", lambda slots, slot: []),
    "elements over each other": (walks, "apart", lambda counts, strides, width: True),
    "transfers over each other": (steps, "apart", lambda counts, strides, width: True),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, broken = FAULTS[name]
    monkeypatch.setattr(owner, attribute, broken)
    assert any(
        differs(program, inputs)
        for sort in SORTS
        for number in (0, 3)
        for program, inputs in programs(number, "weight-stationary", sort, 40)
    )


def differs(program: Program, inputs: Arrays) -> bool:
    try:
        return memories(program, inputs) != memories_meant(program, inputs)
    except (KeyError, ValueError):
        return True


@pytest.mark.parametrize(
    "bad",
    [
        Load(device_address=1 << 39),
        Load(line=1 << 19, element_bytes=8),
        LoadWeights(address=1 << 39),
        LoadWeights(slot=255),
        LoadParams(slot=15),
        MatMul(line=1 << 20),
        MatMul(entry=48),
        Requant(entry=47, count_0=2),
        HostRead(host_address=1 << 39, length_bytes=8),
    ],
    ids=str,
)
def test_what_leaves_the_memories_has_no_plan(bad: Instruction) -> None:
    program = several(machine_of(0, "weight-stationary"), [LoadParams(count=4)])
    (segment,) = program.segments
    assert isinstance(segment, DeviceSegment)
    assert plan(program) is not None
    instructions = (*segment.instructions, bad)
    assert plan(replace(program, segments=(DeviceSegment(instructions),))) is None
