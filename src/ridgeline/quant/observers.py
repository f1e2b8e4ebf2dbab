"""What range a tensor's values take, gathered batch by batch in bounded memory."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.quant.recipe import Recipe

Array = npt.NDArray[Any]

_HALF_BINS = 4096
# Of an extreme: what a range may end at.
_SHARES = np.concatenate([[0.0], np.geomspace(1 / 64, 1, 97)])


class Observer(Protocol):
    """Sees arrays, then tells a range (low, high) with low <= high."""

    def observe(self, values: Array) -> None: ...

    def range(self) -> tuple[float, float]: ...


class MinMax:
    """The smallest and largest value seen."""

    def __init__(self) -> None:
        self._low, self._high = np.inf, -np.inf

    def observe(self, values: Array) -> None:
        if values.size:
            self._low = min(self._low, float(values.min()))
            self._high = max(self._high, float(values.max()))

    def range(self) -> tuple[float, float]:
        return (self._low, self._high) if self._low <= self._high else (0.0, 0.0)


class _Histogram:
    """Counts over [-reach, reach], whose reach doubles as larger values come, merging neighbouring
    bins: a bin is reach / 4096.
    """

    def __init__(self) -> None:
        self._extremes = MinMax()
        self._reach = 0.0
        self._zeros = 0
        self._counts = np.zeros(2 * _HALF_BINS, np.int64)

    def observe(self, values: Array) -> None:
        self._extremes.observe(values)
        flat = values.reshape(-1).astype(np.float64)
        nonzero = flat[flat != 0]
        self._zeros += flat.size - nonzero.size
        if not nonzero.size:
            return
        self._grow(float(np.abs(nonzero).max()))
        edges = (-self._reach, self._reach)
        counts, _ = np.histogram(nonzero, bins=2 * _HALF_BINS, range=edges)
        self._counts += counts

    def _grow(self, largest: float) -> None:
        """Widen by powers of two, so that old bins merge in pairs without splitting."""
        if self._reach == 0.0:
            self._reach = largest
        while self._reach < largest:
            negative, positive = np.split(self._counts, 2)
            merged = np.zeros_like(self._counts)
            half = _HALF_BINS // 2
            merged[half:_HALF_BINS] = negative.reshape(-1, 2).sum(axis=1)
            merged[_HALF_BINS : _HALF_BINS + half] = positive.reshape(-1, 2).sum(axis=1)
            self._counts = merged
            self._reach *= 2


class Percentile(_Histogram):
    """The range that holds `percentile` percent of all values, half of the rest on each side.

    Exact to one bin, and never wider than min-max.
    """

    def __init__(self, percentile: float) -> None:
        super().__init__()
        self._tail = (100.0 - percentile) / 200.0

    def range(self) -> tuple[float, float]:
        low, high = self._extremes.range()
        total = int(self._counts.sum()) + self._zeros
        if total == 0 or self._reach == 0.0:
            return low, high
        return max(low, -self._cut(-1, total)), min(high, self._cut(1, total))

    def _cut(self, sign: int, total: int) -> float:
        """The magnitude beyond which only the tail lies, on the side of `sign`."""
        negative, positive = np.split(self._counts, 2)
        outward = positive if sign > 0 else negative[::-1]
        beyond = np.cumsum(outward[::-1])[::-1]
        kept = np.nonzero(beyond > self._tail * total)[0]
        bins = int(kept[-1]) + 1 if kept.size else 0
        return self._reach * bins / _HALF_BINS


class LeastError(_Histogram):
    """The range whose `steps` and saturation together change the values least, by squares.

    Both ends are searched over shares of the extremes. Rounding to steps of s costs s^2 / 12 a
    value, exact zeros nothing.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    def range(self) -> tuple[float, float]:
        low, high = self._extremes.range()
        if self._reach == 0.0:
            return low, high
        centres = (np.arange(2 * _HALF_BINS) + 0.5) / _HALF_BINS * self._reach - self._reach
        lows, highs = min(low, 0.0) * _SHARES, max(high, 0.0) * _SHARES
        above = self._beyond(centres, highs)
        below = self._beyond(-centres, -lows)
        widths = (highs[None, :] - lows[:, None]) / self._steps
        count = float(self._counts.sum())
        errors = below[:, None] + above[None, :] + count * np.square(widths) / 12
        row, column = np.unravel_index(int(np.argmin(errors)), errors.shape)
        return float(lows[row]), float(highs[column])

    def _beyond(self, places: Array, ends: Array) -> Array:
        """For each end, how much the values beyond it are moved, squared and summed."""
        moved = np.maximum(places[None, :] - ends[:, None], 0.0)
        return np.square(moved) @ self._counts


def create_observer(recipe: Recipe) -> Observer:
    """A new observer of the recipe's kind."""
    if recipe.observer == "minmax":
        return MinMax()
    if recipe.observer == "error":
        dtype = recipe.activation_format
        return LeastError(dtype.high - dtype.low)
    return Percentile(recipe.percentile)
