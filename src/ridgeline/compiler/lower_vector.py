"""The vector template: pooling, depthwise, elementwise and concat, all on chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import LayerPlan, split_box
from ridgeline.ir import Node, Value
from ridgeline.machine.code import Code, Integers, columns
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    LoadParams,
    Lookup,
    RealElementwise,
    WindowReduce,
)
from ridgeline.machine.instructions.real import MAXIMUM, MINIMUM, SLOPE, SUBTRACT
from ridgeline.machine.instructions.vector import (
    ADD,
    DEPTHWISE,
    FLOAT_AVERAGE,
    MAX,
    MUL,
    RESCALE,
    SUM_AVERAGE,
    format_code,
)
from ridgeline.numerics.formats import INT8
from ridgeline.numerics.qlinear import repeats_innermost
from ridgeline.numerics.rounding import fused_multiply_add
from ridgeline.ops.stored import (
    output_bounds,
    quant_of,
    same_quantisation,
    scalars_of,
)

Fields = dict[str, Any]
"""Operands by name: numbers, or columns [instructions]."""

PARTS = 4
"""A box is worked through in about this many parts, so that the units after need not wait."""


@dataclass(frozen=True, slots=True)
class _Grid:
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
    def of(box: Box, pieces: int) -> _Grid:
        images, rows, columns = box.sizes
        least = columns if images == 1 else rows * columns
        parts = split_box(box, max(least, -(-box.rows // PARTS)))
        table = np.asarray([(b.n0, b.y0, b.x0, *b.sizes) for b in parts], np.int64)
        piece = np.tile(np.arange(pieces), len(parts))
        return _Grid(*np.repeat(table, pieces, axis=0).T, piece)

    def moved(self, n: int, y: int, x: int) -> _Grid:
        """The same parts so much further on."""
        return replace(self, n=self.n + n, y=self.y + y, x=self.x + x)

    def __len__(self) -> int:
        return len(self.piece)


def _put(
    builder: Builder,
    plan: LayerPlan,
    kind: type[Instruction],
    grid: _Grid,
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


def _output_fields(plan: LayerPlan, grid: _Grid, target: Region, block: Integers) -> Fields:
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


def lower_window(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, table_line: int
) -> None:
    """Emit one output box of a pooling or depthwise layer, block by block."""
    grid = _Grid.of(box, target.layout.blocks)
    fields = _output_fields(plan, grid, target, grid.piece) | _walk(plan, grid, source)
    fields |= _window_operation(plan)
    if plan.params_addresses:
        taps = plan.window.kernel[0] * plan.window.kernel[1]
        fields["weight_line"] = table_line + grid.piece * taps
    then = None
    if plan.node.op == "MaxPool" and not same_quantisation(plan.node.input(0), plan.node.output):
        # The largest stored value first, then the table's arithmetic on it, in place.
        then = _rescale_in_place(plan, grid, target)
        dtype = plan.node.input(0).type.dtype
        fields |= {"out_format": fields["format"], "low": dtype.low, "high": dtype.high}
    _put(builder, plan, WindowReduce, grid, fields, then)


def _rescale_in_place(plan: LayerPlan, grid: _Grid, target: Region) -> Fields:
    fields = _output_fields(plan, grid, target, grid.piece)
    fields |= _rescale(plan.node.input(0), plan.node)
    fields |= _source_fields(target, "a_", grid, grid.piece)
    fields["format"] = format_code(plan.inputs[0].layout.format)
    return fields


def _walk(plan: LayerPlan, grid: _Grid, source: Region) -> Fields:
    window, layout = plan.window, source.layout
    y = grid.y * window.stride[0] - window.pad[0]
    x = grid.x * window.stride[1] - window.pad[1]
    return {
        "format": format_code(layout.format),
        "zero_point": scalars_of(plan.node.input(0), plan.node).zero_point,
        "line": source.address(grid.n, y, x, grid.piece),
        "stride_0": window.stride[1] * source.stride_x,
        "stride_1": window.stride[0] * source.stride_y,
        "stride_2": source.stride_n,
        "x_origin": x,
        "x_step": window.stride[1],
        "x_limit": layout.w,
        "y_origin": y,
        "y_step": window.stride[0],
        "y_limit": layout.h,
        "taps_0": window.kernel[1],
        "taps_1": window.kernel[0],
        "tap_stride_0": window.dilation[1] * source.stride_x,
        "tap_stride_1": window.dilation[0] * source.stride_y,
        "tap_step_0": window.dilation[1],
        "tap_step_1": window.dilation[0],
    }


def _window_operation(plan: LayerPlan) -> dict[str, Any]:
    node, layout = plan.node, plan.inputs[0].layout
    if node.op == "Conv":
        weights = node.input(1)
        zero = int(quant_of(weights, node).zero_point.reshape(-1)[0])
        signed = int(weights.type.dtype is INT8)
        return {"operation": DEPTHWISE, "weight_signed": signed, "weight_zero_point": zero}
    if node.op == "MaxPool":
        return {"operation": MAX}
    source, output = scalars_of(node.input(0), node), scalars_of(node.output, node)
    whole = plan.window.kernel == (layout.h, layout.w) and not any(node.attrs.get("pads") or ())
    if node.op == "GlobalAveragePool" or (whole and layout.planes == 1):
        count = np.float32(layout.h * layout.w)
        scale = np.float32(source.scale / np.float32(output.scale * count))
        return {"operation": SUM_AVERAGE, "scale_a": float(scale)}
    return {
        "operation": FLOAT_AVERAGE,
        "scale_a": float(source.scale),
        "scale_b": float(output.scale),
        "count_outside": int(bool(node.attrs.get("count_include_pad"))),
    }


def _source_fields(region: Region, prefix: str, grid: _Grid, block: Integers) -> Fields:
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


def lower_elementwise(
    builder: Builder, plan: LayerPlan, box: Box, sources: tuple[Region, ...], target: Region
) -> None:
    """Emit one output box of Add, Mul or Clip, block by block."""
    node = plan.node
    walks = list(sources)
    constants = _binary_constants(node) if len(walks) == 2 else _rescale(node.input(0), node)
    if constants.pop("exchanged", False):
        walks.reverse()
    grid = _Grid.of(box, target.layout.blocks)
    fields = _output_fields(plan, grid, target, grid.piece) | constants
    fields["format"] = format_code(sources[0].layout.format)
    for prefix, walk in zip(("a_", "b_"), walks, strict=False):
        fields |= _source_fields(walk, prefix, grid, grid.piece)
    _put(builder, plan, Elementwise, grid, fields)


def lower_lookup(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, table_line: int
) -> None:
    """Emit one output box of a Lookup, block by block."""
    grid = _Grid.of(box, target.layout.blocks)
    fields = _output_fields(plan, grid, target, grid.piece)
    fields |= _source_fields(source, "", grid, grid.piece)
    fields |= {"format": format_code(source.layout.format), "table_line": table_line}
    _put(builder, plan, Lookup, grid, fields)


REAL_OPERATIONS = {"PRelu": SLOPE, "Sub": SUBTRACT, "Max": MAXIMUM, "Min": MINIMUM}


def lower_real(
    builder: Builder, plan: LayerPlan, box: Box, sources: tuple[Region, ...], target: Region
) -> None:
    """Emit one output box of what is computed on real numbers, block by block."""
    node = plan.node
    constants: dict[str, Any] = {"operation": REAL_OPERATIONS[node.op]}
    for prefix, index in zip("ab", range(len(sources)), strict=False):
        stored = scalars_of(node.input(index), node)
        constants[f"scale_{prefix}"] = float(stored.scale)
        constants[f"zero_{prefix}"] = stored.zero_point
    constants["scale"] = float(scalars_of(node.output, node).scale)
    grid = _Grid.of(box, target.layout.blocks)
    fields = _output_fields(plan, grid, target, grid.piece) | constants
    fields["format"] = format_code(sources[0].layout.format)
    for prefix, region in zip(("a_", "b_"), sources, strict=False):
        fields |= _source_fields(region, prefix, grid, grid.piece)
    _put(builder, plan, RealElementwise, grid, fields)


def _binary_constants(node: Node) -> dict[str, Any]:
    """Float constants of Add and Mul, worked out once as docs/numerics.md has them."""
    a, b = (scalars_of(node.input(i), node) for i in (0, 1))
    output = scalars_of(node.output, node)
    if node.op == "Mul":
        ratio = np.float32(np.float32(a.scale * b.scale) / output.scale)
        return {
            "operation": MUL,
            "zero_a": a.zero_point,
            "zero_b": b.zero_point,
            "scale_a": float(ratio),
            "offset": float(output.zero_point),
        }
    exchanged = repeats_innermost(node.input(0).type.shape, node.input(1).type.shape)
    if exchanged:
        a, b = b, a
    ratio_a, ratio_b = np.float32(a.scale / output.scale), np.float32(b.scale / output.scale)
    zero_b = np.float32(ratio_b * np.float32(b.zero_point))
    zeros = fused_multiply_add(ratio_a, np.float32(a.zero_point), zero_b)
    fixed = np.float32(output.zero_point) - zeros
    return {
        "operation": ADD,
        "scale_a": float(ratio_a),
        "scale_b": float(ratio_b),
        "offset": float(fixed),
        "exchanged": exchanged,
    }


def _rescale(value: Value, node: Node) -> dict[str, Any]:
    source, output = scalars_of(value, node), scalars_of(node.output, node)
    return {
        "operation": RESCALE,
        "zero_a": source.zero_point,
        "scale_a": float(source.scale),
        "scale_b": float(output.scale),
    }


def _copy(value: Value, node: Node) -> dict[str, Any]:
    """A rescale that changes nothing: scales of 1 and the zero point taken off and put back."""
    if not same_quantisation(value, node.output):
        return _rescale(value, node)
    zero = scalars_of(value, node).zero_point
    return {"operation": RESCALE, "zero_a": zero, "scale_a": 1.0, "scale_b": 1.0}


def lower_concat(
    builder: Builder, plan: LayerPlan, box: Box, sources: tuple[Region, ...], target: Region
) -> None:
    """Emit one output box of a Concat: each input's rows, or channels, to their place."""
    node = plan.node
    axis = int(node.attrs["axis"])
    offset = 0
    for number, source in enumerate(sources):
        value = node.input(number)
        if axis == target.layout.channel_axis:
            _copy_channels(builder, plan, box, value, source, target, offset)
        else:
            _copy_rows(builder, plan, value, source, target, offset, axis)
        offset += value.type.shape[axis]


def _copy_channels(
    builder: Builder,
    plan: LayerPlan,
    box: Box,
    value: Value,
    source: Region,
    target: Region,
    offset: int,
) -> None:
    """Channels [0, c) of a source to channels [offset, offset + c), in pieces within lines."""
    line, channel = source.layout.line_bytes, 0
    pieces: list[tuple[int, int, int, int, int]] = []
    while channel < source.layout.c:
        block, lane = divmod(channel, line)
        out_block, out_lane = divmod(offset + channel, line)
        width = min(line - lane, line - out_lane, source.layout.c - channel)
        pieces.append((block, lane, out_block, out_lane, width))
        channel += width
    grid = _Grid.of(box, len(pieces))
    block, lane, out_block, out_lane, width = np.asarray(pieces, np.int64)[grid.piece].T
    fields = _output_fields(plan, grid, target, out_block) | _copy(value, plan.node)
    fields |= _source_fields(source, "a_", grid, block)
    fields |= {"lane": lane, "out_lane": out_lane, "channels": width}
    fields["format"] = format_code(source.layout.format)
    _put(builder, plan, Elementwise, grid, fields)


def _copy_rows(
    builder: Builder,
    plan: LayerPlan,
    value: Value,
    source: Region,
    target: Region,
    offset: int,
    axis: int,
) -> None:
    """All rows of a source to their place along a row dimension."""
    rest = [i for i in range(len(value.type.shape)) if i != target.layout.channel_axis]
    place = rest.index(axis)
    shift_n = offset if place == 0 else 0
    shift_x = offset if place == len(rest) - 1 and place else 0
    shift_y = offset if len(rest) == 3 and place == 1 else 0
    grid = _Grid.of(source.layout.box, source.layout.blocks)
    moved = grid.moved(shift_n, shift_y, shift_x)
    fields = _output_fields(plan, moved, target, grid.piece) | _copy(value, plan.node)
    fields |= _source_fields(source, "a_", grid, grid.piece)
    fields["format"] = format_code(source.layout.format)
    _put(builder, plan, Elementwise, grid, fields)
