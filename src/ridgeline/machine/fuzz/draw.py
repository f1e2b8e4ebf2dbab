"""Random address walks that stay inside a memory, and random windows that leave their tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Triple = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Walk:
    """start + sum(index * stride) over three levels."""

    start: int
    counts: Triple
    strides: Triple


@dataclass(frozen=True, slots=True)
class WindowWalk:
    """The operands of an instruction's WindowFields, and of its taps."""

    line: int
    counts: Triple
    strides: Triple
    origin: tuple[int, int]
    step: tuple[int, int]
    limit: tuple[int, int]
    taps: tuple[int, int] = (1, 1)
    tap_strides: tuple[int, int] = (0, 0)
    tap_steps: tuple[int, int] = (0, 0)

    @property
    def m(self) -> int:
        return self.counts[0] * self.counts[1] * self.counts[2]

    def operands(self) -> dict[str, Any]:
        """Keyword arguments for the fields that a MatMul and a WindowReduce share."""
        return {
            "line": self.line,
            **{f"count_{i}": value for i, value in enumerate(self.counts)},
            **{f"stride_{i}": value for i, value in enumerate(self.strides)},
            "x_origin": self.origin[0],
            "x_step": self.step[0],
            "x_limit": self.limit[0],
            "y_origin": self.origin[1],
            "y_step": self.step[1],
            "y_limit": self.limit[1],
        }

    def tap_operands(self) -> dict[str, Any]:
        """Keyword arguments for the taps of a WindowReduce."""
        return {
            **{f"taps_{i}": value for i, value in enumerate(self.taps)},
            **{f"tap_stride_{i}": value for i, value in enumerate(self.tap_strides)},
            **{f"tap_step_{i}": value for i, value in enumerate(self.tap_steps)},
        }


def _span(counts: Triple, strides: Triple) -> tuple[int, int]:
    """Smallest and largest offset of a walk."""
    ends = [(count - 1) * stride for count, stride in zip(counts, strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


class Draw:
    """Random choices, all from one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.between(0, len(options) - 1)]

    def weighted(self, shares: npt.NDArray[np.float64]) -> int:
        """An index, with these probabilities."""
        return int(self.rng.choice(shares.size, p=shares))

    def counts(self, most: int) -> Triple:
        """Three counts of at least 1 whose product is at most `most`."""
        bound = self.choice((1, 3, 8, most, most))
        first = self.between(1, max(1, min(bound, most)))
        second = self.between(1, max(1, most // first)) if self.chance(0.5) else 1
        third = self.between(1, max(1, most // (first * second))) if self.chance(0.3) else 1
        return first, second, third

    def byte_strides(self, width: int) -> Triple:
        """Strides of elements in device memory: dense, spaced, overlapping, backwards, repeated."""
        choices = (width, width, width, width + self.between(1, 40), 1, -width, 0, 64)
        return self.choice(choices), self.choice((*choices, 8 * width)), self.choice(choices)

    def line_strides(self, height: int) -> Triple:
        """Strides in lines; whole vectors of `height` lines, so that vectors never overlap."""
        first = self.choice((1, 1, 1, 2, 3, -1, 0)) * height
        second = self.choice((1, 2, 4, 5, -3, 0)) * height
        third = self.choice((1, 6, 9, -8)) * height
        return first, second, third

    def walk(
        self,
        low: int,
        high: int,
        strides: Triple,
        counts: Triple | None = None,
        *,
        height: int = 1,
    ) -> Walk:
        """A walk whose places all lie in [low, high): strides shrink until it fits.

        `height` is the smallest stride that keeps vectors apart.
        """
        if counts is None:
            counts = self.counts(self.choice((1, 4, 12, 30)))
        while True:
            least, most = _span(counts, strides)
            if most - least < high - low:
                break
            first, second, third = strides
            if (second, third) != (0, 0):
                strides = (first, 0 if abs(second) <= height else height, 0)
            elif abs(first) > height:
                strides = (height, 0, 0)
            else:
                strides = (0, 0, 0)
        room = high - low - (most - least)
        start = low - least + (self.between(0, room - 1) if self.chance(0.7) else 0)
        return Walk(start, counts, strides)

    def plain_window(self, lines: int, wide: bool, m: int) -> WindowWalk:
        """A window of exactly m vectors that never leaves its tensor."""
        height = 2 if wide else 1
        walk = self.walk(0, lines - height + 1, (height, 0, 0), (m, 1, 1), height=height)
        limits = (self.between(1, 9), self.between(1, 9))
        return WindowWalk(walk.start, walk.counts, walk.strides, (0, 0), (0, 0), limits)

    def window(self, lines: int, height: int, most: int, *, taps: bool = False) -> WindowWalk:
        """A window over a tensor that lies in the buffer, or a plain walk without padding.

        At most `most` vectors of `height` lines; with `taps`, up to 3 x 3 of them.
        """
        if not taps and self.chance(0.35):
            counts = self.counts(most)
            last = lines - height + 1
            walk = self.walk(0, last, self.line_strides(height), counts, height=height)
            return WindowWalk(walk.start, counts, walk.strides, (0, 0), (0, 0), (1, 1))
        counts = self.counts(most)
        pixel = height * self.choice((1, 1, 2))
        images = counts[2]
        room = max(lines // (pixel * images), 1)
        x_limit = self.between(1, min(9, room))
        y_limit = self.between(1, min(9, max(room // x_limit, 1)))
        row, image = pixel * x_limit, pixel * x_limit * y_limit
        if image * images > lines:
            counts, images = (counts[0], counts[1], 1), 1
        base = self.between(0, max(lines - image * images, 0))
        origin = (self.between(-3, x_limit - 1), self.between(-3, y_limit - 1))
        step = (self.choice((0, 1, 1, 2, 3)), self.choice((0, 1, 1, 2)))
        return WindowWalk(
            line=base + origin[0] * pixel + origin[1] * row,
            counts=counts,
            strides=(step[0] * pixel, step[1] * row, image),
            origin=origin,
            step=step,
            limit=(x_limit, y_limit),
            taps=(self.between(1, 3), self.between(1, 3)) if taps else (1, 1),
            tap_strides=(pixel, row) if taps else (0, 0),
            tap_steps=(1, 1) if taps else (0, 0),
        )
