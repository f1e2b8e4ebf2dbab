"""Chains of MatMul over the same windows as one product of matrices, up to the stored bytes.

BLAS sums the integers over slices that cannot round. Zero points of activations move into the
bias: sum((x - z) w) = sum(x w) - z sum(w), where a vector outside its tensor is z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.execution.constants import Parameters, Tile
from ridgeline.machine.execution.scratch import Scratch
from ridgeline.machine.execution.windows import Window
from ridgeline.machine.instructions import LoadWeights
from ridgeline.machine.instructions.state import Bytes, State
from ridgeline.numerics.matmul import exact_slice, sliced_matmul
from ridgeline.numerics.requantize import SumRequantizer
from ridgeline.numerics.rounding import wrap

Floats = npt.NDArray[np.floating[Any]]
Part = tuple[Window, Tile]
"""One MatMul of a chain."""

_LARGEST = (255, 128, 32768)
"""The largest magnitude of a stored value, by format code."""
_STORED = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int16))
"""Integers of a format, by its code."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The tiles of chains over the same windows as one matrix of integers in float."""

    values: Floats
    """[k, n]."""
    correction: npt.NDArray[np.int64]
    """[n], what the zero points of activations add to every sum."""
    slice_length: int
    """Terms whose sum cannot round."""
    largest_sum: int
    """No sum without its correction is larger in magnitude."""


def weights_of(
    constants: Bytes, chains: Sequence[Sequence[Part]], widths: Sequence[int]
) -> Weights:
    """The weights of chains over the same windows in the same order, `widths` columns of each."""
    windows = [window for window, _ in chains[0]]
    columns = [0, *accumulate(widths)]
    terms = sum(window.width for window in windows)
    largest_product = max(
        _LARGEST[window.format] * tile.largest for chain in chains for window, tile in chain
    )
    kind, slice_length = exact_slice(largest_product)
    values = np.zeros((terms, columns[-1]), kind)
    for chain, first, width in zip(chains, columns, widths, strict=False):
        _copy_tiles(constants, chain, values[:, first : first + width])
    correction = np.zeros(columns[-1], np.int64)
    row = 0
    for window in windows:
        if window.zero_point:
            sums = values[row : row + window.width].sum(axis=0, dtype=np.float64)
            correction -= window.zero_point * sums.astype(np.int64)
        row += window.width
    return Weights(values, correction, slice_length, largest_product * terms)


@dataclass(slots=True)
class _Run:
    """Tiles one below the other in the matrix, and likewise in memory."""

    load: LoadWeights
    """The first."""
    rows: int
    stored_rows: int
    """Fewer than `rows` where the last tile has fewer rows than its window has lanes."""

    def takes(self, load: LoadWeights) -> bool:
        """Whether a tile lies just behind, and is like the first."""
        first = self.load
        return (
            load.address == first.address + self.rows * first.row_stride
            and self.rows == self.stored_rows
            and not (load.transposed or first.transposed)
            and load.is_dense
            and first.is_dense
            and (load.row_stride, load.n) == (first.row_stride, first.n)
            and (load.signed, load.zero_point) == (first.signed, first.zero_point)
        )

    def stored(self, constants: Bytes) -> npt.NDArray[Any]:
        """The weights as they are stored, [stored_rows, n]."""
        load = self.load
        kind = np.int8 if load.signed else np.uint8
        shape = (load.n, self.stored_rows) if load.transposed else (self.stored_rows, load.n)
        raw = np.ndarray(shape, kind, constants, load.address, (load.row_stride, 1))
        return raw.T if load.transposed else raw


def _copy_tiles(constants: Bytes, chain: Sequence[Part], target: Floats) -> None:
    """The tiles of a chain one below the other, those that lie so in memory in one copy."""
    runs: list[_Run] = []
    for window, tile in chain:
        stored_rows = min(window.width, tile.load.k)
        if runs and runs[-1].takes(tile.load):
            runs[-1].rows += window.width
            runs[-1].stored_rows += stored_rows
        else:
            runs.append(_Run(tile.load, window.width, stored_rows))
    row = 0
    for run in runs:
        block = target[row : row + run.stored_rows]
        if run.load.is_dense:
            raw = run.stored(constants)[:, : target.shape[1]]
            block = block[:, : raw.shape[1]]
            block[...] = raw
            if run.load.zero_point:
                block -= run.load.zero_point
        else:
            weights = run.stored(constants).astype(np.int16) - run.load.zero_point
            run.load.place(weights, block)
        row += run.rows


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums [m, n] of windows side by side times weights."""

    windows: tuple[Window, ...]
    weights: Weights

    @property
    def m(self) -> int:
        return self.windows[0].m

    def compute(self, state: State, scratch: Scratch) -> Floats:
        """Without the correction; float32 where one slice does, else float64."""
        values = self.weights.values
        left = scratch.array("left", (self.m, values.shape[0]), values.dtype)
        start = 0
        for window in self.windows:
            window.copy_stored(state.buffer, left[:, start : start + window.width])
            start += window.width
        out = scratch.array("sums", (self.m, values.shape[1]), values.dtype)
        return sliced_matmul(left, values, self.weights.slice_length, out)


@dataclass(frozen=True, slots=True)
class Rounding:
    """How sums become stored integers."""

    format: int
    zero_point: int
    low: int
    high: int


class Product:
    """Sums requantised: all columns that are made of the same windows in the same way."""

    def __init__(
        self,
        sums: Sums,
        parameters: Sequence[tuple[Parameters, int]],
        rounding: Rounding,
        machine: Machine,
    ) -> None:
        """`parameters` with the lanes used of each, for the columns from left to right."""
        self.sums = sums
        self.kind = _STORED[rounding.format]
        weights = sums.weights
        bias = np.concatenate([p.bias[:width] for p, width in parameters])
        scale = np.concatenate([p.scale[:width] for p, width in parameters])
        self.requantizer = SumRequantizer(
            bias + weights.correction,
            scale,
            rounding.zero_point,
            rounding.low,
            rounding.high,
            largest_sum=weights.largest_sum,
            accumulator_bits=machine.array.accumulator_bits,
            mode=machine.vector.requantize,
        )

    def compute(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        """The stored integers [m, n]."""
        real = self.requantizer.requantize(self.sums.compute(state, scratch))
        return real.astype(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class ChainStep:
    """A chain left in the accumulators, as its MatMuls leave it."""

    sums: Sums
    entry: int

    def run(self, state: State, scratch: Scratch) -> None:
        weights = self.sums.weights
        total = self.sums.compute(state, scratch).astype(np.int64) + weights.correction
        entries = slice(self.entry, self.entry + self.sums.m)
        bits = state.machine.array.accumulator_bits
        state.accumulators[entries] = 0
        state.accumulators[entries, : total.shape[1]] = wrap(total, bits)
