"""The bounds of schedules: by hand on single layers, and below every program's cycles."""

from __future__ import annotations

import numpy as np
import pytest

from compile_cases import DATAFLOWS, graph_of, small_machine
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.compiler.bounds import Bounds, LayerBound, Way, bounds
from ridgeline.ir import Node
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate
from single_node import activation, constant, node_of


def convolution(channels: int, outputs: int, side: int, kernel: int, group: int = 1) -> Node:
    x = activation("x", (1, channels, side, side), "uint8", 0.1)
    w = constant("w", np.ones((outputs, channels // group, kernel, kernel), np.int8), 0.1)
    attrs = {
        "kernel_shape": [kernel, kernel],
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads": [kernel // 2] * 4,
        "group": group,
    }
    return node_of("Conv", [x, w], ("uint8", 0.1, 0), attrs)


def bounds_of(node: Node, machine: str) -> Bounds:
    return bounds(graph_of(node), load_machine(machine))


def test_a_convolution_by_taps() -> None:
    """64 -> 64 channels, 3 x 3, on 64 x 32: two columns of nine tiles, whose outer taps have fewer
    outputs inside: (7 + 8 + 7)^2 vectors each.
    """
    found = bounds_of(convolution(64, 64, 8, 3), "edge-4tops")
    assert found.layers[0].ways[0] == Way(2 * 22 * 22, 2 * 64)
    assert found.ideal_cycles == 64 * 64 * 9 * 64 / 2048


def test_a_shift_that_no_stream_hides() -> None:
    """49 vectors behind each of the 256 rows that TPU v1 shifts in before it streams."""
    found = bounds_of(convolution(512, 256, 7, 1), "tpu-v1")
    assert found.layers[0].ways[0] == Way(2 * 257, 49)
    assert found.memory_cycles == pytest.approx(
        (512 * 256 + 8 * 256 + 2 * 49 * 768) / (34e9 / 700e6)
    )
    assert found.limit == "memory"


def test_a_depthwise_layer_both_ways() -> None:
    found = bounds_of(convolution(96, 96, 8, 3, group=96), "edge-4tops")
    by_array, by_vector = found.layers[0].ways
    assert by_array == Way(3 * 22 * 22, 3 * 64)
    assert by_vector == Way(0, 2 * 22 * 8 * 3)


def test_gathered_windows() -> None:
    """RGB, 3 x 3: nine taps, three rows of nine values, or one line of 27 in three pieces."""
    ways = bounds_of(convolution(3, 32, 8, 3), "edge-4tops").layers[0].ways
    assert ways == (Way(22 * 22, 64), Way(22 * 8, 64, 64.0), Way(64, 64, 22 * 8.0))


def test_the_floor_shares_a_layer_between_units() -> None:
    """Half a layer that takes 100 cycles on either of two units, on each."""
    ways = (Way(100, 0), Way(0, 100))
    made = Bounds((LayerBound("one", "Conv", ways),), 0, 0, 0)
    assert (made.cycles, made.floor_cycles) == (100, 50)


@pytest.mark.parametrize("seed", range(24))
def test_no_program_beats_the_bounds(seed: int) -> None:
    graph = random_network(seed, varied=seed % 2 == 1)
    settings = (f"array.weight_rows_per_cycle={1 + seed % 3}", f"vector.lanes={(2, 4)[seed % 2]}")
    machine = small_machine(DATAFLOWS[seed % 3], *settings)
    least = bounds(graph, machine)
    cycles = simulate(compile(graph, machine)).device_cycles
    assert 0 < least.floor_cycles <= cycles
    assert least.cycles <= cycles
