"""Laws of every legal program, on more than 2,000 random ones, and proof that they can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.machine.check import check, find_faults
from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import DATAFLOWS, Machine
from ridgeline.machine.execute import Arrays, Execution, checked_inputs
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.instructions import (
    INSTRUCTIONS,
    NO_WAITS,
    Instruction,
    LoadWeights,
    MatMul,
    Requant,
    State,
    Unit,
)
from ridgeline.machine.instructions.word import WORD_BITS
from ridgeline.machine.loader import load_machine
from ridgeline.machine.operands import bank_mask
from ridgeline.machine.order import synchronise
from ridgeline.machine.program import DeviceSegment, Program, program_from_bytes
from ridgeline.machine.simulate import Event, SegmentTrace, simulate

# What leaves float32 has a meaning too, and none that is left to chance.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

MACHINES = [
    ["array.rows=4", "array.cols=4"],
    ["array.rows=2", "array.cols=8", "array.weight_rows_per_cycle=2", "unified_buffer.banks=8"],
    ["array.rows=8", "array.cols=2", "array.weight_rows_per_cycle=4", "array.weight_slots=2"],
    ["array.rows=8", "array.cols=8", "vector.lanes=2", "queue_depth=1"],
    ["array.macs_per_pe_per_cycle.int16=0.5", "array.accumulator_bits=48"],
    ["device_memory.bytes_per_s=50e6", "device_memory.burst_bytes=64"],
]
PROGRAMS_OF_EACH = 115
"""6 machines x 3 dataflows x 115 = 2,070 programs."""

CASES = [(machine, flow) for machine in range(len(MACHINES)) for flow in DATAFLOWS]


@cache
def machine_of(number: int, flow: str) -> Machine:
    settings = [*MACHINES[number], f"array.dataflow={flow}", "unified_buffer.bytes=8192"]
    return load_machine("tiny-8", [*settings, "array.accumulator_entries=48"])


def programs(number: int, flow: str, count: int, length: int | None = None) -> list[Program]:
    rng = np.random.default_rng([number, DATAFLOWS.index(flow)])
    machine = machine_of(number, flow)
    return [
        random_program(machine, rng, length=length or int(rng.integers(5, 36)))
        for _ in range(count)
    ]


def instructions_of(program: Program) -> tuple[Instruction, ...]:
    (segment,) = program.segments
    assert isinstance(segment, DeviceSegment)
    return segment.instructions


def with_instructions(program: Program, instructions: list[Instruction]) -> Program:
    return replace(program, segments=(DeviceSegment(tuple(instructions)),))


def applied(program: Program, inputs: Arrays, order: list[int]) -> tuple[bytes, ...]:
    """Every memory after the instructions have been applied in this order."""
    state = State.blank(program.machine, program.host_bytes, program.device_bytes)
    state.device[: program.constants.size] = program.constants
    arrays = checked_inputs(program, inputs)
    for tensor in program.inputs:
        tensor.write(state.host, arrays[tensor.name])
    for tensor in program.device_inputs:
        tensor.write(state.device, arrays[tensor.name])
    instructions = instructions_of(program)
    for index in order:
        instructions[index].apply(state)
    memories = (state.host, state.device, state.buffer, state.accumulators, state.slots)
    return tuple(memory.tobytes() for memory in (*memories, state.bias, state.scale))


def planned(program: Program, inputs: Arrays) -> tuple[bytes, ...]:
    """Host memory, device memory and unified buffer after the program's plan."""
    state = Execution(program).memories(inputs)
    return (state.host.tobytes(), state.device.tobytes(), state.buffer.tobytes())


def other_timing(machine: Machine, number: int) -> Machine:
    """The same machine as far as bits go, with a faster or, for odd numbers, a slower memory."""
    memory = machine.device_memory
    if number % 2:
        slow = replace(memory, bytes_per_s=memory.bytes_per_s / 8, latency_cycles=300)
        return replace(machine, device_memory=slow, vector=replace(machine.vector, lanes=1))
    fast = replace(memory, bytes_per_s=memory.bytes_per_s * 64, latency_cycles=0)
    return replace(machine, device_memory=fast, queue_depth=64)


def orders(events: tuple[Event, ...]) -> list[list[int]]:
    """Indices by start and by drain. An instruction of an earlier place goes first in a tie."""
    count = range(len(events))
    return [
        sorted(count, key=lambda i: (events[i].start, i)),
        sorted(count, key=lambda i: (events[i].drained, i)),
    ]


@pytest.mark.parametrize(("number", "flow"), CASES)
def test_random_programs(number: int, flow: str) -> None:
    rng = np.random.default_rng(1)
    for place, program in enumerate(programs(number, flow, PROGRAMS_OF_EACH)):
        check(program)
        inputs = random_inputs(program, rng)
        in_program_order = list(range(len(instructions_of(program))))
        bits = applied(program, inputs, in_program_order)
        assert planned(program, inputs) == bits[:3]
        done = {tuple(in_program_order)}
        for machine in (program.machine, other_timing(program.machine, place)):
            (segment,) = simulate(replace(program, machine=machine)).segments
            assert_timing_laws(segment, machine)
            for order in orders(segment.events):
                if tuple(order) not in done:
                    done.add(tuple(order))
                    assert applied(program, inputs, order) == bits


def assert_timing_laws(segment: SegmentTrace, machine: Machine) -> None:
    events = segment.events
    units = {unit: [e for e in events if e.instruction.unit is unit] for unit in Unit}
    for event in events:
        for unit, count in zip(Unit, event.instruction.waits, strict=True):
            assert not count or event.start >= units[unit][count - 1].drained
        assert event.dispatched < event.shifted <= event.start or event.instruction.unit != 4
        assert event.dispatched < event.ready <= event.start <= event.issued < event.drained
        assert event.issued >= event.start + event.instruction.timing(machine).issue_cycles
    for mine in units.values():
        for before, after in pairwise(mine):
            assert after.start >= before.issued
            assert after.drained > before.drained
    assert_port_is_exclusive(events, machine)
    assert_banks_are_exclusive(events, machine)
    assert segment.cycles > max((e.drained for e in events), default=0)
    for bound in (
        sum(e.issued - e.start for e in units[Unit.VECTOR]),
        sum(e.issued - e.start for e in units[Unit.ARRAY]),
        sum(e.instruction.timing(machine).port_cycles for e in events),
    ):
        assert segment.cycles >= bound


def assert_port_is_exclusive(events: tuple[Event, ...], machine: Machine) -> None:
    held = sorted(
        (e.start, e.start + e.instruction.timing(machine).port_cycles)
        for e in events
        if e.instruction.timing(machine).port_cycles
    )
    for (_, end), (start, _) in pairwise(held):
        assert start >= end


def read_interval(event: Event, machine: Machine) -> tuple[int, int]:
    """When the banks are read: while operands stream, or while activations shift in."""
    if DATAFLOW_RULES[machine.array.dataflow].shift_gated_by_activations and isinstance(
        event.instruction, MatMul
    ):
        shift = event.instruction.passes(machine)[0].shift_cycles
        return event.shifted, event.shifted + shift
    return event.start, event.issued


def assert_banks_are_exclusive(events: tuple[Event, ...], machine: Machine) -> None:
    """No bank's port is held by two units at once."""
    for bank in range(machine.unified_buffer.banks):
        mask = 1 << bank
        reads = sorted(
            (*read_interval(e, machine), e.instruction.unit)
            for e in events
            if e.instruction.read_banks & mask
        )
        writes = sorted(
            (e.start, e.drained, e.instruction.unit)
            for e in events
            if e.instruction.write_banks & mask
        )
        for held in (reads, writes):
            latest: dict[Unit, int] = {}
            for start, end, unit in held:
                assert all(start >= e for u, e in latest.items() if u is not unit)
                latest[unit] = max(latest.get(unit, 0), end)


# Mutations: what is not legal is reported.


def with_derived_waits(program: Program) -> Program:
    """With the waits that `synchronise` derives, and none of the fuzzer's own."""
    bare = [replace(one, waits=NO_WAITS) for one in instructions_of(program)]
    made = synchronise(bare, program.machine, program.host_bytes, program.device_bytes)
    return with_instructions(program, list(made))


def test_every_wait_is_necessary() -> None:
    """Without any single wait that `synchronise` derived, `check` reports a race."""
    removed = 0
    for number, flow in CASES:
        for program in map(with_derived_waits, programs(number, flow, 6)):
            instructions = list(instructions_of(program))
            for index, one in enumerate(instructions):
                for unit, count in enumerate(one.waits):
                    if not count:
                        continue
                    waits = list(one.waits)
                    waits[unit] = 0
                    bad = replace(one, waits=tuple(waits))
                    changed = [*instructions[:index], bad, *instructions[index + 1 :]]
                    faults = find_faults(with_instructions(program, changed), 1)
                    assert faults, (str(one), Unit(unit).name)
                    assert "race on" in faults[0].text
                    removed += 1
    assert removed > 500


def test_a_wait_one_short_is_a_race() -> None:
    for number, flow in CASES:
        for program in map(with_derived_waits, programs(number, flow, 2)):
            instructions = list(instructions_of(program))
            for index, one in enumerate(instructions):
                for unit, count in enumerate(one.waits):
                    if count:
                        waits = list(one.waits)
                        waits[unit] = count - 1
                        bad = replace(one, waits=tuple(waits))
                        changed = [*instructions[:index], bad, *instructions[index + 1 :]]
                        assert find_faults(with_instructions(program, changed), 1)


def test_a_wait_on_the_future_is_a_deadlock() -> None:
    for number, flow in CASES:
        (program,) = programs(number, flow, 1)
        instructions = list(instructions_of(program))
        total = sum(one.unit is Unit.ARRAY for one in instructions)
        waits = [0] * len(Unit)
        waits[Unit.ARRAY] = total + 1
        instructions[0] = replace(instructions[0], waits=tuple(waits))
        bad = with_instructions(program, instructions)
        assert "a deadlock" in find_faults(bad, 1)[0].text
        with pytest.raises(RidgelineError, match="the program deadlocks"):
            simulate(bad)


def test_a_bank_that_is_not_named_is_reported() -> None:
    found = 0
    for number, flow in CASES:
        (program,) = programs(number, flow, 1)
        machine = program.machine
        instructions = list(instructions_of(program))
        for index, one in enumerate(instructions):
            accesses = one.accesses(machine)
            for field, table in (("banks", accesses.reads), ("out_banks", accesses.writes)):
                mask = bank_mask(table.get("buffer"), machine)
                if mask and getattr(one, field, 0):
                    bad = replace(one, **{field: getattr(one, field) & ~(mask & -mask)})
                    changed = [*instructions[:index], bad, *instructions[index + 1 :]]
                    text = find_faults(with_instructions(program, changed), 1)[0].text
                    assert "but it holds" in text
                    found += 1
    assert found > 100


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: MatMul(k=m.array.rows + 1), "does not fit"),
        (lambda m: MatMul(k=0), "handles no bytes"),
        (lambda m: MatMul(count_1=0), "nothing to do"),
        (lambda m: MatMul(slot=200), "slot 200 of"),
        (lambda m: MatMul(format=3), "format code 3 means nothing"),
        (lambda m: MatMul(entry=m.array.accumulator_entries, banks=1), "writes accumulators place"),
        (lambda m: MatMul(line=m.unified_buffer.lines, banks=1), "reads buffer place"),
        (lambda m: MatMul(line=-1, banks=1), "reads buffer place -1"),
        (lambda m: MatMul(k=1 << 20), "does not fit its field"),
        (lambda m: LoadWeights(address=1 << 39), "of device memory, which has"),
        (lambda m: LoadWeights(n=m.array.cols + 1), "does not fit"),
        (lambda m: Requant(channels=m.array.cols + 1, out_banks=1), "cross a line|columns"),
        (lambda m: Requant(slot=15, out_banks=1), "parameter slot 15"),
        (lambda m: Requant(entry=m.array.accumulator_entries, out_banks=1), "reads accumulators"),
    ],
)
def test_operands_out_of_range(change: Callable[[Machine], Instruction], text: str) -> None:
    (program,) = programs(0, "weight-stationary", 1)
    bad = with_instructions(program, [change(program.machine)])
    with pytest.raises(RidgelineError, match=text):
        check(bad)


# Words and files.


@pytest.mark.parametrize("kind", INSTRUCTIONS.values(), ids=lambda kind: kind.__name__)
def test_every_word_decodes_and_encodes_to_itself(kind: type[Instruction]) -> None:
    rng = np.random.default_rng(5)
    used = max((spec.offset + spec.width for spec in kind.layout()), default=0)
    for _ in range(200):
        word = int.from_bytes(rng.bytes(WORD_BITS // 8), "little") & ((1 << used) - 1)
        word = word >> 4 << 4 | kind.opcode
        one = kind.decode(word, layer=3)
        floats = [getattr(one, spec.name) for spec in kind.layout() if spec.is_float]
        if not any(np.isnan(value) for value in floats):
            assert one.encode() == word
            assert kind.decode(one.encode(), layer=3) == one


def test_program_files_round_trip() -> None:
    for number, flow in CASES:
        for program in programs(number, flow, 2):
            data = program.to_bytes()
            again = program_from_bytes(data)
            assert again.to_bytes() == data
            assert again.machine == program.machine
            assert instructions_of(again) == instructions_of(program)


def test_a_damaged_file_is_refused() -> None:
    """Cut short anywhere, or with any one bit changed: always a RidgelineError."""
    (program,) = programs(0, "weight-stationary", 1, length=6)
    data = program.to_bytes()
    rng = np.random.default_rng(2)
    for size in [*range(64), *rng.integers(0, len(data), 200)]:
        with pytest.raises(RidgelineError):
            program_from_bytes(data[:size])
    for bit in [*range(8 * 24), *rng.integers(0, 8 * len(data), 300)]:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RidgelineError):
            program_from_bytes(bytes(flipped))
