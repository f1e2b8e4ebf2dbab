"""The matmul template: convolution windows read in place, sums over k in the accumulators.

A box has thousands of instructions that differ in few operands, so they are made as columns: one
line a MatMul, in the order column tile, part of the box's rows, tile along k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import TILE_FIELDS, ColumnTile, LayerPlan, split_box
from ridgeline.machine.code import Code, Integers, columns
from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import LoadParams, LoadWeights, MatMul, Requant
from ridgeline.machine.instructions.vector import format_code
from ridgeline.numerics.formats import INT8
from ridgeline.ops.stored import output_bounds, quant_of, scalars_of

_TILE_OPERANDS = ("address", "k", "block_rows", "block_row", "column")
"""Operands of LoadWeights that are fields of its tile."""


def most_rows(machine: Machine) -> int:
    """Rows of one MatMul: what the dataflow takes, and half the accumulators at most."""
    array = machine.array
    return min(DATAFLOW_RULES[array.dataflow].most_m(array), array.accumulator_entries // 2)


def lower_matmul(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, rows: int
) -> None:
    """Emit one output box: for each column tile and part of `rows` rows, products, then Requant."""
    work = _Work.of(plan, _Parts.of(split_box(box, rows)))
    node = plan.node
    weights = node.input(1)
    signed = int(weights.type.dtype is INT8)
    zero_point = int(quant_of(weights, node).zero_point.reshape(-1)[0])
    slots, loaded = builder.weights(_wishes(work, signed, zero_point))
    params, params_loaded = builder.params(np.asarray([c.params_address for c in plan.columns]))
    entries = builder.entries(np.tile(work.parts.rows, len(plan.columns)))
    tables = {
        LoadParams.opcode: _load_params(plan.columns, params, params_loaded),
        LoadWeights.opcode: _load_weights(work, slots, loaded, signed, zero_point),
        MatMul.opcode: _matmul(plan, work, source, slots, entries),
        Requant.opcode: _requant(plan, work, target, params, entries),
    }
    builder.add_block(_in_order(plan, work, params_loaded, loaded, tables))


def _wishes(work: _Work, signed: int, zero_point: int) -> Integers:
    """What each MatMul wants in its slot [MatMuls, WEIGHT_KEY]."""
    kind = np.full(len(work.tile), (zero_point << 1) | signed)
    for name, bits in (("block_rows", 10), ("block_row", 10), ("column", 12)):
        kind = (kind << bits) + work.of_tile(name)
    return np.stack([*(work.of_tile(name) for name in ("address", "k", "width")), kind], 1)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of a box, as columns [parts]: where they begin, and their rows along each axis."""

    n: Integers
    y: Integers
    x: Integers
    images: Integers
    lines: Integers
    columns: Integers

    @staticmethod
    def of(boxes: Sequence[Box]) -> _Parts:
        return _Parts(*np.asarray([(b.n0, b.y0, b.x0, *b.sizes) for b in boxes], np.int64).T)

    @property
    def rows(self) -> Integers:
        return self.images * self.lines * self.columns


@dataclass(frozen=True, slots=True)
class _Work:
    """What is multiplied when. A sum is one part of one column tile: `sum` g has part g % parts.

    tile, sum, number [MatMuls]: each MatMul's row of `tiles`, its sum, and its place in that.
    """

    parts: _Parts
    tiles: Integers
    count: Integers
    tile: Integers
    sum: Integers
    number: Integers

    @staticmethod
    def of(plan: LayerPlan, parts: _Parts) -> _Work:
        tiles = np.concatenate([c.table for c in plan.columns], axis=1)
        in_column = np.asarray([len(c.tiles) for c in plan.columns])
        count = np.repeat(in_column, len(parts.n))
        sums = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(sums)) - np.repeat(np.cumsum(count) - count, count)
        # Every second sum backwards along k, so that the tiles still in their slots come first.
        along = np.where(sums % 2 == 1, count[sums] - 1 - number, number)
        first = np.repeat(np.cumsum(in_column) - in_column, len(parts.n))
        return _Work(parts, tiles, count, first[sums] + along, sums, number)

    def of_tile(self, field: str) -> Integers:
        """A field of each MatMul's tile."""
        return self.tiles[TILE_FIELDS.index(field)][self.tile]


def _load_params(
    tiles: Sequence[ColumnTile], slots: Integers, loaded: npt.NDArray[np.bool_]
) -> Integers:
    wanted = [tile for tile, load in zip(tiles, loaded, strict=True) if load]
    return columns(
        LoadParams,
        len(wanted),
        slot=slots[loaded],
        device_address=[t.params_address for t in wanted],
        count=[t.n for t in wanted],
    )


def _load_weights(
    work: _Work, slots: Integers, loaded: npt.NDArray[np.bool_], signed: int, zero_point: int
) -> Integers:
    width = work.of_tile("width")[loaded]
    return columns(
        LoadWeights,
        len(width),
        slot=slots[loaded],
        row_stride=width,
        n=width,
        **{name: work.of_tile(name)[loaded] for name in _TILE_OPERANDS},
        signed=signed,
        zero_point=zero_point,
    )


def _matmul(
    plan: LayerPlan, work: _Work, source: Region, slots: Integers, entries: Integers
) -> Integers:
    node, window, layout = plan.node, plan.window, source.layout
    part = work.sum % len(work.parts.n)
    taps = (work.of_tile("tap_y"), work.of_tile("tap_x"))
    y = (work.parts.y * window.stride[0] - window.pad[0])[part] + taps[0] * window.dilation[0]
    x = (work.parts.x * window.stride[1] - window.pad[1])[part] + taps[1] * window.dilation[1]
    weights, k, n = (work.of_tile(name) for name in ("weights", "k", "n"))
    return columns(
        MatMul,
        len(part),
        format=format_code(layout.format),
        zero_point=scalars_of(node.input(0), node).zero_point,
        line=source.address(work.parts.n[part], y, x, work.of_tile("block")),
        lane=work.of_tile("lane"),
        count_0=work.parts.columns[part],
        count_1=work.parts.lines[part],
        count_2=work.parts.images[part],
        stride_0=window.stride[1] * source.stride_x,
        stride_1=window.stride[0] * source.stride_y,
        stride_2=source.stride_n,
        x_origin=x,
        x_step=window.stride[1],
        x_limit=layout.w,
        y_origin=y,
        y_step=window.stride[0],
        y_limit=layout.h,
        k=k,
        n=n,
        weights=np.where(weights == k * n, 0, weights),
        slot=slots,
        keep_weights=(work.number > 0) & (slots == np.concatenate([slots[:1], slots[:-1]])),
        entry=entries[work.sum],
        accumulate=work.number > 0,
        last=work.number == work.count[work.sum] - 1,
    )


def _requant(
    plan: LayerPlan, work: _Work, target: Region, params: Integers, entries: Integers
) -> Integers:
    node, parts = plan.node, work.parts
    column, part = np.divmod(np.arange(len(entries)), len(parts.n))
    first = np.asarray([c.first for c in plan.columns])[column]
    block, lane = np.divmod(first, target.layout.line_bytes)
    low, high = output_bounds(node)
    return columns(
        Requant,
        len(entries),
        entry=entries,
        count_0=parts.columns[part],
        count_1=parts.lines[part],
        count_2=parts.images[part],
        slot=params[column],
        channels=np.asarray([c.n for c in plan.columns])[column],
        out_format=format_code(target.layout.format),
        out_line=target.address(parts.n[part], parts.y[part], parts.x[part], block),
        out_lane=lane,
        out_stride_0=target.stride_x,
        out_stride_1=target.stride_y,
        out_stride_2=target.stride_n,
        out_zero_point=scalars_of(node.output, node).zero_point,
        low=low,
        high=high,
    )


def _in_order(
    plan: LayerPlan,
    work: _Work,
    params_loaded: npt.NDArray[np.bool_],
    loaded: npt.NDArray[np.bool_],
    tables: dict[int, Integers],
) -> Code:
    """Weights before their MatMul; behind a sum its Requant, before a column's first one its
    parameters: so the weights unit brings what is needed first.
    """
    ends = np.cumsum(work.count)
    places = {
        LoadWeights.opcode: 4 * np.flatnonzero(loaded),
        MatMul.opcode: 4 * np.arange(len(loaded)) + 1,
        LoadParams.opcode: 4 * ends[:: len(work.parts.n)][params_loaded] - 2,
        Requant.opcode: 4 * ends - 1,
    }
    return Code.of_layer(plan.index, tables, places)
