"""Rearrangements as Loads: where each output byte lies in device memory, as few strided walks.

The source is stored, and what is wanted of it is loaded, in the output's layout. The walks are
found from the addresses themselves: bytes that lie side by side in both layouts are one element,
and elements at regular distances one descriptor, whichever operator asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Box, Layout
from ridgeline.ir import TensorType

Integers = npt.NDArray[np.int64]

MOST_WALKS = 2048
"""A move of more descriptors than this is left to the host."""

Place = tuple[int, int, int, int]

_SOURCE_SHIFT = 44
_MOST_PERIOD = 16


@dataclass(frozen=True, slots=True)
class Level:
    """`count` elements, `step` apart along `axis` of the output: 0 image, 1 y, 2 x, 3 block."""

    axis: int
    step: int
    count: int
    device_stride: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Elements of `width` bytes from `source` + `offset` on to lane `lane` of the output's lines,
    from that of `place` (image, y, x, block) on.
    """

    source: int
    offset: int
    place: Place
    plane: int
    lane: int
    width: int
    levels: tuple[Level, ...]


def element_offsets(type: TensorType, layout: Layout) -> Integers:
    """[planes, elements in ONNX's order]: bytes from the start of a tensor in device memory."""
    shape, axis = type.shape, layout.channel_axis
    rest = [d for i, d in enumerate(shape) if i != axis]
    rows = np.arange(int(np.prod(rest)), dtype=np.int64)[:, None] * layout.row_bytes
    channels = np.arange(layout.c, dtype=np.int64)
    first = channels - channels % layout.line_bytes
    width = np.minimum(layout.line_bytes, layout.c - first)
    planes: list[Integers] = []
    for plane in range(layout.planes):
        lanes = first * layout.planes + plane * width + channels - first
        table = (rows + lanes).reshape(*rest, layout.c)
        planes.append(np.moveaxis(table, -1, axis).reshape(-1))
    return np.stack(planes)


def places(index: npt.NDArray[Any], sources: Sequence[Integers], layout: Layout) -> Integers:
    """[planes, n, h, w, c]: the place of each output byte, source number and offset in one integer.

    `index` has the output's shape and numbers the sources' elements one source after another; a
    negative one is of the sources behind the last, which hold a line of fill for each plane.
    """
    table = np.concatenate(
        [offsets + (number << _SOURCE_SHIFT) for number, offsets in enumerate(sources)], axis=1
    )
    moved = np.moveaxis(index, layout.channel_axis, -1)
    moved = moved.reshape(layout.n, layout.h, layout.w, layout.c)
    lanes = np.arange(layout.c, dtype=np.int64) % layout.line_bytes
    last = np.arange(len(sources), len(sources) + layout.planes, dtype=np.int64)
    fill = (last[:, None] << _SOURCE_SHIFT) + lanes
    fill = fill[:, None, None, None, :]
    return np.where(moved < 0, fill, table[:, np.maximum(moved, 0)])


def split_places(placed: Integers) -> tuple[Integers, Integers]:
    """(source numbers, offsets in bytes) of `places`."""
    return placed >> _SOURCE_SHIFT, placed & ((1 << _SOURCE_SHIFT) - 1)


def walks(placed: Integers, box: Box, layout: Layout) -> Iterator[Walk]:
    """Descriptors that bring the rows of `box`."""
    part = placed[:, box.n0 : box.n1, box.y0 : box.y1, box.x0 : box.x1]
    for plane in range(layout.planes):
        for block, lane, width, channels in _pieces(part[plane], layout.line_bytes):
            levels = [(axis, 1) for axis in range(4)]
            origin = (box.n0, box.y0, box.x0, block)
            for start, place, found in _regular(part[plane][..., channels], levels, origin):
                source, offset = divmod(start, 1 << _SOURCE_SHIFT)
                yield Walk(source, offset, place, plane, lane, width, found)


def count_elements(placed: Integers, layout: Layout) -> int | None:
    """Elements of all descriptors for the whole tensor; None where these are over MOST_WALKS."""
    found = list(islice(walks(placed, layout.box, layout), MOST_WALKS + 1))
    if len(found) > MOST_WALKS:
        return None
    return sum(prod(level.count for level in one.levels) for one in found)


def _pieces(part: Integers, line_bytes: int) -> Iterator[tuple[int, int, int, list[int]]]:
    """(block, lane, width, first channels) of pieces that are contiguous in every row.

    Pieces of one width and lane in blocks behind each other go together, from `block` on.
    """
    edges = _edges(part, line_bytes)
    known = {first: end - first for first, end in pairwise(edges)}
    while known:
        first = next(iter(known))
        width = known[first]
        together = [first]
        while known.get(together[-1] + line_bytes) == width:
            together.append(together[-1] + line_bytes)
        for channel in together:
            del known[channel]
        block, lane = divmod(first, line_bytes)
        yield block, lane, width, together


def _edges(part: Integers, line_bytes: int) -> list[int]:
    """Channels at which pieces begin, and the end: a piece lies within a line."""
    channels = part.shape[-1]
    follows = (np.diff(part, axis=-1) == 1).all(axis=(0, 1, 2))
    breaks = [c for c in range(1, channels) if not follows[c - 1] or c % line_bytes == 0]
    return [0, *breaks, channels]


Found = tuple[int, Place, tuple[Level, ...]]


def _regular(part: Integers, levels: list[tuple[int, int]], origin: Place) -> Iterator[Found]:
    """`part` [count of each level...] as sub-arrays whose values rise by one step a level.

    `levels` says of each dimension which axis it runs along and how many rows it steps.
    """
    part, levels = _factored(part, levels)
    strides = [_stride(part, d) for d in range(part.ndim)]
    if None not in strides:
        found = [
            Level(axis, step, size, stride or 0)
            for (axis, step), size, stride in zip(levels, part.shape, strides, strict=True)
        ]
        yield int(part.flat[0]), origin, tuple(found[::-1])
        return
    cuts = {d: _runs(part, d) for d in range(part.ndim) if part.shape[d] > 1}
    split = min((d for d in cuts if len(cuts[d]) > 1), key=lambda d: (len(cuts[d]), d))
    axis, step = levels[split]
    for first, end in cuts[split]:
        moved = list(origin)
        moved[axis] += first * step
        inner = np.take(part, range(first, end), axis=split)
        yield from _regular(inner, levels, (moved[0], moved[1], moved[2], moved[3]))


def _stride(part: Integers, dimension: int) -> int | None:
    """The one difference along a dimension; None when there is none, or the source changes."""
    if part.shape[dimension] == 1:
        return 0
    steps = np.diff(part, axis=dimension)
    first = int(steps.flat[0])
    return first if abs(first) < 1 << 31 and bool((steps == first).all()) else None


def _factored(
    part: Integers, levels: list[tuple[int, int]]
) -> tuple[Integers, list[tuple[int, int]]]:
    """Dimensions split in two where runs of one length, or a period, repeat all along."""
    dimension = 0
    while dimension < part.ndim:
        size = part.shape[dimension]
        inner = 0 if _stride(part, dimension) is not None else _period(part, dimension)
        if inner:
            shape = (*part.shape[:dimension], size // inner, inner, *part.shape[dimension + 1 :])
            part = part.reshape(shape)
            axis, step = levels[dimension]
            levels = [
                *levels[:dimension],
                (axis, step * inner),
                (axis, step),
                *levels[dimension + 1 :],
            ]
        dimension += 1
    return part, levels


def _period(part: Integers, dimension: int) -> int:
    """A length p that divides the size, such that values p apart differ by one step; or 0."""
    size = part.shape[dimension]
    first = _runs(part, dimension)[0][1]
    candidates = [first, *range(2, _MOST_PERIOD + 1)]
    for period in candidates:
        if 1 < period < size and size % period == 0:
            lead = np.take(part, range(size - period), axis=dimension)
            lag = np.take(part, range(period, size), axis=dimension)
            steps = lag - lead
            if abs(int(steps.flat[0])) < 1 << 31 and bool((steps == steps.flat[0]).all()):
                return period
    return 0


def _runs(part: Integers, dimension: int) -> list[tuple[int, int]]:
    """[first, end) of slices that follow each other by one step."""
    moved = np.moveaxis(part, dimension, 0).reshape(part.shape[dimension], -1)
    steps = np.diff(moved, axis=0)
    even = (steps == steps[:, :1]).all(axis=1) & (np.abs(steps[:, 0]) < 1 << 31)
    values = [int(s) if ok else None for s, ok in zip(steps[:, 0], even, strict=True)]
    runs: list[tuple[int, int]] = []
    first = 0
    while first < moved.shape[0]:
        end = first + 1
        step = values[first] if first < len(values) else None
        while step is not None and end < moved.shape[0] and values[end - 1] == step:
            end += 1
        runs.append((first, end))
        first = end
    return runs
