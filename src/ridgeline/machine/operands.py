"""Operands that no machine could carry out: outside its memories, its formats or their fields.

Everything here looks at one instruction alone; `check` adds what several do together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Accesses,
    Elementwise,
    HostRead,
    HostWrite,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    RealElementwise,
    Requant,
    Space,
    Store,
    WindowReduce,
)
from ridgeline.machine.instructions.array import FORMAT_NAMES, INT16
from ridgeline.machine.instructions.real import REAL_OPERATIONS, SLOPE
from ridgeline.machine.instructions.state import Places
from ridgeline.machine.instructions.vector import (
    DEPTHWISE,
    ELEMENTWISE_OPERATIONS,
    FLOAT_AVERAGE,
    MOST_DEPTHWISE_TAPS,
    RESCALE,
    WINDOW_OPERATIONS,
)
from ridgeline.machine.instructions.weights import MOST_COLUMN, PARAMETER_BYTES

FORMAT_RANGES = ((0, 255), (-128, 127), (-32768, 32767))
"""Lowest and highest integer of each element format, by its code."""


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
        Lookup: _vector_faults,
        RealElementwise: _vector_faults,
    }
    one = checks.get(type(instruction))
    texts = one(instruction, machine) if one else []
    held = (instruction.read_banks | instruction.write_banks) >> machine.unified_buffer.banks
    if held:
        texts.append(f"it holds banks beyond the machine's {machine.unified_buffer.banks}")
    return texts


def byte_faults(instruction: Instruction, host_bytes: int, device_bytes: int) -> list[str]:
    """Bytes touched outside host or device memory."""
    texts: list[str] = []
    for space, size, (first, end) in _byte_spans(instruction, host_bytes, device_bytes):
        if first < 0 or end > size or end <= first:
            texts.append(f"bytes {first} to {end - 1} of {space} memory, which has {size}")
    return texts


def _byte_spans(
    one: Instruction, host_bytes: int, device_bytes: int
) -> list[tuple[str, int, tuple[int, int]]]:
    """(space, its size, (first byte, byte behind the last)) that the instruction touches."""
    if isinstance(one, (HostRead, HostWrite)):
        host, device = one.host_address, one.device_address
        return [
            ("host", host_bytes, (host, host + one.length_bytes)),
            ("device", device_bytes, (device, device + one.length_bytes)),
        ]
    if isinstance(one, (Load, Store)):
        span = _walk_span(one.device_address, one.counts, one.device_strides, one.element_bytes)
    elif isinstance(one, LoadParams):
        span = (one.device_address, one.device_address + one.count * PARAMETER_BYTES)
    elif isinstance(one, LoadWeights) and not one.from_buffer:
        rows, width = (one.n, one.k) if one.transposed else (one.k, one.n)
        span = _walk_span(one.address, (rows,), (one.row_stride,), width)
    else:
        return []
    return [("device", device_bytes, span)]


def _walk_span(
    start: int, counts: tuple[int, ...], strides: tuple[int, ...], element_bytes: int
) -> tuple[int, int]:
    reaches = [(count - 1) * stride for count, stride in zip(counts, strides, strict=True)]
    low = start + sum(min(reach, 0) for reach in reaches)
    return low, start + sum(max(reach, 0) for reach in reaches) + element_bytes


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
    if one.block_row >= max(one.block_rows, 1):
        texts.append(f"row {one.block_row} of a block of {one.block_rows} rows")
    if one.last_column > MOST_COLUMN:
        texts.append(f"its last block begins at column {one.last_column}, beyond {MOST_COLUMN}")
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
    most = DATAFLOW_RULES[array.dataflow].most_m(array)
    if one.m > most:
        texts.append(f"{one.m} rows, more than the {most} that {array.dataflow} holds")
    if one.weights > one.k * one.n:
        texts.append(f"{one.weights} weights in a tile of {one.k} x {one.n}")
    return texts


VectorInstruction = Requant | Elementwise | WindowReduce | Lookup | RealElementwise


def _vector_faults(one: Instruction, machine: Machine) -> list[str]:
    assert isinstance(one, (Requant, Elementwise, WindowReduce, Lookup, RealElementwise))
    texts = _lane_fault(one.out_lane, one.channels, machine) + _counts_fault(one.counts)
    texts += _format_fault(one.out_format, machine)
    if isinstance(one, Requant):
        if one.channels > machine.array.cols:
            texts.append(f"{one.channels} channels of {machine.array.cols} columns")
    else:
        texts += _lane_fault(one.lane, one.channels, machine) + _format_fault(one.format, machine)
        if isinstance(one, (Lookup, RealElementwise)) and INT16 in (one.format, one.out_format):
            kind = "a table" if isinstance(one, Lookup) else "arithmetic on real numbers"
            texts.append(f"{kind} takes 8-bit values only")
    if isinstance(one, WindowReduce):
        texts += _counts_fault((one.taps_0, one.taps_1))
        if one.operation == DEPTHWISE and one.taps > MOST_DEPTHWISE_TAPS:
            texts.append(f"{one.taps} taps with weights, more than {MOST_DEPTHWISE_TAPS}")
    needed = _needed_operation(one)
    if needed is None:
        return [f"operation {getattr(one, 'operation', 0)} means nothing"]
    if needed not in machine.vector.operations:
        texts.append(f"the vector unit has no '{needed}'")
    slot = _parameter_slot(one)
    if slot >= machine.vector.parameter_slots:
        texts.append(f"parameter slot {slot} of {machine.vector.parameter_slots}")
    return texts or _result_faults(one) + _float_faults(one)


def _needed_operation(one: VectorInstruction) -> str | None:
    """What the vector unit must have, as machine files name it; None when there is no such."""
    if isinstance(one, Requant):
        return "requantize"
    if isinstance(one, Lookup):
        return "lookup"
    names = (
        ELEMENTWISE_OPERATIONS
        if isinstance(one, Elementwise)
        else REAL_OPERATIONS
        if isinstance(one, RealElementwise)
        else WINDOW_OPERATIONS
    )
    return names[one.operation] if one.operation < len(names) else None


def _parameter_slot(one: VectorInstruction) -> int:
    """The slot whose parameters it reads; -1 when it reads none."""
    if isinstance(one, (Elementwise, Lookup)):
        return -1
    if isinstance(one, RealElementwise):
        return one.slot if one.operation == SLOPE else -1
    reads = isinstance(one, Requant) or one.operation == DEPTHWISE
    return one.slot if reads else -1


def _result_faults(one: VectorInstruction) -> list[str]:
    """Bounds and zero point of what is written, and planes that would lie over each other."""
    low, high = FORMAT_RANGES[one.out_format]
    texts: list[str] = []
    if not low <= one.low <= one.high <= high:
        texts.append(f"bounds {one.low} to {one.high} are not within {low} to {high}")
    texts += _zero_point_fault(one.out_zero_point, low, high)
    if isinstance(one, WindowReduce):
        texts += _zero_point_fault(one.zero_point, *FORMAT_RANGES[one.format])
    if one.out_format == INT16:
        lines = np.unique(one.out_lines(one.counts))
        if np.intersect1d(lines, lines + 1).size:
            texts.append("high bytes of one vector and low bytes of another share a line")
    return texts


def _float_faults(one: VectorInstruction) -> list[str]:
    """Constants for which the arithmetic has no result."""
    if isinstance(one, (Requant, Lookup)):
        return []
    texts: list[str] = []
    constants = [one.scale_a, one.scale_b]
    divides = isinstance(one, WindowReduce) and one.operation == FLOAT_AVERAGE
    if isinstance(one, Elementwise):
        constants.append(one.offset)
        divides = one.operation == RESCALE
    if isinstance(one, RealElementwise):
        constants.append(one.scale)
        if one.scale <= 0:
            texts.append(f"divides by {one.scale}")
    if not all(isfinite(value) for value in constants):
        texts.append("a constant is not finite")
    if divides and one.scale_b <= 0:
        texts.append(f"divides by {one.scale_b}")
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
