"""The array alone in Amaranth's simulator, tile after tile, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.sim import Simulator

from ridgeline.rtl.array import MacArray
from ridgeline.rtl.shape import WEIGHT_BITS

SIDE = 4
LATENCY = 2 * SIDE


def pack(values: npt.NDArray[Any], bits: int) -> int:
    return sum((int(v) & ((1 << bits) - 1)) << (i * bits) for i, v in enumerate(values))


def unpack(word: int, bits: int) -> list[int]:
    parts = [(word >> (i * bits)) & ((1 << bits) - 1) for i in range(SIDE)]
    return [p - (1 << bits) if p >> (bits - 1) else p for p in parts]


def test_tiles_follow_each_other() -> None:
    rng = np.random.default_rng(5)
    lengths = [1, 1, 2, 7, SIDE, 3, 1, 5]
    tiles = [
        (rng.integers(-256, 256, (m, SIDE)), rng.integers(-256, 256, (SIDE, SIDE))) for m in lengths
    ]
    schedule = plan([len(rows) for rows, _ in tiles])
    array = MacArray(SIDE, SIDE)
    ends = schedule[-1][1] + len(tiles[-1][0]) + LATENCY + 1
    made: list[list[int]] = []

    async def bench(ctx: Any) -> None:
        for cycle in range(ends):
            drive(ctx, array, tiles, schedule, cycle)
            made.append(unpack(ctx.get(array.sums), array.sum_bits))
            await ctx.tick()

    simulator = Simulator(array)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    for (rows, weights), (_, stream) in zip(tiles, schedule, strict=True):
        first = stream + LATENCY
        np.testing.assert_array_equal(made[first : first + len(rows)], rows @ weights)


def plan(lengths: list[int]) -> list[tuple[int, int]]:
    """(cycle of the first weight row, cycle of the first activations) of each tile, the earliest.

    Row r of the weights comes r cycles after the first, must be in before the swap wave of its own
    tile, one cycle ahead of the activations, and not before that of the tile in front.
    """
    times: list[tuple[int, int]] = []
    shift, free = 0, 0
    for m in lengths:
        stream = max(shift + 2, free)
        times.append((shift, stream))
        shift, free = max(shift + SIDE, stream), stream + m
    return times


def drive(
    ctx: Any,
    array: MacArray,
    tiles: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    schedule: list[tuple[int, int]],
    cycle: int,
) -> None:
    """The pins of one cycle."""
    ctx.set(array.weights_valid, 0)
    ctx.set(array.swap, 0)
    for (rows, weights), (shift, stream) in zip(tiles, schedule, strict=True):
        if 0 <= cycle - shift < SIDE:
            ctx.set(array.weights_valid, 1)
            ctx.set(array.weight_row, cycle - shift)
            ctx.set(array.weights, pack(weights[cycle - shift], WEIGHT_BITS))
        if cycle == stream - 1:
            ctx.set(array.swap, 1)
        if 0 <= cycle - stream < len(rows):
            ctx.set(array.activations, pack(rows[cycle - stream], WEIGHT_BITS))
