"""What instructions count for energy, against enumeration and against the clocked array."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from ridgeline.machine.dataflow import DATAFLOW_RULES, Tile
from ridgeline.machine.description import DATAFLOWS, Array, Machine
from ridgeline.machine.elements import ElementTile, OutputArray, StationaryArray
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import (
    INSTRUCTIONS,
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
    Store,
    WindowReduce,
)
from ridgeline.machine.loader import load_machine


def test_every_instruction_says_what_it_does() -> None:
    for kind in INSTRUCTIONS.values():
        assert kind.activity is not Instruction.activity, kind.__name__


def _bursts(machine: Machine, addresses: list[int], element_bytes: int) -> int:
    """Bytes of bursts by walking: a burst that follows itself is paid once."""
    burst = machine.device_memory.burst_bytes
    paid, last = 0, -1
    for address in addresses:
        for place in range(address // burst, (address + element_bytes - 1) // burst + 1):
            paid += place != last
            last = place
    return paid * burst


def _walk(base: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    ranges = [range(n) for n in reversed(counts)]
    return [
        base + sum(i * s for i, s in zip(reversed(place), strides, strict=True))
        for place in product(*ranges)
    ]


def _inside(one: MatMul | WindowReduce, tap_x: int = 0, tap_y: int = 0) -> int:
    found = 0
    for _, j, i in product(range(one.count_2), range(one.count_1), range(one.count_0)):
        x, y = one.x_origin + i * one.x_step + tap_x, one.y_origin + j * one.y_step + tap_y
        found += 0 <= x < one.x_limit and 0 <= y < one.y_limit
    return found


def _planes(code: int) -> int:
    return 2 if code == 2 else 1


def _expected(one: Instruction, machine: Machine) -> dict[str, int]:
    """By enumeration, for what does not depend on the dataflow."""
    lanes = machine.vector.lanes
    match one:
        case HostRead() | HostWrite():
            moved = _bursts(machine, [one.device_address], one.length_bytes)
            side = "device_write_bytes" if isinstance(one, HostRead) else "device_read_bytes"
            return {"host_link_bytes": one.length_bytes, side: moved}
        case Load() | Store():
            addresses = _walk(one.device_address, one.counts, one.device_strides)
            moved = _bursts(machine, addresses, one.element_bytes)
            if isinstance(one, Load):
                return {"buffer_writes": len(addresses), "device_read_bytes": moved}
            return {"buffer_reads": len(addresses), "device_write_bytes": moved}
        case LoadWeights():
            rows, width = (one.n, one.k) if one.transposed else (one.k, one.n)
            found = {"slot_write_bytes": one.k * one.n}
            if one.from_buffer:
                return found | {"buffer_reads": rows}
            addresses = _walk(one.address, (rows,), (one.row_stride,))
            return found | {"device_read_bytes": _bursts(machine, addresses, width)}
        case LoadParams():
            found = {"slot_write_bytes": 8 * one.count}
            group = max(machine.unified_buffer.line_bytes // 8, 1)
            whole = -(-one.count // group) * group
            moved = _bursts(machine, [one.device_address], 8 * whole)
            return found | {"device_read_bytes": moved}
        case MatMul():
            return {
                "buffer_reads": _inside(one) * _planes(one.format),
                "macs": one.m * (one.weights or one.k * one.n),
            }
        case Requant():
            groups = -(-one.channels // lanes)
            return {
                "accumulator_read_bytes": one.m
                * one.channels
                * (machine.array.accumulator_bits // 8),
                "buffer_writes": one.m * groups * _planes(one.out_format),
                "slot_read_bytes": 8 * one.channels,
                "vector_operations": one.m * one.channels,
            }
        case Elementwise():
            operands = 1 if one.operation == 2 else 2
            groups = -(-one.channels // lanes)
            return {
                "buffer_reads": one.m * operands * groups * _planes(one.format),
                "buffer_writes": one.m * groups * _planes(one.out_format),
                "vector_operations": one.m * operands * one.channels,
            }
        case Lookup():
            groups = -(-one.channels // lanes)
            return {
                "buffer_reads": -(-256 // machine.unified_buffer.line_bytes) + one.m * groups,
                "buffer_writes": one.m * groups,
                "slot_write_bytes": 256 * lanes,
                "slot_read_bytes": one.m * one.channels,
                "vector_operations": one.m * one.channels,
            }
        case RealElementwise():
            groups, operands = -(-one.channels // lanes), 1 if one.operation == 0 else 2
            return {
                "buffer_reads": operands * one.m * groups,
                "buffer_writes": one.m * groups,
                "slot_read_bytes": 0 if one.operation else 8 * one.channels,
                "vector_operations": operands * one.m * one.channels,
            }
        case WindowReduce():
            groups = -(-one.channels // lanes)
            taps = product(range(one.taps_1), range(one.taps_0))
            inside = sum(_inside(one, x * one.tap_step_0, y * one.tap_step_1) for y, x in taps)
            depthwise = one.operation == 3
            weights = one.taps_0 * one.taps_1 if depthwise else 0
            return {
                "buffer_reads": groups * (inside * _planes(one.format) + weights),
                "buffer_writes": one.m * groups * _planes(one.out_format),
                "slot_read_bytes": 8 * one.channels if depthwise else 0,
                "vector_operations": inside * one.channels,
            }
        case _:
            raise AssertionError(f"no expectation for {type(one).__name__}")


OF_THE_DATAFLOW = (
    "array_register_bytes",
    "accumulator_read_bytes",
    "accumulator_write_bytes",
    "slot_read_bytes",
)


@pytest.mark.parametrize("name", ["tiny-8", "edge-4tops"])
def test_random_programs_by_enumeration(name: str) -> None:
    machine = load_machine(name)
    seen: set[type[Instruction]] = set()
    for seed in range(30):
        for one in random_program(machine, np.random.default_rng(seed)).instructions:
            seen.add(type(one))
            found = one.activity(machine)
            wanted = _expected(one, machine)
            for field in found.__slots__:
                if field == "mac_format" or (isinstance(one, MatMul) and field in OF_THE_DATAFLOW):
                    continue
                assert getattr(found, field) == wanted.get(field, 0), (seed, field, str(one))
    assert seen == set(INSTRUCTIONS.values())


def _array(dataflow: Any) -> Array:
    rates = {"int8": Fraction(1), "int16": Fraction(1, 2)}
    return Array(6, 5, dataflow, rates, 1, 2, 64, 48)


class _Watched:
    """Counts the writes of what is not 0 into registers of the array, cycle by cycle."""

    def __init__(self, registers: Any) -> None:
        self.registers = registers
        self.counts = {"operands": 0, "sums": 0}

    def clock(self, *arguments: Any) -> Any:
        result = self.registers.clock(*arguments)
        self.counts["operands"] += np.count_nonzero(self.registers.activation)
        if hasattr(self.registers, "partial"):
            self.counts["sums"] += np.count_nonzero(self.registers.partial)
        else:
            self.counts["operands"] += np.count_nonzero(self.registers.weight)
        return result


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("shape", [(5, 3, 4), (1, 5, 6), (4, 1, 1), (5, 5, 6)])
def test_operands_and_sums_of_the_clocked_array(
    dataflow: Any, planes: int, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    array = _array(dataflow)
    # Both bytes are above 0, so that every operand and every sum is seen.
    activations = np.full((m, k), 259 if planes == 2 else 3, np.int64)
    tile = ElementTile(activations, np.full((k, n), 2, np.int64), planes)
    output = dataflow == "output-stationary"
    clocked = (OutputArray if output else StationaryArray)(array, [tile])
    watched = _Watched(clocked.registers)
    clocked.registers = watched  # type: ignore[assignment]
    clocked.run()
    # The run ends with the last sum; what still travels is clocked on.
    clocked.owed = 0
    for _ in range(array.rows + array.cols):
        clocked.clock(False)
    traffic = DATAFLOW_RULES[array.dataflow].traffic(Tile(m, n, k, planes), array.rows, array.cols)
    held = {"weight-stationary": k * n, "input-stationary": m * k * planes}.get(dataflow, 0)
    assert watched.counts["operands"] == traffic.operand_writes - 2 * held
    if not output:
        assert watched.counts["sums"] == traffic.sum_writes


def test_sums_of_an_output_stationary_array_stay_until_they_leave() -> None:
    traffic = DATAFLOW_RULES["output-stationary"].traffic
    kept = traffic(Tile(4, 3, 5, last=False), 6, 5)
    last = traffic(Tile(4, 3, 5), 6, 5)
    assert kept.sum_writes == 4 * 3 * 5
    # Rows 0 to 3 of 6: 5, 4, 3 and 2 rows to pass, in 3 columns.
    assert last.sum_writes - kept.sum_writes == 3 * (5 + 4 + 3 + 2)
    assert (kept.vectors_out, last.vectors_out) == (0, 4)


def test_accumulators_of_a_matmul() -> None:
    machine = load_machine("edge-4tops")  # 32 columns of 6 bytes
    one = MatMul(count_0=10, x_step=1, x_limit=10, k=64, n=20)
    assert one.activity(machine).accumulator_write_bytes == 10 * 32 * 6
    assert one.activity(machine).accumulator_read_bytes == 0
    adds = replace(one, accumulate=1).activity(machine)
    assert adds.accumulator_read_bytes == 10 * 32 * 6
    wide = replace(one, format=2).activity(machine)
    assert (wide.mac_format, wide.macs) == ("int16", 10 * 64 * 20)
    assert wide.accumulator_write_bytes == 2 * 10 * 32 * 6
    assert wide.accumulator_read_bytes == 10 * 32 * 6  # the second plane adds to the first
    assert replace(one, keep_weights=1).activity(machine).slot_read_bytes == 0
    assert one.activity(machine).slot_read_bytes == 64 * 20
