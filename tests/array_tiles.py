"""Random tile sequences for the array, and what NumPy says that they sum to."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ridgeline.machine.dataflow import Tile
from ridgeline.machine.description import Array
from ridgeline.machine.elements import ElementTile


def make_array(rows: int, cols: int, dataflow: str, loaders: int = 1) -> Array:
    return Array(
        rows=rows,
        cols=cols,
        dataflow=dataflow,  # type: ignore[arg-type]
        macs_per_pe_per_cycle={"int8": Fraction(1), "int16": Fraction(1, 2)},
        weight_rows_per_cycle=loaders,
        weight_slots=4,
        accumulator_entries=64,
        accumulator_bits=48,
    )


def random_tiles(array: Array, rng: np.random.Generator, count: int) -> list[ElementTile]:
    """Tiles that the dataflow allows, with chains of sums and weights kept in the array."""
    tiles: list[ElementTile] = []
    for _ in range(count):
        tiles.append(_random_tile(array, rng, tiles[-1] if tiles else None))
    return tiles


def _random_tile(array: Array, rng: np.random.Generator, before: ElementTile | None) -> ElementTile:
    output = array.dataflow == "output-stationary"
    most_m = {"output-stationary": array.rows, "input-stationary": array.cols}
    chained = before is not None and (not before.last if output else rng.random() < 0.4)
    m = int(rng.integers(1, most_m.get(array.dataflow, 12) + 1))
    n = int(rng.integers(1, array.cols + 1))
    k = int(rng.integers(1, array.rows + 1))
    if chained:
        assert before is not None
        m, n = before.activations.shape[0], before.weights.shape[1]
    weights = rng.integers(-255, 256, (k, n))
    keep = before is not None and array.dataflow == "weight-stationary" and rng.random() < 0.3
    if keep:
        assert before is not None
        keep = not chained or before.weights.shape[1] == n
    if keep:
        assert before is not None
        weights = before.weights
    planes = int(rng.integers(1, 3))
    low, high = (-255, 256) if planes == 1 else (-(1 << 15), 1 << 15)
    activations = rng.integers(low, high, (m, weights.shape[0]))
    last = not output or bool(rng.random() < 0.6)
    return ElementTile(activations, weights, planes, keep, chained, last)


def expected_sums(tiles: list[ElementTile]) -> list[np.ndarray]:
    sums: list[np.ndarray] = []
    for tile in tiles:
        product = tile.activations @ tile.weights
        sums.append(product + sums[-1] if tile.accumulate else product)
    return sums


def shape_of(tile: ElementTile) -> Tile:
    """The same tile as the closed forms see it."""
    m, k = tile.activations.shape
    n = tile.weights.shape[1]
    return Tile(m, n, k, tile.planes, tile.keep_weights, tile.last)
