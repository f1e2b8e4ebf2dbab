"""Nested-stride walks over a memory as array views, proved to stay inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.instructions.array import INT8, INT16, UINT8, planes, write_vectors
from ridgeline.machine.instructions.state import Bytes, nested

Triple = tuple[int, int, int]


class LeavesMemory(Exception):
    """An instruction touches what its memory does not have: such a program has no plan."""


def span(start: int, counts: Triple, strides: Triple) -> tuple[int, int]:
    """Lowest and highest place of a walk."""
    low = high = start
    for count, stride in zip(counts, strides, strict=True):
        reach = (count - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


def apart(counts: Triple, strides: Triple, width: int) -> bool:
    """Whether it is plain that no two elements of `width` places overlap."""
    extent = width
    for stride, count in sorted((abs(s), c) for s, c in zip(strides, counts, strict=True)):
        if count > 1:
            if stride < extent:
                return False
            extent += (count - 1) * stride
    return True


def bytes_at(memory: Bytes, start: int, counts: Triple, strides: Triple, width: int) -> Bytes:
    """[count_2, count_1, count_0, width] bytes of a memory, level 0 innermost; strides in bytes.

    A view, never a copy; NumPy refuses one that leaves the memory.
    """
    shape = (counts[2], counts[1], counts[0], width)
    return np.ndarray(shape, np.uint8, memory, start, (strides[2], strides[1], strides[0], 1))


@dataclass(slots=True, eq=False)
class Lines:
    """A walk over vectors of the unified buffer: `width` lanes from `lane` on, in one format.

    Never changed, but not frozen: a frozen one takes three times as long to make.
    """

    line: int
    counts: Triple
    strides: Triple
    lane: int
    width: int
    format: int
    first: int
    last: int
    """The lowest and highest line, planes included."""
    lie_apart: bool
    """Whether it is plain that no two vectors share a line."""

    @staticmethod
    def checked(
        buffer_shape: tuple[int, int],
        line: int,
        counts: Triple,
        strides: Triple,
        lane: int,
        width: int,
        format_code: int,
    ) -> Lines:
        """The walk. Raises LeavesMemory when it is not within a buffer of that many [lines, bytes],
        or is empty.
        """
        low, high = span(line, counts, strides)
        high += planes(format_code) - 1
        lines, line_bytes = buffer_shape
        inside = low >= 0 and high < lines and lane >= 0 and lane + width <= line_bytes
        if not inside or width < 1 or min(counts) < 1 or format_code > INT16:
            raise LeavesMemory
        lie_apart = apart(counts, strides, planes(format_code))
        return Lines(line, counts, strides, lane, width, format_code, low, high, lie_apart)

    @property
    def m(self) -> int:
        """Vectors in all."""
        return self.counts[0] * self.counts[1] * self.counts[2]

    def followed_by(self, other: Lines) -> Lines | None:
        """One walk over these vectors, then those of `other`; None where there is none."""
        alike = (self.lane, self.width, self.format) == (other.lane, other.width, other.format)
        if not alike or self.counts[:2] != other.counts[:2] or other.counts[2] != 1:
            return None
        images, step = self.counts[2], (other.line - self.line) // self.counts[2]
        if images > 1 and step != self.strides[2]:
            return None
        strides = (*self.strides[:2], step)
        if self.strides[:2] != other.strides[:2] or self.line + images * step != other.line:
            return None
        counts = (*self.counts[:2], images + 1)
        first, last = min(self.first, other.first), max(self.last, other.last)
        lie_apart = apart(counts, strides, planes(self.format))
        return Lines(
            *(
                self.line,
                counts,
                strides,
                self.lane,
                self.width,
                self.format,
                first,
                last,
                lie_apart,
            )
        )

    def plane(self, buffer: Bytes, number: int = 0) -> Bytes:
        """The bytes of one plane, [count_2, count_1, count_0, width]."""
        line_bytes = buffer.shape[1]
        start = (self.line + number) * line_bytes + self.lane
        s0, s1, s2 = self.strides
        strides = (s0 * line_bytes, s1 * line_bytes, s2 * line_bytes)
        return bytes_at(buffer, start, self.counts, strides, self.width)

    def read(self, buffer: Bytes) -> npt.NDArray[Any]:
        """The integers, [count_2, count_1, count_0, width], a view where 8 bits."""
        low = self.plane(buffer)
        if self.format == UINT8:
            return low
        if self.format == INT8:
            return low.view(np.int8)
        return self.plane(buffer, 1).view(np.int8) * np.int16(256) + low

    def write(self, buffer: Bytes, values: npt.NDArray[Any]) -> None:
        """Store integers [m, width], in order where vectors lie over each other."""
        if not self.lie_apart:
            lanes = slice(self.lane, self.lane + self.width)
            places = nested(self.line, self.counts, self.strides)
            write_vectors(buffer, places, lanes, self.format, values)
            return
        shape = (self.counts[2], self.counts[1], self.counts[0], self.width)
        if self.format != INT16:
            self.plane(buffer)[...] = values.view(np.uint8).reshape(shape)
            return
        self.plane(buffer)[...] = (values & 255).astype(np.uint8).reshape(shape)
        self.plane(buffer, 1)[...] = (values >> 8).astype(np.int8).view(np.uint8).reshape(shape)
