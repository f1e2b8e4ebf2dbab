"""What the hardware covers: reasons for the rest, the same text for errors and documentation."""

from __future__ import annotations

from collections import Counter

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    LoadWeights,
    WindowReduce,
)
from ridgeline.machine.instructions.array import INT16
from ridgeline.machine.instructions.vector import ADD, FLOAT_AVERAGE, RESCALE, SUM_AVERAGE
from ridgeline.machine.instructions.word import COUNT_BITS
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.rtl.shape import COVERED_KINDS

MOST_ROWS = 64
"""A larger array, elaborated flat, makes more Verilog than tools take."""

MOST_LATENCY_CYCLES = 1024
"""Deeper queues of read tags are not built."""


REAL_RANGE = 64
"""Binary exponents of the constants of QLinearAdd and QLinearMul, so that no exponent overflows."""


def unsupported(machine: Machine) -> list[str]:
    """Why no hardware is generated for this machine, each with the nearest that can be built."""
    rules = _array_rules(machine) + _memory_rules(machine)
    return [text for broken, text in rules if broken]


_Rules = tuple[tuple[bool, str], ...]
"""Whether a rule is broken, and which."""


def _array_rules(machine: Machine) -> _Rules:
    array, vector, buffer = machine.array, machine.vector, machine.unified_buffer
    return (
        (
            array.dataflow != "weight-stationary",
            f"array.dataflow={array.dataflow}: only weight-stationary is built",
        ),
        (
            not array.rows == array.cols == buffer.line_bytes == vector.lanes,
            f"array.rows={array.rows}, array.cols={array.cols},"
            f" unified_buffer.line_bytes={buffer.line_bytes} and vector.lanes={vector.lanes}"
            f" must be equal: nearest {array.rows} for all",
        ),
        (
            not 2 <= array.rows <= MOST_ROWS,
            f"array.rows={array.rows}: from 2 to {MOST_ROWS} are built",
        ),
        (
            "lookup" in vector.operations and array.rows & (array.rows - 1) != 0,
            f"array.rows={array.rows} with vector.operations 'lookup': only a power of two is"
            f" built; nearest {1 << (array.rows.bit_length() - 1)}",
        ),
        (
            array.weight_rows_per_cycle != 1,
            f"array.weight_rows_per_cycle={array.weight_rows_per_cycle}: only 1 is built",
        ),
        (
            array.stream_after_rows != 1,
            f"array.stream_after_rows={array.stream_after_rows}: only 1 is built",
        ),
        (
            set(array.macs_per_pe_per_cycle) != {"int8"},
            "array.macs_per_pe_per_cycle: only int8 is built",
        ),
        (
            array.accumulator_bits != 32,
            f"array.accumulator_bits={array.accumulator_bits}: only 32 is built",
        ),
    )


def _memory_rules(machine: Machine) -> _Rules:
    buffer, memory = machine.unified_buffer, machine.device_memory
    per_bank = buffer.lines_per_bank
    burst = machine.burst_cycles
    return (
        (
            memory.lines_per_cycle != 1,
            f"device_memory.lines_per_cycle={memory.lines_per_cycle}: only 1 is built",
        ),
        (
            burst.denominator != 1,
            f"a burst takes {float(burst):g} cycles: only whole cycles are built; nearest"
            f" device_memory.bytes_per_s="
            f"{memory.burst_bytes * machine.clock_hz / max(round(burst), 1):g}",
        ),
        (
            memory.latency_cycles > MOST_LATENCY_CYCLES,
            f"device_memory.latency_cycles={memory.latency_cycles}: at most {MOST_LATENCY_CYCLES}",
        ),
        (
            per_bank & (per_bank - 1) != 0,
            f"a bank of {per_bank} lines is not a power of two: nearest unified_buffer.bytes="
            f"{(1 << (per_bank.bit_length() - 1)) * buffer.banks * buffer.line_bytes}",
        ),
    )


def require_machine(machine: Machine) -> None:
    """Raise RidgelineError, with every reason, for a machine that is not covered."""
    reasons = unsupported(machine)
    if reasons:
        raise RidgelineError(
            "no hardware is generated for this machine: " + "; ".join(reasons),
            where=f"machine {machine.name}",
            fix="Change these fields, for example with --set KEY=VALUE",
        )


def unsupported_instruction(instruction: Instruction) -> str:
    """Why the hardware cannot run this instruction; empty when it can."""
    name = type(instruction).__name__
    if type(instruction) not in COVERED_KINDS:
        return f"{name} is not built"
    if isinstance(instruction, LoadWeights) and instruction.transposed:
        return f"{name} of a transposed tile is not built"
    if INT16 in (getattr(instruction, "format", 0), getattr(instruction, "out_format", 0)):
        return f"{name} of int16 is not built"
    if isinstance(instruction, Elementwise):
        return _unsupported_elementwise(instruction)
    if isinstance(instruction, WindowReduce):
        return _unsupported_window(instruction)
    return ""


def _unsupported_elementwise(one: Elementwise) -> str:
    if one.operation == RESCALE:
        if one.scale_b != 1:
            return f"Elementwise that divides, by {one.scale_b:g}, is not built"
        return _negative_scale("Elementwise", one.scale_a)
    scales = (one.scale_a, one.offset, one.scale_b if one.operation == ADD else 0)
    for value in scales:
        if value and not 2.0**-REAL_RANGE <= abs(value) <= 2.0**REAL_RANGE:
            return (
                f"Elementwise with {value:g}, beyond 2^{REAL_RANGE} or its reciprocal, is not built"
            )
    return ""


def _unsupported_window(one: WindowReduce) -> str:
    if one.operation == FLOAT_AVERAGE:
        return "WindowReduce that averages in float32 is not built"
    if one.operation == SUM_AVERAGE:
        return _negative_scale("WindowReduce", one.scale_a)
    return ""


def _negative_scale(name: str, scale: float) -> str:
    return f"{name} with the scale {scale:g}, below 0, is not built" if scale < 0 else ""


def unsupported_instructions(program: Program) -> list[str]:
    """Distinct reasons why the hardware cannot run this program."""
    reasons: dict[str, None] = {}
    for segment in program.segments:
        if not isinstance(segment, DeviceSegment):
            reasons[f"host segment '{segment.name}' is not hardware"] = None
            continue
        busiest = max(Counter(one.unit for one in segment.instructions).values(), default=0)
        if busiest >= 1 << COUNT_BITS:
            reasons[f"{busiest} instructions of one unit overflow its count"] = None
        for instruction in segment.instructions:
            reason = unsupported_instruction(instruction)
            if reason:
                reasons[reason] = None
    return list(reasons)


def require_program(program: Program) -> None:
    """Raise RidgelineError for a program that the hardware of its machine cannot run."""
    require_machine(program.machine)
    reasons = unsupported_instructions(program)
    if reasons:
        raise RidgelineError(
            "the hardware cannot run this program: " + "; ".join(reasons),
            where=f"program {program.name}",
            fix="Compile for an int8 machine with --device-only, which leaves out the host's work",
        )
