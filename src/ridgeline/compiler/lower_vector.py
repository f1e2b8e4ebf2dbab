"""The vector template: pooling, depthwise, elementwise and concat, all on chip."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.grid import Fields, Grid, output_fields, put, source_fields
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import LayerPlan
from ridgeline.ir import Node, Value
from ridgeline.machine.instructions import (
    Elementwise,
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
from ridgeline.numerics.qlinear import add_constants, repeats_innermost
from ridgeline.numerics.rescale import one_scale
from ridgeline.ops.stored import (
    quant_of,
    same_quantisation,
    scalars_of,
)


def lower_window(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, table_line: int
) -> None:
    """Emit one output box of a pooling or depthwise layer, block by block."""
    grid = Grid.of(box, target.layout.blocks)
    fields = output_fields(plan, grid, target, grid.piece) | _walk(plan, grid, source)
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
    put(builder, plan, WindowReduce, grid, fields, then)


def _rescale_in_place(plan: LayerPlan, grid: Grid, target: Region) -> Fields:
    fields = output_fields(plan, grid, target, grid.piece)
    fields |= _rescale(plan.node.input(0), plan.node)
    fields |= source_fields(target, "a_", grid, grid.piece)
    fields["format"] = format_code(plan.inputs[0].layout.format)
    return fields


def _walk(plan: LayerPlan, grid: Grid, source: Region) -> Fields:
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


def lower_elementwise(
    builder: Builder, plan: LayerPlan, box: Box, sources: tuple[Region, ...], target: Region
) -> None:
    """Emit one output box of Add, Mul or Clip, block by block."""
    node = plan.node
    walks = list(sources)
    constants = _binary_constants(node) if len(walks) == 2 else _rescale(node.input(0), node)
    if constants.pop("exchanged", False):
        walks.reverse()
    grid = Grid.of(box, target.layout.blocks)
    fields = output_fields(plan, grid, target, grid.piece) | constants
    fields["format"] = format_code(sources[0].layout.format)
    for prefix, walk in zip(("a_", "b_"), walks, strict=False):
        fields |= source_fields(walk, prefix, grid, grid.piece)
    put(builder, plan, Elementwise, grid, fields)


def lower_lookup(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, table_line: int
) -> None:
    """Emit one output box of a Lookup, block by block."""
    grid = Grid.of(box, target.layout.blocks)
    fields = output_fields(plan, grid, target, grid.piece)
    fields |= source_fields(source, "", grid, grid.piece)
    fields |= {"format": format_code(source.layout.format), "table_line": table_line}
    put(builder, plan, Lookup, grid, fields)


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
    grid = Grid.of(box, target.layout.blocks)
    fields = output_fields(plan, grid, target, grid.piece) | constants
    fields["format"] = format_code(sources[0].layout.format)
    for prefix, region in zip(("a_", "b_"), sources, strict=False):
        fields |= source_fields(region, prefix, grid, grid.piece)
    put(builder, plan, RealElementwise, grid, fields)


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
    ratio_a, ratio_b, fixed = add_constants(a, b, output)
    return {
        "operation": ADD,
        "scale_a": float(ratio_a),
        "scale_b": float(ratio_b),
        "offset": float(fixed),
        "exchanged": exchanged,
    }


def _rescale(value: Value, node: Node) -> dict[str, Any]:
    """By one multiplication where that has the bits of ONNX Runtime's two steps, else by both."""
    source, output = scalars_of(value, node), scalars_of(node.output, node)
    given, made = value.type.dtype, node.output.type.dtype
    scale = one_scale(
        float(source.scale),
        float(output.scale),
        (given.low, given.high),
        (source.zero_point, output.zero_point),
        (made.low, made.high),
    )
    return {
        "operation": RESCALE,
        "zero_a": source.zero_point,
        "scale_a": float(source.scale) if scale is None else scale,
        "scale_b": float(output.scale) if scale is None else 1.0,
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
    grid = Grid.of(box, len(pieces))
    block, lane, out_block, out_lane, width = np.asarray(pieces, np.int64)[grid.piece].T
    fields = output_fields(plan, grid, target, out_block) | _copy(value, plan.node)
    fields |= source_fields(source, "a_", grid, block)
    fields |= {"lane": lane, "out_lane": out_lane, "channels": width}
    fields["format"] = format_code(source.layout.format)
    put(builder, plan, Elementwise, grid, fields)


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
    grid = Grid.of(source.layout.box, source.layout.blocks)
    moved = grid.moved(shift_n, shift_y, shift_x)
    fields = output_fields(plan, moved, target, grid.piece) | _copy(value, plan.node)
    fields |= source_fields(source, "a_", grid, grid.piece)
    fields["format"] = format_code(source.layout.format)
    put(builder, plan, Elementwise, grid, fields)
