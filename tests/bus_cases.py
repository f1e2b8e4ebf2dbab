"""Programs on boards in co-simulation, and what of them is not as executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import ridgeline
from conftest import ShippedModel
from ridgeline.compiler import compile
from ridgeline.compiler.device_part import device_part
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import execute
from ridgeline.machine.instructions import Instruction, Load, Store
from ridgeline.machine.program import DeviceSegment
from ridgeline.numerics.quantize import quantize
from ridgeline.rtl.bus.driver import Driver
from ridgeline.rtl.bus.simulated import Board, StreamBoard
from ridgeline.rtl.cosim import CosimCase

TIMEOUT_SECONDS = 20.0


def faults(board: Board | StreamBoard, cases: Sequence[CosimCase], *, stalls: bool) -> list[str]:
    """Outputs that differ from `execute`'s, and rules of the bus that were broken.

    Each case on a board from its reset: a random program may store lines that it never wrote, which
    are zero only then.
    """
    found: list[str] = []
    for number, case in enumerate(cases):
        with board.open(number if stalls else None) as served:
            driver = Driver(served)
            driver.load(case.program)
            outputs = driver.run(case.inputs, TIMEOUT_SECONDS)
            wanted = execute(case.program, case.inputs)
            found += [
                f"case {number}: output {name}"
                for name, array in wanted.items()
                if not np.array_equal(array, outputs[name])
            ]
            found += [f"case {number}: {line}" for line in served.broken_rules().splitlines()]
    return found


def chained(case: CosimCase, links: int = 12) -> CosimCase:
    """The case's memory with another program: each Load reads what the Store before it wrote."""
    instructions: list[Instruction] = []
    for number in range(links):
        read, write = 64 * number, 64 * (number + 1)
        common = {"element_bytes": 4, "count_0": 6, "line_stride_0": 1, "device_stride_0": 5}
        load_waits = (0, 0, number, 0, 0, 0)
        store_waits = (0, number + 1, 0, 0, 0, 0)
        place = {"line": 8 * (number % 2), "banks": 1}
        instructions += [
            Load(device_address=read, waits=load_waits, **common, **place),
            Store(device_address=write + 1, waits=store_waits, **common, **place),
        ]
    segment = DeviceSegment(tuple(instructions))
    return CosimCase(replace(case.program, segments=(segment,)), case.inputs)


def whole_model(shipped: ShippedModel, machine: Machine, images: int = 1) -> CosimCase:
    """All of the shipped model that runs on the accelerator, on its first test images."""
    with np.load(shipped.calibration) as samples:
        graph = ridgeline.quantize(
            ridgeline.read_onnx(shipped.model, batch=images),
            {name: samples[name] for name in samples},
        )
    part = device_part(graph, machine)
    source = part.inputs[0]
    assert source.type.quant is not None
    with np.load(shipped.test) as test:
        stored = quantize(test["image"][:images], source.type.quant, source.type.dtype)
    return CosimCase(compile(part, machine, host_link=False), {source.name: stored})
