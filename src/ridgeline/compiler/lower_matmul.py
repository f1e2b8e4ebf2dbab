"""The matmul template: convolution windows read in place, sums over k in the accumulators."""

from __future__ import annotations

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import ColumnTile, LayerPlan, WeightTile, split_box
from ridgeline.ir import Node
from ridgeline.machine.dataflow import DATAFLOW_RULES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import MatMul, Requant
from ridgeline.machine.instructions.vector import format_code
from ridgeline.numerics.formats import INT8
from ridgeline.ops.stored import output_bounds, quant_of, scalars_of


def most_rows(machine: Machine) -> int:
    """Rows of one MatMul: what the dataflow takes, and half the accumulators at most."""
    array = machine.array
    return min(DATAFLOW_RULES[array.dataflow].most_m(array), array.accumulator_entries // 2)


def lower_matmul(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, rows: int
) -> None:
    """Emit one output box: for each column tile and part of `rows` rows, products, then Requant."""
    reverse = False
    for column in plan.columns:
        slot = builder.params(column.params_address, column.n, plan.index)
        for part in split_box(box, rows):
            _products_and_requant(builder, plan, column, part, source, target, slot, reverse)
            reverse = not reverse


def _products_and_requant(
    builder: Builder,
    plan: LayerPlan,
    column: ColumnTile,
    part: Box,
    source: Region,
    target: Region,
    params: int,
    reverse: bool,
) -> None:
    node = plan.node
    weights = node.input(1)
    signed = weights.type.dtype is INT8
    zero_point = int(quant_of(weights, node).zero_point.reshape(-1)[0])
    entry = builder.entries(part.rows)
    # Every second part backwards along k, so that the tiles still in their slots come first.
    tiles = column.tiles[::-1] if reverse else column.tiles
    held = -1
    for number, tile in enumerate(tiles):
        slot = builder.weights(tile, signed, zero_point, plan.index)
        builder.add(
            _matmul(
                plan,
                node,
                tile,
                part,
                source,
                slot,
                entry,
                accumulate=number > 0,
                last=number == len(tiles) - 1,
                keep=slot == held,
            )
        )
        held = slot
    _requant(builder, plan, column, part, target, entry, params)


def _matmul(
    plan: LayerPlan,
    node: Node,
    tile: WeightTile,
    part: Box,
    source: Region,
    slot: int,
    entry: int,
    *,
    accumulate: bool,
    last: bool,
    keep: bool,
) -> MatMul:
    window, layout = plan.window, source.layout
    images, rows, columns = part.sizes
    y = part.y0 * window.stride[0] - window.pad[0] + tile.tap_y * window.dilation[0]
    x = part.x0 * window.stride[1] - window.pad[1] + tile.tap_x * window.dilation[1]
    return MatMul(
        layer=plan.index,
        format=format_code(layout.format),
        zero_point=scalars_of(node.input(0), node).zero_point,
        line=source.address(part.n0, y, x, tile.block),
        lane=tile.lane,
        count_0=columns,
        count_1=rows,
        count_2=images,
        stride_0=window.stride[1] * source.stride_x,
        stride_1=window.stride[0] * source.stride_y,
        stride_2=source.stride_n,
        x_origin=x,
        x_step=window.stride[1],
        x_limit=layout.w,
        y_origin=y,
        y_step=window.stride[0],
        y_limit=layout.h,
        k=tile.k,
        n=tile.n,
        weights=0 if tile.weights == tile.k * tile.n else tile.weights,
        slot=slot,
        keep_weights=int(keep),
        entry=entry,
        accumulate=int(accumulate),
        last=int(last),
    )


def _requant(
    builder: Builder,
    plan: LayerPlan,
    column: ColumnTile,
    part: Box,
    target: Region,
    entry: int,
    params: int,
) -> None:
    node = plan.node
    images, rows, columns = part.sizes
    block, lane = divmod(column.first, target.layout.line_bytes)
    low, high = output_bounds(node)
    builder.add(
        Requant(
            layer=plan.index,
            entry=entry,
            count_0=columns,
            count_1=rows,
            count_2=images,
            slot=params,
            channels=column.n,
            out_format=format_code(target.layout.format),
            out_line=target.address(part.n0, part.y0, part.x0, block),
            out_lane=lane,
            out_stride_0=target.stride_x,
            out_stride_1=target.stride_y,
            out_stride_2=target.stride_n,
            out_zero_point=scalars_of(node.output, node).zero_point,
            low=low,
            high=high,
        )
    )
