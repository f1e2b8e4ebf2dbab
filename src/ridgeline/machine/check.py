"""Proof that a program is legal: operands in range, no race, no deadlock, banks truly named.

Everything emitted, fuzzed or loaded from a file passes here before it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Requant,
    Space,
    Store,
    Unit,
    WindowReduce,
)
from ridgeline.machine.instructions.array import FORMAT_NAMES, INT16, planes
from ridgeline.machine.instructions.state import Accesses, Places
from ridgeline.machine.instructions.vector import (
    DEPTHWISE,
    ELEMENTWISE_OPERATIONS,
    WINDOW_OPERATIONS,
)
from ridgeline.machine.order import OrderTracker, space_sizes
from ridgeline.machine.overlap import overlap_faults
from ridgeline.machine.program import DeviceSegment, Program


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why a program is illegal, at instruction `index` of segment `segment`."""

    segment: int
    index: int
    instruction: str
    text: str

    def __str__(self) -> str:
        return f"segment {self.segment}, instruction {self.index} ({self.instruction}): {self.text}"


def check(program: Program, most: int = 10) -> None:
    """Return when the program is legal; else raise RidgelineError with its first faults."""
    faults = find_faults(program, most)
    if faults:
        more = "" if len(faults) < most else " (there may be more)"
        raise RidgelineError(
            "\n  ".join([f"illegal program: {len(faults)} faults{more}", *map(str, faults)]),
            where=program.name,
            fix="A compiler never emits this: compile the model again",
        )


def find_faults(program: Program, most: int = 10) -> list[Fault]:
    """The first `most` faults, in program order."""
    faults: list[Fault] = []
    for number, segment in enumerate(program.segments):
        if isinstance(segment, DeviceSegment):
            checker = _SegmentCheck(program, number)
            for index, instruction in enumerate(segment.instructions):
                for text in checker.faults(instruction):
                    name = type(instruction).__name__
                    faults.append(Fault(number, index, name, text))
                if len(faults) >= most:
                    return faults[:most]
    return faults


class _SegmentCheck:
    """Checks instructions of one segment in order."""

    def __init__(self, program: Program, number: int) -> None:
        self.machine = program.machine
        self.sizes = space_sizes(self.machine, program.host_bytes, program.device_bytes)
        self.tracker = OrderTracker(self.machine, self.sizes)
        self.previous: MatMul | None = None
        self.refilled: set[int] = set()
        """Weight slots loaded since the MatMul before."""

    def faults(self, instruction: Instruction) -> list[str]:
        """What is wrong with the next instruction."""
        try:
            instruction.encode()
        except RidgelineError as error:
            return [str(error)]
        texts = operand_faults(instruction, self.machine) + self._wait_faults(instruction)
        if texts:
            return texts
        accesses = instruction.accesses(self.machine)
        texts = self._range_faults(accesses)
        if texts:
            return texts
        texts = bank_faults(instruction, accesses, self.machine) + overlap_faults(instruction)
        start, shift = self.tracker.clocks(instruction)
        for c in self.tracker.conflicts(instruction, accesses, start, shift):
            when = " before its weights shift in" if c.at_shift else ""
            texts.append(
                f"race on {c.space}: {c.unit.name.lower()} instruction {c.count} is not waited"
                f" for{when}"
            )
        texts += self._array_faults(instruction)
        self.tracker.record(instruction, accesses, start)
        return texts

    def _wait_faults(self, instruction: Instruction) -> list[str]:
        """Waits may name only what comes earlier in the program: then it cannot deadlock.

        Proof: the oldest instruction that has not drained has all before it drained, so its queue
        holds nothing older, it has been dispatched, and every count that it awaits is reached.
        """
        return [
            f"waits for {unit.name.lower()} count {count}, but only {self.tracker.issued[unit]}"
            " come before it: a deadlock"
            for unit, count in zip(Unit, instruction.waits, strict=True)
            if count > self.tracker.issued[unit]
        ]

    def _range_faults(self, accesses: Accesses) -> list[str]:
        texts: list[str] = []
        for verb, table in (("reads", accesses.reads), ("writes", accesses.writes)):
            for space, places in table.items():
                size = self.sizes[space]
                if places.size and (places.min() < 0 or places.max() >= size):
                    bad = places.min() if places.min() < 0 else places.max()
                    texts.append(f"{verb} {space} place {bad} outside 0 to {size - 1}")
        return texts

    def _array_faults(self, instruction: Instruction) -> list[str]:
        if isinstance(instruction, LoadWeights):
            self.refilled.add(instruction.slot)
        if not isinstance(instruction, MatMul):
            return []
        before, self.previous = self.previous, instruction
        refilled, self.refilled = self.refilled, set()
        if instruction.keep_weights:
            if before is None or before.slot != instruction.slot or before.k != instruction.k:
                return ["keeps weights, but the MatMul before used another slot or depth"]
            if instruction.slot in refilled:
                return ["keeps weights, but its slot was loaded after the MatMul before"]
        if self.machine.array.dataflow != "output-stationary":
            return []
        follows = before is not None and not before.last
        same = before is not None and (before.entry, before.m) == (
            instruction.entry,
            instruction.m,
        )
        if bool(instruction.accumulate) != follows or (follows and not same):
            return ["breaks a chain of sums that stay in an output-stationary array"]
        return []


def operand_faults(instruction: Instruction, machine: Machine) -> list[str]:
    """Operands outside what the machine has."""
    checks: dict[type[Instruction], Callable[[Any, Machine], list[str]]] = {
        Load: _transfer_faults,
        Store: _transfer_faults,
        LoadWeights: _weights_faults,
        LoadParams: _params_faults,
        MatMul: _matmul_faults,
        Requant: _vector_faults,
        Elementwise: _vector_faults,
        WindowReduce: _vector_faults,
    }
    one = checks.get(type(instruction))
    return one(instruction, machine) if one else []


def _lane_fault(lane: int, width: int, machine: Machine) -> list[str]:
    line = machine.unified_buffer.line_bytes
    if width < 1:
        return ["handles no bytes"]
    return [] if lane + width <= line else [f"bytes {lane} to {lane + width - 1} cross a line"]


def _counts_fault(counts: tuple[int, ...]) -> list[str]:
    return [] if min(counts) > 0 else [f"repeats {counts} times: nothing to do"]


def _transfer_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, (Load, Store))
    return _lane_fault(one.lane, one.element_bytes, machine) + _counts_fault(one.counts)


def _weights_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, LoadWeights)
    texts: list[str] = []
    array = machine.array
    if not (0 < one.k <= array.rows and 0 < one.n <= array.cols):
        texts.append(f"a {one.k} x {one.n} tile does not fit {array.rows} x {array.cols}")
    if one.slot >= array.weight_slots:
        texts.append(f"slot {one.slot} of {array.weight_slots}")
    texts += _zero_point_fault(one.zero_point, *((-128, 127) if one.signed else (0, 255)))
    if one.from_buffer:
        texts += _lane_fault(one.lane, one.k if one.transposed else one.n, machine)
    return texts


def _params_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, LoadParams)
    if one.slot >= machine.vector.parameter_slots:
        return [f"slot {one.slot} of {machine.vector.parameter_slots}"]
    if not 0 < one.count <= machine.unified_buffer.line_bytes:
        return [f"{one.count} channels of {machine.unified_buffer.line_bytes}"]
    return []


def _format_fault(code: int, machine: Machine) -> list[str]:
    if code > INT16:
        return [f"format code {code} means nothing"]
    name = "int16" if code == INT16 else "int8"
    if name not in machine.array.macs_per_pe_per_cycle:
        return [f"the machine has no {FORMAT_NAMES[code]}"]
    return []


def _zero_point_fault(zero_point: int, low: int, high: int) -> list[str]:
    """Operands are 9 bits wide after the zero point, which holds only for one of their format."""
    if low <= zero_point <= high:
        return []
    return [f"zero point {zero_point} is not of its element's format, {low} to {high}"]


def _matmul_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, MatMul)
    array = machine.array
    texts = _lane_fault(one.lane, one.k, machine) + _counts_fault(one.counts)
    texts += _format_fault(one.format, machine)
    if one.format != INT16:
        texts += _zero_point_fault(one.zero_point, *((-128, 127) if one.format else (0, 255)))
    if not (0 < one.k <= array.rows and 0 < one.n <= array.cols):
        texts.append(f"a {one.k} x {one.n} tile does not fit {array.rows} x {array.cols}")
    if one.lane % array.rows:
        texts.append(f"lane {one.lane} is not a multiple of the array's {array.rows} rows")
    if one.slot >= array.weight_slots:
        texts.append(f"slot {one.slot} of {array.weight_slots}")
    from ridgeline.machine.dataflow import DATAFLOW_RULES

    most = DATAFLOW_RULES[array.dataflow].most_m(array)
    if one.m > most:
        texts.append(f"{one.m} rows, more than the {most} that {array.dataflow} holds")
    return texts


def _vector_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, (Requant, Elementwise, WindowReduce))
    texts = _lane_fault(one.out_lane, one.channels, machine) + _counts_fault(one.counts)
    texts += _format_fault(one.out_format, machine)
    if isinstance(one, Requant):
        needed = "requantize"
        if one.channels > machine.array.cols:
            texts.append(f"{one.channels} channels of {machine.array.cols} columns")
    elif isinstance(one, Elementwise):
        if one.operation >= len(ELEMENTWISE_OPERATIONS):
            return [f"operation {one.operation} means nothing"]
        needed = ELEMENTWISE_OPERATIONS[one.operation]
        texts += _lane_fault(one.lane, one.channels, machine) + _format_fault(one.format, machine)
    else:
        needed = WINDOW_OPERATIONS[one.operation]
        texts += _lane_fault(one.lane, one.channels, machine) + _format_fault(one.format, machine)
        texts += _counts_fault((one.taps_0, one.taps_1))
    if needed not in machine.vector.operations:
        texts.append(f"the vector unit has no '{needed}'")
    has_slot = isinstance(one, Requant) or (
        isinstance(one, WindowReduce) and one.operation == DEPTHWISE
    )
    if has_slot and one.slot >= machine.vector.parameter_slots:  # pyright: ignore
        texts.append(f"parameter slot {one.slot} of {machine.vector.parameter_slots}")  # pyright: ignore
    return texts


def bank_faults(instruction: Instruction, accesses: Accesses, machine: Machine) -> list[str]:
    """Banks touched but not named in the instruction's masks."""
    texts: list[str] = []
    for verb, table, mask in (
        ("read", accesses.reads, instruction.read_banks),
        ("written", accesses.writes, instruction.write_banks),
    ):
        touched = bank_mask(table.get(Space.BUFFER), machine)
        if touched & ~mask:
            texts.append(f"banks {touched:#x} are {verb}, but it holds {mask:#x}")
    return texts


def bank_mask(lines: Places | None, machine: Machine) -> int:
    """Mask of the banks that hold these lines."""
    if lines is None or not lines.size:
        return 0
    banks = lines // machine.unified_buffer.lines_per_bank
    return int(np.bitwise_or.reduce(np.int64(1) << banks))


__all__ = ["Fault", "bank_mask", "check", "find_faults", "operand_faults", "planes"]
