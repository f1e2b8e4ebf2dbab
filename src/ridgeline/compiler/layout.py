"""Where a tensor's elements lie: rows of channels, in lines on chip and densely in device memory.

On chip a row (image, y, x) is `blocks` groups of lines, one per `line_bytes` channels, each of
`planes` lines (int16: low bytes, then high bytes). In device memory rows are dense, as `Packing`
says. Everything else in the compiler speaks of boxes of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import overload

import numpy as np
import numpy.typing as npt

from ridgeline.ir import TensorType
from ridgeline.machine.description import Machine, planes_of
from ridgeline.machine.instructions import Load, Store
from ridgeline.machine.program import Packing

Integers = npt.NDArray[np.int64]
Number = int | Integers
"""A number, or a column of them."""


@dataclass(frozen=True, slots=True)
class Box:
    """Rows [n0, n1) x [y0, y1) x [x0, x1) of a tensor, all channels."""

    n0: int
    n1: int
    y0: int
    y1: int
    x0: int
    x1: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(images, rows, columns)."""
        return (self.n1 - self.n0, self.y1 - self.y0, self.x1 - self.x0)

    @property
    def rows(self) -> int:
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor as rows of channels: `n` images of `h` x `w` rows of `c` channels."""

    n: int
    h: int
    w: int
    c: int
    channel_axis: int
    format: str
    line_bytes: int

    @property
    def planes(self) -> int:
        return planes_of(self.format)

    @property
    def blocks(self) -> int:
        return -(-self.c // self.line_bytes)

    @property
    def row_lines(self) -> int:
        """Unified-buffer lines of one row."""
        return self.blocks * self.planes

    @property
    def row_bytes(self) -> int:
        """Device-memory bytes of one row."""
        return self.c * self.planes

    @property
    def bytes(self) -> int:
        return self.n * self.h * self.w * self.row_bytes

    @property
    def box(self) -> Box:
        """The whole tensor."""
        return Box(0, self.n, 0, self.h, 0, self.w)

    @property
    def packing(self) -> Packing:
        return Packing(self.channel_axis, self.planes, self.line_bytes)

    def block_channels(self, block: int) -> int:
        """Channels of one block: a whole line but for the last."""
        return min(self.line_bytes, self.c - block * self.line_bytes)


def layout_of(type: TensorType, channel_axis: int, machine: Machine) -> Layout:
    """The layout of a quantised tensor whose channels lie along `channel_axis`."""
    rest = [d for i, d in enumerate(type.shape) if i != channel_axis]
    if len(rest) > 3:
        rest = [prod(rest[:-2]), *rest[-2:]]
    n = rest[0] if rest else 1
    w = rest[-1] if len(rest) > 1 else 1
    h = rest[1] if len(rest) > 2 else 1
    name = "int16" if type.dtype.bits == 16 else type.dtype.name
    return Layout(
        n, h, w, type.shape[channel_axis], channel_axis, name, machine.unified_buffer.line_bytes
    )


@dataclass(frozen=True, slots=True)
class Region:
    """Lines that hold a box of a tensor: row (n, y, x) of the box from `line` on, row by row."""

    layout: Layout
    box: Box
    line: int

    @property
    def stride_x(self) -> int:
        return self.layout.row_lines

    @property
    def stride_y(self) -> int:
        return self.stride_x * (self.box.x1 - self.box.x0)

    @property
    def stride_n(self) -> int:
        return self.stride_y * (self.box.y1 - self.box.y0)

    @property
    def lines(self) -> int:
        return self.box.rows * self.layout.row_lines

    @overload
    def address(self, n: int, y: int, x: int, block: int = 0) -> int: ...

    @overload
    def address(self, n: Number, y: Number, x: Number, block: Integers) -> Integers: ...

    def address(self, n: Number, y: Number, x: Number, block: Number = 0) -> Number:
        """Line of a row's block, which may lie outside the box (a window's padding)."""
        b = self.box
        offset = (
            (n - b.n0) * self.stride_n + (y - b.y0) * self.stride_y + (x - b.x0) * self.stride_x
        )
        return self.line + offset + block * self.layout.planes


@dataclass(frozen=True, slots=True)
class Gather:
    """Windows of a narrow tensor, gathered into lines as they are loaded.

    A line holds `count` pieces of `piece_bytes`, which lie `piece_stride_bytes` apart in device
    memory; windows lie `x_bytes`, `y_bytes` and `image_bytes` apart.
    """

    piece_bytes: int
    count: int
    piece_stride_bytes: int
    x_bytes: int
    y_bytes: int
    image_bytes: int


@dataclass(frozen=True, slots=True)
class _Level:
    count: int
    device_stride: int
    line_stride: int


def transfer(
    kind: type[Load] | type[Store], region: Region, box: Box, device_address: int, layer: int
) -> Iterator[Load | Store]:
    """Instructions that move `box` between a dense tensor at `device_address` and a region."""
    layout = region.layout
    full = layout.c // layout.line_bytes
    partial = layout.c % layout.line_bytes
    groups: list[tuple[int, int, int]] = []  # first block, blocks, bytes of each
    if full:
        groups.append((0, full, layout.line_bytes))
    if partial:
        groups.append((full, 1, partial))
    for first, blocks, element in groups:
        for plane in range(layout.planes):
            yield from _transfer_group(
                kind, region, box, device_address, layer, first, blocks, element, plane
            )


def _transfer_group(
    kind: type[Load] | type[Store],
    region: Region,
    box: Box,
    device_address: int,
    layer: int,
    first: int,
    blocks: int,
    element: int,
    plane: int,
) -> Iterator[Load | Store]:
    layout = region.layout
    images, rows, columns = box.sizes
    row, width, height = layout.row_bytes, layout.w, layout.h
    levels = [
        _Level(blocks, layout.line_bytes * layout.planes, layout.planes),
        _Level(columns, row, region.stride_x),
        _Level(rows, row * width, region.stride_y),
        _Level(images, row * width * height, region.stride_n),
    ]
    start = ((box.n0 * height + box.y0) * width + box.x0) * row
    device = device_address + start + first * layout.line_bytes * layout.planes + plane * element
    line = region.address(box.n0, box.y0, box.x0, first) + plane
    yield from _emit_levels(kind, _merged(levels), device, line, element, layer)


def gathered(
    gather: Gather, region: Region, box: Box, device_address: int, layer: int
) -> Iterator[Load | Store]:
    """Loads that gather the windows of `box` into the lines of a region, piece by piece."""
    images, rows, columns = box.sizes
    levels = [
        _Level(columns, gather.x_bytes, region.stride_x),
        _Level(rows, gather.y_bytes, region.stride_y),
        _Level(images, gather.image_bytes, region.stride_n),
    ]
    start = box.n0 * gather.image_bytes + box.y0 * gather.y_bytes + box.x0 * gather.x_bytes
    line = region.address(box.n0, box.y0, box.x0)
    for piece in range(gather.count):
        device = device_address + start + piece * gather.piece_stride_bytes
        lane = piece * gather.piece_bytes
        yield from _emit_levels(
            Load, _merged(levels), device, line, gather.piece_bytes, layer, lane
        )


def strided(
    levels: Sequence[tuple[int, int, int]],
    device: int,
    line: int,
    element: int,
    lane: int,
    layer: int,
) -> Iterator[Load | Store]:
    """Loads of elements over `levels` of (count, bytes apart, lines apart), innermost first."""
    merged = _merged([_Level(*level) for level in levels])
    return _emit_levels(Load, merged, device, line, element, layer, lane)


def _merged(levels: list[_Level]) -> list[_Level]:
    """The same walk with levels of one repeat dropped and contiguous neighbours joined."""
    result: list[_Level] = []
    for level in levels:
        if level.count == 1:
            continue
        if result:
            inner = result[-1]
            joins = (
                level.device_stride == inner.count * inner.device_stride
                and level.line_stride == inner.count * inner.line_stride
            )
            if joins and (len(result) == 1 or inner.count * level.count < 1 << 16):
                count = inner.count * level.count
                result[-1] = _Level(count, inner.device_stride, inner.line_stride)
                continue
        result.append(level)
    return result


def _emit_levels(
    kind: type[Load] | type[Store],
    levels: list[_Level],
    device: int,
    line: int,
    element: int,
    layer: int,
    lane: int = 0,
) -> Iterator[Load | Store]:
    inner, outer = levels[:3], levels[3:]
    padded = inner + [_Level(1, 0, 0)] * (3 - len(inner))
    for indices in product(*(range(level.count) for level in outer)):
        moved = list(zip(indices, outer, strict=True))
        yield kind(
            layer=layer,
            device_address=device + sum(i * level.device_stride for i, level in moved),
            line=line + sum(i * level.line_stride for i, level in moved),
            lane=lane,
            element_bytes=element,
            count_0=padded[0].count,
            count_1=padded[1].count,
            count_2=padded[2].count,
            device_stride_0=padded[0].device_stride,
            device_stride_1=padded[1].device_stride,
            device_stride_2=padded[2].device_stride,
            line_stride_0=padded[0].line_stride,
            line_stride_1=padded[1].line_stride,
            line_stride_2=padded[2].line_stride,
        )
