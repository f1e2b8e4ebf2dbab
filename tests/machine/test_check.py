"""Illegal programs, each refused in words: beyond memories, formats, dataflow or arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference_ordering import synchronise_plainly
from ridgeline.machine.check import find_faults
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Elementwise,
    HostRead,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    RealElementwise,
    Requant,
    Store,
    WindowReduce,
)
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Layer, Program

DEVICE_BYTES = 4096
WIDE = ("array.macs_per_pe_per_cycle={int8=1, int16=0.5}", "array.accumulator_bits=48")
PLAIN = ('vector.operations=["requantize"]',)
STILL = ("array.dataflow=output-stationary",)


def machine(*settings: str) -> Machine:
    return load_machine("tiny-8", ["array.rows=4", "array.cols=4", "vector.lanes=4", *settings])


def faults_of(*instructions: Instruction, settings: tuple[str, ...] = ()) -> str:
    made = machine(*settings)
    ordered = synchronise_plainly(list(instructions), made, 64, 2 * DEVICE_BYTES)
    layers: tuple[Layer, ...] = ()
    program = Program(
        "t",
        made,
        (DeviceSegment(ordered),),
        layers,
        np.zeros(0, np.uint8),
        DEVICE_BYTES,
        64,
        (),
        (),
    )
    return "; ".join(map(str, find_faults(program)))


REQUANT = Requant(low=0, high=255, channels=4, out_banks=1)
ADD = Elementwise(low=0, high=255, channels=4, out_line=8, in_banks=1, out_banks=1)
POOL = WindowReduce(low=0, high=255, channels=4, out_line=8, in_banks=1, out_banks=1)
TABLE = Lookup(low=0, high=255, channels=4, out_line=8, in_banks=3, out_banks=1)
REAL = RealElementwise(
    operation=1, low=0, high=255, channels=4, out_line=8, in_banks=1, out_banks=1
)
MULTIPLY = MatMul(k=4, n=4, banks=1)

BEYOND_MEMORY = {
    "load": Load(device_address=4136, element_bytes=4, banks=1),
    "load by its last byte": Load(device_address=4093, element_bytes=4, banks=1),
    "load backwards": Load(
        device_address=8, element_bytes=4, count_0=4, device_stride_0=-4, banks=1
    ),
    "store": Store(device_address=4096, element_bytes=4, banks=1),
    "parameters": LoadParams(device_address=4080, count=4),
    "weights": LoadWeights(address=4084, row_stride=4, k=4, n=4),
    "from the host": HostRead(host_address=0, device_address=0, length_bytes=65),
    "to nowhere": HostRead(host_address=0, device_address=4090, length_bytes=8),
    "nothing at all": HostRead(),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND_MEMORY)
def test_bytes_outside_a_memory(name: str) -> None:
    assert " memory, which has " in faults_of(BEYOND_MEMORY[name])


OPERANDS: dict[str, tuple[Instruction, tuple[str, ...], str]] = {
    "banks": (replace(ADD, in_banks=0xFFFF), (), "banks beyond the machine's 4"),
    "weights": (replace(MULTIPLY, weights=17), (), "17 weights in a tile of 4 x 4"),
    "bounds reversed": (replace(REQUANT, low=9, high=3), (), "bounds 9 to 3 are not within"),
    "bounds too wide": (replace(ADD, high=256), (), "bounds 0 to 256 are not within 0 to 255"),
    "zero point out": (replace(POOL, out_zero_point=-3), (), "zero point -3 is not of its"),
    "zero point in": (replace(POOL, zero_point=-200), (), "zero point -200 is not of its"),
    "not a number": (replace(ADD, scale_a=float("nan")), (), "a constant is not finite"),
    "beyond float32": (replace(ADD, scale_a=1e39), (), "is beyond float32"),
    "by nothing": (replace(ADD, operation=2, scale_b=0.0), (), "divides by 0.0"),
    "table of int16": (replace(TABLE, format=2), WIDE, "a table takes 8-bit values only"),
    "no tables": (TABLE, PLAIN, "the vector unit has no 'lookup'"),
    "real numbers of int16": (replace(REAL, out_format=2), WIDE, "takes 8-bit values only"),
    "real by nothing": (replace(REAL, scale=0.0), (), "divides by 0.0"),
    "no such operation": (replace(REAL, operation=7), (), "operation 7 means nothing"),
    "planes": (
        replace(REQUANT, out_format=2, count_0=3, out_stride_0=1), WIDE, "share a line",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERANDS)
def test_operand(name: str) -> None:
    instruction, settings, text = OPERANDS[name]
    assert text in faults_of(instruction, settings=settings)


def test_sums_inside_an_output_stationary_array_cannot_be_read() -> None:
    first = replace(MULTIPLY, count_0=4, last=0)
    rest = replace(MULTIPLY, count_0=4, accumulate=1)
    reader = replace(REQUANT, count_0=4, out_line=32, out_stride_0=1)
    ready = [LoadWeights(k=4, n=4, row_stride=4), LoadParams(count=4)]
    assert faults_of(*ready, first, rest, reader, settings=STILL) == ""
    text = "sums that have not left an output-stationary array"
    assert f"reads {text}" in faults_of(*ready, first, reader, rest, settings=STILL)
    assert f"ends with {text}" in faults_of(*ready, first, settings=STILL)
    apart = replace(reader, entry=100)
    assert faults_of(*ready, first, apart, rest, settings=STILL) == ""


def test_a_layer_that_is_not_there() -> None:
    assert "layer 99 is named, of 0" in faults_of(replace(MULTIPLY, layer=99))
