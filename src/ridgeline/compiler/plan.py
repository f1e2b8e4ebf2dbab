"""The compiler's middle form: layers with geometry, tiles and regions, before instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Literal

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Box, Gather, Layout, Region
from ridgeline.ir import Node, Value

Kind = Literal["matmul", "window", "elementwise", "concat", "move", "alias"]


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, dilation and leading padding along y and x; the same window for each box."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)

    def input_box(self, box: Box, layout: Layout) -> Box:
        """Input rows that an output box takes, clipped to the tensor; never empty.

        Boxes beside each other take boxes beside each other even where a stride above the kernel
        skips rows between: so larger tiles never move more bytes than smaller ones.
        """
        y0, y1 = self._span(box.y0, box.y1, 0, layout.h)
        x0, x1 = self._span(box.x0, box.x1, 1, layout.w)
        return Box(box.n0, box.n1, y0, y1, x0, x1)

    def _span(self, first: int, end: int, axis: int, limit: int) -> tuple[int, int]:
        start = first * self.stride[axis] - self.pad[axis]
        reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        stop = (end - 1) * self.stride[axis] - self.pad[axis] + max(reach, self.stride[axis])
        low = min(max(start, 0), limit - 1)
        return low, max(min(stop, limit), low + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A value that a layer reads in rows: the value whose bytes hold it, and their layout.

    `constant` operands are loaded from `address` in the constants. A dimension that is broadcast
    has size 1 in the layout. With `gather` the rows are windows of the value.
    """

    root: Value
    layout: Layout
    constant: bool = False
    address: int = 0
    gather: Gather | None = None

    def broadcast_box(self, box: Box) -> Box:
        """The box clipped to size-1 dimensions where the operand is broadcast."""
        n = (box.n0, box.n1) if self.layout.n > 1 else (0, 1)
        y = (box.y0, box.y1) if self.layout.h > 1 else (0, 1)
        x = (box.x0, box.x1) if self.layout.w > 1 else (0, 1)
        return Box(*n, *y, *x)


@dataclass(frozen=True, slots=True)
class WeightTile:
    """One k x n tile in the constants, and which vectors of a window it multiplies.

    Memory holds `width` bytes of each row: all n, or the block that the row has of a block-diagonal
    tile (`block_rows`, `block_row` and `column` as in LoadWeights).
    """

    address: int
    k: int
    n: int
    width: int
    tap_y: int
    tap_x: int
    block: int
    lane: int
    weights: int
    block_rows: int = 0
    block_row: int = 0
    column: int = 0


TILE_FIELDS = (
    *("address", "k", "n", "width", "tap_y", "tap_x", "block", "lane", "weights"),
    *("block_rows", "block_row", "column"),
)


@dataclass(frozen=True)
class ColumnTile:
    """Output channels [first, first + n): their parameters' address and weight tiles along k."""

    first: int
    n: int
    params_address: int
    tiles: tuple[WeightTile, ...]

    @cached_property
    def table(self) -> npt.NDArray[np.int64]:
        """The tiles as columns [TILE_FIELDS, tiles]."""
        return np.asarray([attrgetter(*TILE_FIELDS)(t) for t in self.tiles], np.int64).T


@dataclass(frozen=True, slots=True, eq=False)
class Rearrangement:
    """A layer that Loads make: the place of each of its bytes, as `moves.places` has them.

    `sources` are the values, by number, whose bytes are read; an integer is an address in the
    constants.
    """

    placed: npt.NDArray[np.int64]
    sources: tuple[Value | int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LayerPlan:
    """One layer on the device. `index` is its line in the report."""

    index: int
    node: Node
    kind: Kind
    inputs: tuple[Operand, ...]
    output: Operand
    window: Window = field(default_factory=Window)
    columns: tuple[ColumnTile, ...] = ()
    table_address: int = 0
    table_lines: int = 0
    params_addresses: tuple[int, ...] = ()
    rearrangement: Rearrangement | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Device layers in order, with the values that come from and go to device memory."""

    layers: tuple[LayerPlan, ...]
    entering: frozenset[int]
    """id(root) of values that lie in device memory when the segment starts."""
    leaving: frozenset[int]
    """id(root) of values that must lie in device memory when it ends."""


@dataclass(frozen=True, slots=True)
class Held:
    """A weight tile that lies in the unified buffer before its layer: row r at `line` + r.

    The lines are free once the layers whose index is below `since` have run.
    """

    tile: WeightTile
    line: int
    lane: int
    since: int


@dataclass(frozen=True, slots=True, eq=False)
class TiledLayer:
    """A layer with its output boxes and, for each box, the regions it reads and writes."""

    plan: LayerPlan
    boxes: tuple[Box, ...]
    inputs: tuple[tuple[Region, ...], ...]
    """[box][operand]"""
    outputs: tuple[Region, ...]
    """[box]"""
    loads: tuple[tuple[bool, ...], ...]
    """[box][operand]: the operand's box is loaded from device memory for this box."""
    store: bool
    """Each box of the output is stored to device memory."""
    table_line: int = 0
    parts: int = 1
    """Each box is loaded, made and stored in about this many parts, as `refine` found best."""
    load_parts: int = 8
    """An operand that comes on chip whole does so in about this many: work starts early."""
    store_parts: int = 4
    """A result that is made at once is stored in about this many: the first leave early."""
    rows: int = 0
    """Rows of one MatMul at most, as `choose` found best; 0 until then."""
    held: tuple[Held, ...] = ()
    """Weight tiles that come on chip ahead of the layer."""
    of_strip: tuple[int, ...] = ()
    """Operands that lie on chip for one strip of a run only."""
    brings: tuple[int, ...] = ()
    """Those of them that come from device memory now."""


def split_box(box: Box, most_rows: int) -> Sequence[Box]:
    """Boxes of at most `most_rows` rows that cover `box`: whole images, else rows, else columns."""
    _, rows, columns = box.sizes
    if rows * columns <= most_rows:
        step = max(1, most_rows // (rows * columns))
        return [
            Box(n, min(n + step, box.n1), box.y0, box.y1, box.x0, box.x1)
            for n in range(box.n0, box.n1, step)
        ]
    parts: list[Box] = []
    for n in range(box.n0, box.n1):
        step = most_rows // columns
        if step:
            parts += [
                Box(n, n + 1, y, min(y + step, box.y1), box.x0, box.x1)
                for y in range(box.y0, box.y1, step)
            ]
            continue
        parts += [
            Box(n, n + 1, y, y + 1, x, min(x + most_rows, box.x1))
            for y in range(box.y0, box.y1)
            for x in range(box.x0, box.x1, most_rows)
        ]
    return parts
