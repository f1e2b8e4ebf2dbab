"""How full the multipliers are in a product: tiles and waves on a grid, edges on an array."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ridgeline.predict.constants import fitted
from ridgeline.predict.model import CANDIDATES, times
from ridgeline.predict.model import Storage as ElementBytes
from ridgeline.roofline.roof import Roof, grid_constants
from ridgeline.workload.layer import Product


@dataclass(frozen=True, slots=True)
class Occupied:
    """Seconds of multiplying, and the part of the peak that edges and waves leave of it.

    `edges` is what tiles cut from the product's own sides, `waves` how full the processors are,
    `why` both in words.
    """

    seconds: float
    edges: float = 1.0
    waves: float = 1.0
    why: str = ""


def occupied(products: tuple[Product, ...], roof: Roof) -> list[Occupied]:
    """Of each product alone, operands at hand."""
    real = [p for p in products if p.macs]
    if roof.grid is not None:
        made = _on_grid(real, roof)
    elif roof.array is not None:
        made = [_on_array(p, roof) for p in real]
    else:
        made = [_plain(p, roof) for p in real]
    return made


def _plain(product: Product, roof: Roof) -> Occupied:
    attained = roof.peak.dense.value * roof.fractions.compute
    return Occupied(2 * product.macs / attained, why="the fraction of the peak that is attained")


def _on_grid(products: list[Product], roof: Roof) -> list[Occupied]:
    """By the tiling of the fitted model: the fastest with operands from main memory."""
    if not products or roof.grid is None:
        return []
    storage = ElementBytes(roof.storage.activation_bits / 8, roof.storage.weight_bits / 8)
    shapes = np.array([(p.m, p.n, p.k) for p in products], np.int64)
    groups = np.array([p.groups for p in products], np.int64)
    constants = grid_constants(roof.precision)
    made = times(roof.grid, storage, fitted().common, constants, shapes, None, groups)
    found: list[Occupied] = []
    for i, product in enumerate(products):
        rows, cols, parts = (int(x) for x in CANDIDATES[made.candidate[i]])
        tiles = product.groups * ceil(product.m / rows) * ceil(product.n / cols) * parts
        waves = tiles / (float(made.waves[i]) * roof.grid.processors)
        edges = min(1.0, float(made.useful[i]) / waves)
        why = (
            f"{tiles:,} tiles of {rows}x{cols} on {roof.grid.processors} processors,"
            f" {int(made.waves[i]):,} waves"
        )
        seconds = float(made.compute_seconds[i]) * product.steps
        found.append(Occupied(seconds, edges, min(1.0, waves), why))
    return found


def _on_array(product: Product, roof: Roof) -> Occupied:
    """Weights stand in tiles of rows × cols while rows of activations stream past.

    A tile takes as long as its rows, but no less than the next one takes to shift in.
    """
    array = roof.array
    assert array is not None
    count = max(1, round(array.count))
    tiles = product.groups * ceil(product.k / array.rows) * ceil(product.n / array.cols)
    # Where tiles are fewer than arrays, the rows are split over them.
    split = max(1, count // tiles)
    turns = ceil(tiles * split / count)
    rows = ceil(product.m / split)
    cycles = product.steps * turns * max(rows, array.rows)
    attained = roof.fractions.compute * array.count / count * array.clock_hz
    filled = product.n * product.k * product.groups / (tiles * array.rows * array.cols)
    streamed = min(1.0, rows / array.rows)
    why = f"k {product.k} x n {product.n} on an array of {array.rows}x{array.cols}"
    if streamed < filled:
        why = f"{rows} rows stream past a tile that takes {array.rows} cycles to change"
    return Occupied(cycles / attained, filled, streamed, why)
