"""The requantisation lane: alone in Amaranth's simulator, and a million times in the hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from amaranth.sim import Simulator

from ridgeline.machine.fuzz import random_inputs
from ridgeline.machine.instructions import (
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    MatMul,
    Requant,
    Store,
)
from ridgeline.machine.order import synchronise
from ridgeline.machine.program import DeviceSegment, HostTensor, Program
from ridgeline.numerics.formats import FORMATS
from ridgeline.numerics.requantize import MODES, requantize
from ridgeline.numerics.rounding import wrap
from ridgeline.rtl.cosim import CosimCase, cosimulate_many
from ridgeline.rtl.requantize import BOUND_STAGE, SCALE_STAGE, STAGES, RequantizeLane
from rtl_cases import bit_differences, cycle_differences, square_machine

Vectors = list[tuple[int, int, np.float32, int, int, int]]


def vectors() -> Vectors:
    """(accumulator, bias, scale, zero point, low, high): edges of every step, then random ones."""
    rng = np.random.default_rng(3)
    sums = [0, 1, -1, 2, 3, -3, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, -(1 << 24) - 1]
    sums += [(1 << 25) + 2, (1 << 25) + 6, (1 << 31) - 1, -(1 << 31), -(1 << 31) + 1, 0x1FFFFFF]
    scales = [0.0, 0.5, 0.25, 1.0, 1.5, 2.0**-24, 2.0**-31, 2.0**-32, 3e38, 1e-45, 1e-38, 1 / 3]
    found: Vectors = [(a, 0, np.float32(s), 0, -128, 127) for a in sums for s in scales]
    for _ in range(2500):
        low, high = sorted(int(v) for v in rng.integers(-65536, 65536, 2))
        sum_bits, bias_bits = int(rng.integers(1, 32)), int(rng.integers(1, 32))
        found.append(
            (
                int(rng.integers(-(1 << sum_bits), 1 << sum_bits)),
                int(rng.integers(-(1 << bias_bits), 1 << bias_bits)),
                np.float32((rng.random() + 0.5) * 2.0 ** int(rng.integers(-34, 2))),
                int(rng.integers(-256, 256)),
                *((0, 255) if rng.random() < 0.5 else (low, high)),
            )
        )
    return found


def expected(given: Vectors, mode: str) -> list[int]:
    made: list[int] = []
    for accumulator, bias, scale, zero, low, high in given:
        total = wrap(np.asarray([accumulator + bias], np.int64), 32)
        made.append(int(requantize(total, scale, zero, low, high, mode)[0]) & 255)
    return made


@pytest.mark.parametrize("mode", MODES)
def test_lane_alone(mode: str) -> None:
    given = vectors()
    lane = RequantizeLane(mode)
    made: list[int] = []

    def at(cycle: int, stage: int) -> tuple[int, int, np.float32, int, int, int]:
        return given[min(max(cycle - stage, 0), len(given) - 1)]

    async def bench(ctx: Any) -> None:
        for cycle in range(len(given) + STAGES):
            ctx.set(lane.accumulator, at(cycle, 0)[0])
            ctx.set(lane.bias, at(cycle, 0)[1])
            ctx.set(lane.scale, int(at(cycle, SCALE_STAGE)[2].view(np.uint32)))
            ctx.set(lane.zero_point, at(cycle, BOUND_STAGE)[3])
            ctx.set(lane.low, at(cycle, BOUND_STAGE + 1)[4])
            ctx.set(lane.high, at(cycle, BOUND_STAGE + 1)[5])
            made.append(ctx.get(lane.stored))
            await ctx.tick()

    simulator = Simulator(lane)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert made[STAGES:] == expected(given, mode)


SIDE, ENTRIES, ROUNDS, RECORDS = 4, 500, 64, 256


def many_requants(rng: np.random.Generator, mode: str) -> Program:
    """500 different sums, requantised with 64 sets of parameters in turn and stored."""
    machine = square_machine(SIDE, "unified_buffer.bytes=8192", f"vector.requantize={mode}")
    start = RECORDS * 8
    output = start + ENTRIES * SIDE + SIDE * SIDE
    body: list[Instruction] = [
        Load(
            device_address=start,
            element_bytes=SIDE,
            count_0=ENTRIES,
            device_stride_0=SIDE,
            line_stride_0=1,
            banks=15,
        ),
        LoadWeights(address=start + ENTRIES * SIDE, row_stride=SIDE, k=SIDE, n=SIDE),
        MatMul(count_0=ENTRIES, stride_0=1, k=SIDE, n=SIDE, format=1, banks=15),
    ]
    for number in range(ROUNDS):
        out_zero, line = int(rng.integers(0, 256)), (number % 2) * 512 + 512
        body += [
            LoadParams(slot=number % 4, device_address=number * SIDE * 8, count=SIDE),
            Requant(
                out_line=line,
                out_stride_0=1,
                out_zero_point=out_zero,
                high=255,
                channels=SIDE,
                count_0=ENTRIES,
                slot=number % 4,
                out_banks=15,
            ),
            Store(
                device_address=output + number * ENTRIES * SIDE,
                line=line,
                element_bytes=SIDE,
                count_0=ENTRIES,
                device_stride_0=SIDE,
                line_stride_0=1,
                banks=15,
            ),
        ]
    device_bytes = output + ROUNDS * ENTRIES * SIDE
    ordered = synchronise(body, machine, 0, device_bytes)
    return Program(
        name="requants",
        machine=machine,
        segments=(DeviceSegment(ordered),),
        layers=(),
        constants=parameters(rng),
        device_bytes=device_bytes,
        host_bytes=0,
        inputs=(),
        outputs=(),
        device_inputs=(
            HostTensor("rows", (ENTRIES * SIDE + SIDE * SIDE,), FORMATS["uint8"], start),
        ),
        device_outputs=(HostTensor("stored", (ROUNDS, ENTRIES, SIDE), FORMATS["uint8"], output),),
    )


def parameters(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Biases of every size, each with a scale that brings the sum to the output's range."""
    size = rng.integers(8, 31, RECORDS)
    bias = (rng.choice([-1, 1], RECORDS) * 2.0**size * (rng.random(RECORDS) + 0.5) / 2).astype(
        "<i4"
    )
    scale = 2.0 ** (7 - size) * (rng.random(RECORDS) + 0.5)
    scale[::7] = 2.0 ** (7 - size[::7])  # ties
    words = np.stack([bias.view("<u4"), scale.astype("<f4").view("<u4")], axis=1)
    return np.frombuffer(np.ascontiguousarray(words).tobytes(), np.uint8)


@pytest.mark.parametrize("mode", MODES)
def test_a_million_through_the_hardware(mode: str) -> None:
    cases: list[CosimCase] = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        program = replace(many_requants(rng, mode), name=f"requants {seed}")
        cases.append(CosimCase(program, random_inputs(program, rng)))
    checked = 0
    for case, result in zip(cases, cosimulate_many(cases), strict=True):
        assert bit_differences(case, result) == []
        assert cycle_differences(case, result) == []
        checked += result.outputs["stored"].size
    assert checked >= 1_000_000
