"""More of a resource never costs more than 2 % of the cycles: shipped model, random networks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from compile_cases import small_machine
from random_graphs import random_network
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


WORST = (4, 7, 13, 15, 16, 21, 24, 29, 32, 33, 35)
"""Of the first 40 random networks, those that lost the most before layers were made in parts."""


@pytest.mark.parametrize("seed", WORST)
def test_more_buffer_never_costs_more_on_random_networks(seed: int) -> None:
    graph = random_network(seed)
    fewest: int | None = None
    for amount in (1024, 2048, 4096, 16384):
        try:
            machine = small_machine("weight-stationary", f"unified_buffer.bytes={amount}")
            cycles = simulate(compile(graph, machine)).cycles
        except RidgelineError:
            assert fewest is None, f"{amount} bytes fit no more"
            continue
        if fewest is not None:
            assert cycles <= LOSS * fewest, f"{amount} bytes: {cycles} after {fewest}"
        fewest = min(cycles, fewest or cycles)
    assert fewest is not None
