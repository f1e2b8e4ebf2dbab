"""More of a resource never costs more than 2 % of the cycles, on the shipped model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ridgeline.compiler import compile
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize

LOSS = 1.02
RESOURCES = {
    "unified_buffer.bytes": (4096, 8192, 16384, 65536),
    "device_memory.bytes_per_s": ("200e6", "400e6", "800e6", "1600e6", "3200e6"),
    "array.weight_slots": (2, 3, 4, 8, 16),
    "array.accumulator_entries": (64, 128, 256, 512, 2048),
}


@cache
def quantised(model: str, calibration: str, batch: int) -> Graph:
    graph = prepare(read_onnx(model, batch=batch))
    return quantize(graph, {"image": np.load(calibration)["image"]})


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("key", RESOURCES)
def test_more_never_costs_more(key: str, batch: int, shipped: Any) -> None:
    graph = quantised(str(shipped.model), str(shipped.calibration), batch)
    fewest: int | None = None
    for amount in RESOURCES[key]:
        try:
            cycles = simulate(compile(graph, load_machine("tiny-16", [f"{key}={amount}"]))).cycles
        except RidgelineError:
            assert fewest is None, f"{key}={amount} fits no more"
            continue
        if fewest is not None:
            assert cycles <= LOSS * fewest, f"{key}={amount}: {cycles} after {fewest}"
        fewest = min(cycles, fewest or cycles)
    assert fewest is not None
