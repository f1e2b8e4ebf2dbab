"""The instructions of a box on the vector unit: its parts times the pieces of a row, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import LayerPlan, split_box
from ridgeline.ir import Node
from ridgeline.machine.code import Code, Integers, columns
from ridgeline.machine.instructions import Elementwise, Instruction, LoadParams
from ridgeline.machine.instructions.vector import format_code
from ridgeline.ops.stored import output_bounds, scalars_of

Fields = dict[str, Any]
"""Operands by name: numbers, or columns [instructions]."""

PARTS = 4
"""A box is worked through in about this many parts, so that the units after need not wait."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Parts of a box times pieces of a row, part after part, as columns [instructions].

    Where a part begins, its rows along each axis, and the number of its piece (a block, or for
    channels that move what `pieces` lists).
    """

    n: Integers
    y: Integers
    x: Integers
    images: Integers
    lines: Integers
    columns: Integers
    piece: Integers

    @staticmethod
    def of(box: Box, pieces: int) -> Grid:
        """The parts of a box, each of whose rows has so many pieces."""
        images, rows, columns = box.sizes
        least = columns if images == 1 else rows * columns
        parts = split_box(box, max(least, -(-box.rows // PARTS)))
        table = np.asarray([(b.n0, b.y0, b.x0, *b.sizes) for b in parts], np.int64)
        piece = np.tile(np.arange(pieces), len(parts))
        n, y, x, images, lines, columns = np.repeat(table, pieces, axis=0).T
        return Grid(n, y, x, images, lines, columns, piece)

    def moved(self, n: int, y: int, x: int) -> Grid:
        """The same parts so much further on."""
        return replace(self, n=self.n + n, y=self.y + y, x=self.x + x)

    def __len__(self) -> int:
        return len(self.piece)


def put(
    builder: Builder,
    plan: LayerPlan,
    kind: type[Instruction],
    grid: Grid,
    fields: Fields,
    then: Fields | None = None,
) -> None:
    """Append an instruction for each line of the grid; each followed by the Elementwise `then`."""
    count = len(grid)
    loads, loaded = np.zeros((0, 0), np.int64), np.zeros(count, np.bool_)
    if plan.params_addresses:
        addresses = np.asarray(plan.params_addresses)[grid.piece]
        slot, loaded = builder.params(addresses)
        fields = fields | {"slot": slot}
        loads = columns(
            LoadParams,
            int(loaded.sum()),
            slot=slot[loaded],
            device_address=addresses[loaded],
            count=fields["channels"][loaded],
        )
    tables = {LoadParams.opcode: loads, kind.opcode: columns(kind, count, **fields)}
    places = {LoadParams.opcode: 3 * np.flatnonzero(loaded), kind.opcode: 3 * np.arange(count) + 1}
    if then is not None:
        tables[Elementwise.opcode] = columns(Elementwise, count, **then)
        places[Elementwise.opcode] = 3 * np.arange(count) + 2
    builder.add_block(Code.of_layer(plan.index, tables, places))


def output_fields(plan: LayerPlan, grid: Grid, target: Region, block: Integers) -> Fields:
    """What every vector instruction says of its output; `block` [instructions]: of each row."""
    node, layout = plan.node, target.layout
    low, high = _bounds(node)
    return {
        "out_format": format_code(layout.format),
        "out_line": target.address(grid.n, grid.y, grid.x, block),
        "out_stride_0": target.stride_x,
        "out_stride_1": target.stride_y,
        "out_stride_2": target.stride_n,
        "out_zero_point": scalars_of(node.output, node).zero_point,
        "low": low,
        "high": high,
        "channels": np.minimum(layout.line_bytes, layout.c - block * layout.line_bytes),
        "count_0": grid.columns,
        "count_1": grid.lines,
        "count_2": grid.images,
    }


def _bounds(node: Node) -> tuple[int, int]:
    """Lowest and highest stored output; a Clip's own limits count like a fused clip."""
    if node.op != "Clip":
        return output_bounds(node)
    limits = (node.attrs.get("min"), node.attrs.get("max"))
    return output_bounds(replace(node, attrs={**node.attrs, "clip": limits}))


def source_fields(region: Region, prefix: str, grid: Grid, block: Integers) -> Fields:
    """A region walked beside the output; broadcast dimensions stand still."""
    layout = region.layout
    n = grid.n if layout.n > 1 else 0
    y = grid.y if layout.h > 1 else 0
    x = grid.x if layout.w > 1 else 0
    return {
        f"{prefix}line": region.address(n, y, x, block),
        f"{prefix}stride_0": region.stride_x if layout.w > 1 else 0,
        f"{prefix}stride_1": region.stride_y if layout.h > 1 else 0,
        f"{prefix}stride_2": region.stride_n if layout.n > 1 else 0,
    }
