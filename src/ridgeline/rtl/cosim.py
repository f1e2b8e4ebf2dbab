"""Programs run on the generated hardware: the bits and cycles that it gives, through Verilator."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import Arrays, checked_inputs
from ridgeline.machine.instructions import HALT_OPCODE, Instruction, Store
from ridgeline.machine.program import WORD_BYTES, DeviceSegment, Program
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.build import simulator
from ridgeline.rtl.shape import UNITS
from ridgeline.rtl.support import require_program

MOST_TIMES = 16
"""A segment that takes so many times the program's cycles, stalls or not, is taken for hung."""

LEAST_LIMIT_CYCLES = 100_000
"""No limit is below this: it leaves time to copy the unified buffer out."""

_HALT = HALT_OPCODE.to_bytes(WORD_BYTES, "little")


@dataclass(frozen=True, slots=True, eq=False)
class CosimResult:
    """What the hardware did.

    `outputs`: the program's device outputs by name. `cycles`: until done was visible, all segments
    together. `started` and `drained`: for every instruction in program order, cycles from the start
    of its segment (an array instruction starts when it begins to stream). `memory`: device memory,
    `buffer`: the unified buffer [lines, line_bytes], at the end.
    """

    outputs: Arrays
    cycles: int
    started: tuple[int, ...]
    drained: tuple[int, ...]
    memory: npt.NDArray[np.uint8]
    buffer: npt.NDArray[np.uint8]
    counters: tuple[int, ...] = ()
    """What its performance counters hold, where it has any: all segments together."""


@dataclass(frozen=True, slots=True, eq=False)
class CosimCase:
    """A program, its inputs by name, and the seed of random stalls (None: none)."""

    program: Program
    inputs: Mapping[str, npt.NDArray[Any]]
    stalls_seed: int | None = None


def cosimulate(
    program: Program, inputs: Mapping[str, npt.NDArray[Any]], stalls_seed: int | None = None
) -> CosimResult:
    """One program on the hardware of its machine.

    Raises RidgelineError when the hardware does not cover it, or the extra is not installed.
    """
    return cosimulate_many([CosimCase(program, inputs, stalls_seed)])[0]


def cosimulate_many(
    cases: Sequence[CosimCase], simulate_with: Path | None = None, counters: int = 0
) -> list[CosimResult]:
    """Many programs for one machine, run by one process.

    `simulate_with`: another built model, that has so many `counters`.
    """
    if not cases:
        return []
    machine = cases[0].program.machine
    for case in cases:
        if case.program.machine != machine:
            raise RidgelineError("programs of one co-simulation must be for one machine")
        require_program(case.program)
    program_file = simulate_with or simulator(machine)
    request = struct.pack("<Q", len(cases)) + b"".join(_encode(case) for case in cases)
    with tempfile.TemporaryDirectory(prefix="ridgeline-cosim-") as folder:
        asked, answered = Path(folder) / "cases", Path(folder) / "results"
        asked.write_bytes(request)
        done = subprocess.run([str(program_file), str(asked), str(answered)], capture_output=True)
        if done.returncode:
            raise RidgelineError(
                f"the simulation ended with code {done.returncode}", where=str(program_file)
            )
        reader = _Reader(answered.read_bytes())
    return [_decode(case, reader, counters) for case in cases]


def limit_cycles(program: Program) -> int:
    """Cycles after which a segment of the program is taken for hung."""
    machine = program.machine
    lines = machine.unified_buffer
    bursts = lines.lines * -(-lines.line_bytes // machine.device_memory.burst_bytes)
    copying = int(bursts * machine.burst_cycles)
    return MOST_TIMES * (simulate(program).cycles + copying) + LEAST_LIMIT_CYCLES


def _dump_address(program: Program) -> int:
    """Where the unified buffer is copied to at the end: beyond the program's device memory."""
    return -(-program.device_bytes // 64) * 64


def _dump(machine: Machine, address: int) -> Store:
    """A Store of the whole unified buffer: the hardware itself shows what it holds."""
    line, lines = machine.unified_buffer.line_bytes, machine.unified_buffer.lines
    return Store(
        device_address=address,
        element_bytes=line,
        count_0=lines,
        device_stride_0=line,
        line_stride_0=1,
        banks=(1 << machine.unified_buffer.banks) - 1,
    )


def _encode(case: CosimCase) -> bytes:
    program, machine = case.program, case.program.machine
    start = _dump_address(program)
    total = start + machine.unified_buffer.bytes
    if total > machine.device_memory.bytes:
        raise RidgelineError(
            f"needs {total} bytes of device memory in co-simulation, and the machine has"
            f" {machine.device_memory.bytes}",
            where=f"program {program.name}",
            fix="Make device_memory.bytes larger",
        )
    memory = np.zeros(total, np.uint8)
    memory[: program.constants.size] = program.constants
    arrays = checked_inputs(program, case.inputs)
    for tensor in program.device_inputs:
        tensor.write(memory, arrays[tensor.name])
    segments = [_words(segment.instructions) for segment in _segments(program)]
    segments.append(_words((_dump(machine, start),)))
    # Zero means no stalls, so seeds begin at one.
    seed = 0 if case.stalls_seed is None else (case.stalls_seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    head = struct.pack("<4Q", seed, limit_cycles(program), len(segments), total)
    parts = [struct.pack("<Q", len(words) // WORD_BYTES) + words for words in segments]
    return head + memory.tobytes() + b"".join(parts)


def _segments(program: Program) -> list[DeviceSegment]:
    return [segment for segment in program.segments if isinstance(segment, DeviceSegment)]


def _words(instructions: Sequence[Instruction]) -> bytes:
    return b"".join(i.encode().to_bytes(WORD_BYTES, "little") for i in instructions) + _HALT


class _Reader:
    """Numbers and bytes from the harness's answer, in order."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def number(self) -> int:
        return self.numbers(1)[0]

    def numbers(self, count: int) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{count}Q", self.content, self.place)
        self.place += 8 * count
        return values

    def array(self, size: int) -> npt.NDArray[np.uint8]:
        values = np.frombuffer(self.content, np.uint8, size, self.place).copy()
        self.place += size
        return values


def _decode(case: CosimCase, reader: _Reader, counters: int) -> CosimResult:
    program = case.program
    machine = program.machine
    segments = _segments(program)
    cycles = 0
    started: list[int] = []
    drained: list[int] = []
    counted = [0] * counters
    assert reader.number() == len(segments) + 1
    for number in range(len(segments) + 1):
        taken = reader.number()
        values = reader.numbers(counters)
        tables = [[reader.numbers(reader.number()) for _ in UNITS] for _ in range(2)]
        if not taken:
            raise RidgelineError(
                f"the hardware did not finish segment {number} in {limit_cycles(program):,} cycles",
                where=f"program {program.name}",
            )
        if number < len(segments):
            cycles += taken
            counted = [a + b for a, b in zip(counted, values, strict=True)]
            for table, into in zip(tables, (started, drained), strict=True):
                into += _in_program_order(segments[number], table)
    memory = reader.array(reader.number())
    start = _dump_address(program)
    lines = machine.unified_buffer
    device = memory[: program.device_bytes]
    return CosimResult(
        outputs={t.name: t.read(device) for t in program.device_outputs},
        cycles=cycles,
        started=tuple(started),
        drained=tuple(drained),
        memory=device,
        buffer=memory[start : start + lines.bytes].reshape(lines.lines, lines.line_bytes),
        counters=tuple(counted),
    )


def _in_program_order(segment: DeviceSegment, table: Sequence[tuple[int, ...]]) -> list[int]:
    """Cycles of each instruction, from those of each unit's in order; -1 for what never came."""
    following = {unit: iter(cycles) for unit, cycles in zip(UNITS, table, strict=True)}
    return [next(following[instruction.unit], -1) for instruction in segment.instructions]
