"""Arrays of MAC elements: random tiles, their pins in every cycle, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from amaranth.lib import wiring
from amaranth.sim import Simulator

from mac_vectors import bf16_vectors
from ridgeline.numerics.bf16 import add_flushed, bf16_matmul_ordered, bf16_multiply_add
from ridgeline.numerics.fp8 import fp8_matmul_exact
from ridgeline.rtl.array import MacArray
from ridgeline.rtl.mac.element import MultiplyAdd
from ridgeline.rtl.mac.format import MacFormat, array_cycles, shift_after_stream_cycles
from ridgeline.rtl.mac.formats import MAC_FORMATS
from ridgeline.rtl.streaming import Stream

Integers = npt.NDArray[np.int64]
Pins = dict[str, list[int]]


@dataclass(frozen=True)
class Reference:
    """A format's second opinion. Operands and sums are words, as integers.

    `matmul` gives the sums and which bits of them mean something.
    """

    operands: Callable[[np.random.Generator, tuple[int, ...]], Integers]
    matmul: Callable[[Integers, Integers, int], tuple[Integers, Integers]]


def _int8_operands(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    values = rng.integers(-256, 256, shape)
    return np.where(rng.random(shape) < 0.2, rng.choice([-256, 255, 0], shape), values) & 511


def _int8_matmul(a: Integers, b: Integers, bits: int) -> tuple[Integers, Integers]:
    signed = [np.where(x > 255, x - 512, x) for x in (a, b)]
    mask = (1 << bits) - 1
    sums = (signed[0] @ signed[1]) & mask
    return sums, np.full_like(sums, mask)


def _fp8_operands(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    values = rng.integers(0, 256, shape)
    nan = (values & 127) == 127
    values = np.where(nan & (rng.random(shape) < 0.8), 126, values)
    return np.where(rng.random(shape) < 0.1, rng.choice([0, 128, 126, 254, 1], shape), values)


def fp8_words(units: Integers, nan: npt.NDArray[np.bool_], bits: int) -> tuple[Integers, Integers]:
    """Sums as the hardware's words, and their bits that mean something."""
    flag, value = 1 << (bits - 1), (1 << (bits - 1)) - 1
    return np.where(nan, flag, units & value), np.where(nan, flag, flag | value)


def _fp8_matmul(a: Integers, b: Integers, bits: int) -> tuple[Integers, Integers]:
    sums = fp8_matmul_exact(a.astype(np.uint8), b.astype(np.uint8))
    return fp8_words(sums.units, sums.nan, bits)


def _bf16_operands(rng: np.random.Generator, shape: tuple[int, ...]) -> Integers:
    """Mostly of sizes that meet each other; a few of any bits at all."""
    size = int(np.prod(shape))
    near = rng.normal(size=size) * np.exp2(rng.integers(-4, 5, size))
    words = near.astype(ml_dtypes.bfloat16).view(np.uint16)
    a, _, _ = bf16_vectors(size, int(rng.integers(1 << 30)))
    return np.where(rng.random(size) < 0.05, a.view(np.uint16), words).reshape(shape).astype(int)


def _bf16_matmul(a: Integers, b: Integers, bits: int) -> tuple[Integers, Integers]:
    left, right = (x.astype(np.uint16).view(ml_dtypes.bfloat16) for x in (a, b))
    sums = bf16_matmul_ordered(left, right, max(a.shape[1], 1)).view(np.uint32).astype(np.int64)
    return sums, np.full_like(sums, (1 << bits) - 1)


REFERENCES = {
    "int8": Reference(_int8_operands, _int8_matmul),
    "fp8_e4m3fn": Reference(_fp8_operands, _fp8_matmul),
    "bf16": Reference(_bf16_operands, _bf16_matmul),
}


@dataclass(frozen=True)
class Tile:
    """activations [m, k] times weights [k, cols]; the cycles of their first rows at the pins."""

    activations: Integers
    weights: Integers
    shift: int = 0
    stream: int = 0


def random_tiles(mac: MacFormat, rows: int, cols: int, count: int, seed: int) -> list[Tile]:
    """Tiles as close to each other as their weights and the array allow."""
    rng = np.random.default_rng(seed)
    reference = REFERENCES[mac.name]
    tiles: list[Tile] = []
    for _ in range(count):
        k = rows if rng.random() < 0.5 else int(rng.integers(1, rows + 1))
        m = int(rng.choice([1, 2, k, 2 * k + 1, 3 * rows]))
        made = Tile(reference.operands(rng, (m, k)), reference.operands(rng, (k, cols)))
        tiles.append(placed(mac, made, tiles[-1] if tiles else None))
    return tiles


def placed(mac: MacFormat, tile: Tile, before: Tile | None) -> Tile:
    """The tile at the earliest: after the weights before it, behind the wave, after the stream."""
    shift = stream = 0
    if before is not None:
        behind = before.stream + shift_after_stream_cycles(mac, tile.weights.shape[0])
        shift = max(before.shift + before.weights.shape[0], behind)
        stream = before.stream + before.activations.shape[0]
    return Tile(tile.activations, tile.weights, shift, max(shift + 2, stream))


def packed(values: Integers, bits: int) -> int:
    return sum(int(value) << (place * bits) for place, value in enumerate(values))


def pins_of(mac: MacFormat, rows: int, cols: int, tiles: list[Tile], seed: int) -> Pins:
    """Every pin in every cycle until the last sums are out; idle pins hold anything."""
    rng = np.random.default_rng(seed)
    reference = REFERENCES[mac.name]
    cycles = tiles[-1].stream + len(tiles[-1].activations) + array_cycles(mac, rows, cols)
    pins: Pins = {name: [0] * cycles for name in ("swap", "weights_valid")}
    pins["weight_row"] = rng.integers(0, rows, cycles).tolist()
    idle = reference.operands(rng, (cycles, rows + cols))
    pins["activations"] = [packed(one[:rows], mac.activation_bits) for one in idle]
    pins["weights"] = [packed(one[rows:], mac.weight_bits) for one in idle]
    for tile in tiles:
        k = tile.weights.shape[0]
        pins["swap"][tile.stream - 1] = 1
        for row in range(k):
            pins["weights_valid"][tile.shift + row] = 1
            pins["weight_row"][tile.shift + row] = row
            pins["weights"][tile.shift + row] = packed(tile.weights[row], mac.weight_bits)
        rest = np.full(rows - k, mac.nothing)
        for step, activations in enumerate(tile.activations):
            word = packed(np.concatenate([activations, rest]), mac.activation_bits)
            pins["activations"][tile.stream + step] = word
    return pins


def simulated(component: wiring.Component, pins: Pins, output: str) -> list[int]:
    """What Amaranth's simulator says of one output in every cycle."""
    made: list[int] = []
    cycles = max(len(values) for values in pins.values())

    async def bench(ctx: Any) -> None:
        for cycle in range(cycles):
            for name, values in pins.items():
                ctx.set(getattr(component, name), values[cycle])
            made.append(ctx.get(getattr(component, output)))
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return made


def array_differences(
    mac: MacFormat, rows: int, cols: int, tiles: list[Tile], sums: list[int]
) -> int:
    """How many sums differ, in the cycles in which they must be there."""
    bits = mac.sum_bits(rows)
    wrong = 0
    for tile in tiles:
        expected, meaning = REFERENCES[mac.name].matmul(tile.activations, tile.weights, bits)
        for step in range(len(expected)):
            word = sums[tile.stream + step + array_cycles(mac, rows, cols)]
            got = [(word >> (bits * col)) & ((1 << bits) - 1) for col in range(cols)]
            wrong += sum(
                (got[col] ^ int(expected[step, col])) & int(meaning[step, col]) != 0
                for col in range(cols)
            )
    return wrong


def run_array(mac: MacFormat, rows: int, cols: int, tiles: list[Tile], seed: int = 0) -> int:
    """Differences of these tiles through an array in Amaranth's simulator."""
    pins = pins_of(mac, rows, cols, tiles, seed)
    cycles = len(pins["swap"]) + 1
    pins = {name: [*values, 0] for name, values in pins.items()}
    sums = simulated(MacArray(rows, cols, mac), pins, "sums")
    assert len(sums) == cycles
    return array_differences(mac, rows, cols, tiles, sums)


def steps_in_amaranth(mac: MacFormat, rows: int, pins: Pins) -> list[int]:
    """total + activation * weight for each cycle's pins, in Amaranth's simulator."""
    late = mac.product_cycles + mac.sum_cycles
    longer = {name: [*values, *[0] * late] for name, values in pins.items()}
    return simulated(MultiplyAdd(mac, rows), longer, "result")[late:]


def steps_in_verilator(
    mac: MacFormat, rows: int, pins: dict[str, npt.NDArray[Any]]
) -> npt.NDArray[np.uint64]:
    """The same, millions of them, in Verilator."""
    late = mac.product_cycles + mac.sum_cycles
    longer = {name: np.concatenate([x, np.zeros(late, x.dtype)]) for name, x in pins.items()}
    return Stream(MultiplyAdd(mac, rows)).run(longer)["result"][late:]


def bf16_pins(count: int, seed: int) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.uint32]]:
    """Directed and random vectors, a tenth with "nothing" as activation, and what must come out."""
    a, b, total = bf16_vectors(count, seed)
    expected = bf16_multiply_add(a, b, total)
    absent = np.random.default_rng(seed).random(count) < 0.1
    kept = add_flushed(total, np.full(count, -0.0, np.float32))
    activation = a.view(np.uint16) | np.where(absent, MAC_FORMATS["bf16"].nothing, 0)
    pins = {"activation": activation, "weight": b.view(np.uint16), "total": total.view(np.uint32)}
    return pins, np.where(absent, kept, expected).view(np.uint32)
