"""Proof that a program is legal: operands in range, no race, no deadlock, banks truly named.

Everything emitted, fuzzed or loaded from a file passes here before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.errors import RidgelineError
from ridgeline.machine.instructions import Instruction, LoadWeights, MatMul, Requant, Unit
from ridgeline.machine.instructions.state import Accesses
from ridgeline.machine.operands import bank_faults, byte_faults, operand_faults
from ridgeline.machine.order import OrderTracker
from ridgeline.machine.overlap import overlap_faults
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.screen import proved_legal
from ridgeline.machine.structure import structure_faults
from ridgeline.machine.walks import space_sizes


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why a program is illegal, at instruction `index` of segment `segment`."""

    segment: int
    index: int
    instruction: str
    text: str

    def __str__(self) -> str:
        if self.index < 0:
            return self.text
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
    faults = [Fault(-1, -1, "program", text) for text in structure_faults(program)]
    if faults:
        return faults[:most]
    for number, segment in enumerate(program.segments):
        if isinstance(segment, DeviceSegment) and not _is_proved(segment, program):
            found = faults_one_by_one(program, number, segment.instructions, most - len(faults))
            faults += found
            if len(faults) >= most:
                break
    return faults[:most]


def faults_one_by_one(
    program: Program, number: int, instructions: Sequence[Instruction], most: int
) -> list[Fault]:
    """The first `most` faults of these instructions, as segment `number` of the program."""
    checker = _SegmentCheck(program, number)
    faults: list[Fault] = []
    for index, instruction in enumerate(instructions):
        name = type(instruction).__name__
        faults += [Fault(number, index, name, text) for text in checker.faults(instruction)]
        if len(faults) >= most:
            return faults[:most]
    at_end = checker.faults_at_end()
    return faults + [Fault(number, len(instructions), "Halt", text) for text in at_end]


def _is_proved(segment: DeviceSegment, program: Program) -> bool:
    try:
        code = segment.code
    except OverflowError:
        return False
    return proved_legal(code, program.machine, program.host_bytes, program.device_bytes)


class _SegmentCheck:
    """Checks instructions of one segment in order."""

    def __init__(self, program: Program, number: int) -> None:
        self.machine = program.machine
        self.host_bytes, self.device_bytes = program.host_bytes, program.device_bytes
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
        texts += byte_faults(instruction, self.host_bytes, self.device_bytes)
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
        if isinstance(instruction, Requant):
            return self._requant_faults(instruction)
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

    def _open_chain(self) -> MatMul | None:
        """The MatMul whose sums are still inside an output-stationary array."""
        if self.machine.array.dataflow != "output-stationary" or self.previous is None:
            return None
        return None if self.previous.last else self.previous

    def _requant_faults(self, reader: Requant) -> list[str]:
        chain = self._open_chain()
        if chain is None:
            return []
        apart = reader.entry + reader.m <= chain.entry or chain.entry + chain.m <= reader.entry
        return [] if apart else ["reads sums that have not left an output-stationary array"]

    def faults_at_end(self) -> list[str]:
        """What is wrong with the segment ending here."""
        if self._open_chain() is None:
            return []
        return ["ends with sums that have not left an output-stationary array"]
