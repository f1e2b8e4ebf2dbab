"""The time of one product on a grid of processors, from a few constants that mean something.

A kernel cuts the output into tiles, and k into parts if there are few; tiles run in waves over
the processors. A tile takes its multiplications, slower the smaller its edges, or the loads of its
operands from the shared cache. Waves overlap with what main memory gives; a launch comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_EDGES_M = (16, 32, 64, 128, 256)
_EDGES_N = (32, 64, 128, 256)
_PARTS = (1, 2, 4, 8, 16)
LARGEST_TILE = 256 * 128
"""Elements of a tile whose sums fit into a processor's registers."""
K_STEP = 32
"""k is cut in whole steps of the multiplier's depth."""
CANDIDATES: npt.NDArray[np.int64] = np.array(
    [(m, n, s) for m in _EDGES_M for n in _EDGES_N for s in _PARTS if m * n <= LARGEST_TILE]
)
"""(rows, columns, parts of k) of the tilings that a kernel library chooses from."""
_CUTS = tuple(CANDIDATES[None, :, i].astype(np.float64) for i in range(3))
PARTIAL_SUM_BYTES = 4


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a sheet says: dense peak, processors that share it, clock, rate of main memory."""

    peak_operations_per_s: float
    processors: int
    clock_hz: float
    memory_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of one element of activations [m, k], weights [k, n] and output [m, n]."""

    activation_bytes: float
    weight_bytes: float
    output_bytes: float = 2.0


@dataclass(frozen=True, slots=True)
class ClassConstants:
    """What all chips of a class have in common.

    `tile_edge_elements`: a tile of edges a, b multiplies 1 + this × (1/a + 1/b) times longer.
    `split_seconds`: adding up the parts of k. `load_bytes_per_cycle`: from the shared cache into
    one processor. `overlap`: p of the p-norm of multiplying and moving; 1 is in turn, ∞ is perfect.
    """

    tile_edge_elements: float
    split_seconds: float
    load_bytes_per_cycle: float
    overlap: float


@dataclass(frozen=True, slots=True)
class FormatConstants:
    """What a number format's kernels have in common.

    `launch_seconds` of each product; the fraction of the dense peak that a tile without edges would
    attain (the largest tile attains 1/1.19 of it), and that of the memory's rate. `most_parts` is
    how many parts of k the library's kernels have; `loop_cycles` what a tile takes at least for
    each element of k, since a step of its loop waits for its loads: few tiles with a long k take
    that, however many processors are idle. Up to `vector_rows` rows are kernels of another kind,
    which share k among threads.
    """

    launch_seconds: float
    compute_fraction: float
    bandwidth_fraction: float
    most_parts: int = _PARTS[-1]
    loop_cycles: float = 0.0
    vector_rows: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """Of each product [products]: seconds, and those of its parts; the row of CANDIDATES chosen."""

    seconds: Floats
    launch_seconds: float
    compute_seconds: Floats
    memory_seconds: Floats
    candidate: npt.NDArray[np.int64]
    waves: Floats
    useful: Floats
    """Multiplications of the product over those that all waves have room for."""


def times(
    hardware: Hardware,
    storage: Storage,
    common: ClassConstants,
    of_format: FormatConstants,
    shapes: npt.NDArray[np.int64],
    cached_weights: npt.NDArray[np.bool_] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
) -> Times:
    """Time of the products with these [m, n, k], each with the tiling that is fastest.

    `groups` says how many independent ones of a shape one launch does (1 unless given).
    Where `cached_weights` is true, weights come from the shared cache, not from main memory.
    """
    m, n, k = (shapes[:, i, None].astype(np.float64) for i in range(3))
    rows, cols, parts = _CUTS
    alike = np.ones_like(m) if groups is None else groups[:, None].astype(np.float64)
    depth = np.ceil(k / parts / K_STEP) * K_STEP
    tiles = np.ceil(m / rows) * np.ceil(n / cols) * parts * alike
    waves = np.ceil(tiles / hardware.processors)
    vector = m <= of_format.vector_rows
    one_wave = _tile_seconds(hardware, storage, common, of_format, (m, n, depth), vector)
    compute = np.asarray(waves * one_wave + common.split_seconds * (parts > 1), np.float64)
    sizes = (m, n, k, parts)
    memory = alike * _memory_seconds(hardware, storage, common, of_format, sizes, cached_weights)
    p = common.overlap
    both = (compute**p + memory**p) ** (1 / p)
    both = np.where((parts > of_format.most_parts) & ~vector, np.inf, both)
    best = both.argmin(axis=1)
    at = (np.arange(len(shapes)), best)
    room = waves * hardware.processors * rows * cols * depth
    return Times(
        seconds=of_format.launch_seconds + both[at],
        launch_seconds=of_format.launch_seconds,
        compute_seconds=compute[at],
        memory_seconds=memory[at],
        candidate=best,
        waves=waves[at],
        useful=(alike * m * n * k / room)[at],
    )


def _tile_seconds(
    hardware: Hardware,
    storage: Storage,
    common: ClassConstants,
    of_format: FormatConstants,
    sizes: tuple[Floats, Floats, Floats],
    vector: npt.NDArray[np.bool_],
) -> Floats:
    """A tile of each cut: its multiplications, its loads, or its walk along k, the longest."""
    m, n, depth = sizes
    rows, cols, _ = _CUTS
    attained = hardware.peak_operations_per_s / hardware.processors * of_format.compute_fraction
    edges = 1 + common.tile_edge_elements * (1 / rows + 1 / cols)
    multiply = 2 * rows * cols * depth / attained * edges
    loaded = np.minimum(rows, m) * storage.activation_bytes
    loaded = (loaded + np.minimum(cols, n) * storage.weight_bytes) * depth
    load = loaded / (common.load_bytes_per_cycle * hardware.clock_hz)
    loop = np.where(vector, 0.0, depth * of_format.loop_cycles / hardware.clock_hz)
    return np.maximum(np.maximum(multiply, load), loop)


def _memory_seconds(
    hardware: Hardware,
    storage: Storage,
    common: ClassConstants,
    of_format: FormatConstants,
    sizes: tuple[Floats, Floats, Floats, Floats],
    cached_weights: npt.NDArray[np.bool_] | None,
) -> Floats:
    """Every operand once, and the partial sums of a split k twice their half: out and in again."""
    m, n, k, parts = sizes
    rate = hardware.memory_bytes_per_s * of_format.bandwidth_fraction
    sums = np.where(parts > 1, PARTIAL_SUM_BYTES * m * n * parts, 0.0)
    weights = k * n * storage.weight_bytes / rate
    if cached_weights is not None:
        cache = common.load_bytes_per_cycle * hardware.clock_hz * hardware.processors
        cached = k * n * storage.weight_bytes / cache
        weights = np.where(cached_weights[:, None], cached, weights)
    moved = m * k * storage.activation_bytes + m * n * storage.output_bytes + sums
    return weights + moved / rate
