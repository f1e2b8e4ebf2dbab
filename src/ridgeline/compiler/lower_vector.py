"""The vector template: pooling, depthwise, elementwise and concat, all on chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import LayerPlan, split_box
from ridgeline.ir import Node, Value
from ridgeline.machine.instructions import Elementwise, Lookup, RealElementwise, WindowReduce
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

PARTS = 4
"""A box is worked through in about this many parts, so that the units after need not wait."""


def _parts(box: Box) -> list[Box]:
    images, rows, columns = box.sizes
    least = columns if images == 1 else rows * columns
    return list(split_box(box, max(least, -(-box.rows // PARTS))))


def _output_fields(plan: LayerPlan, part: Box, target: Region, block: int) -> dict[str, Any]:
    node = plan.node
    low, high = _bounds(node)
    return {
        "layer": plan.index,
        "out_format": format_code(target.layout.format),
        "out_line": target.address(part.n0, part.y0, part.x0, block),
        "out_stride_0": target.stride_x,
        "out_stride_1": target.stride_y,
        "out_stride_2": target.stride_n,
        "out_zero_point": scalars_of(node.output, node).zero_point,
        "low": low,
        "high": high,
        "channels": target.layout.block_channels(block),
        "count_0": part.x1 - part.x0,
        "count_1": part.y1 - part.y0,
        "count_2": part.n1 - part.n0,
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
    specific = _window_operation(plan)
    for part in _parts(box):
        for block in range(target.layout.blocks):
            fields = _output_fields(plan, part, target, block) | _walk(plan, part, source, block)
            fields |= specific
            if plan.params_addresses:
                taps = plan.window.kernel[0] * plan.window.kernel[1]
                count = target.layout.block_channels(block)
                fields["slot"] = builder.load_params(
                    plan.params_addresses[block], count, plan.index
                )
                fields["weight_line"] = table_line + block * taps
            rescaled = plan.node.op == "MaxPool" and not same_quantisation(
                plan.node.input(0), plan.node.output
            )
            if rescaled:
                # The largest stored value first, then the table's arithmetic on it, in place.
                dtype = plan.node.input(0).type.dtype
                fields |= {"out_format": fields["format"], "low": dtype.low, "high": dtype.high}
            builder.add(WindowReduce(**fields))
            if rescaled:
                _rescale_in_place(builder, plan, part, target, block)


def _rescale_in_place(
    builder: Builder, plan: LayerPlan, part: Box, target: Region, block: int
) -> None:
    fields = _output_fields(plan, part, target, block) | _rescale(plan.node.input(0), plan.node)
    fields |= _Source(target).fields("a", part, block)
    fields["format"] = format_code(plan.inputs[0].layout.format)
    builder.add(Elementwise(**fields))


def _walk(plan: LayerPlan, part: Box, source: Region, block: int) -> dict[str, Any]:
    window, layout = plan.window, source.layout
    y = part.y0 * window.stride[0] - window.pad[0]
    x = part.x0 * window.stride[1] - window.pad[1]
    return {
        "format": format_code(layout.format),
        "zero_point": scalars_of(plan.node.input(0), plan.node).zero_point,
        "line": source.address(part.n0, y, x, block),
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


@dataclass(frozen=True, slots=True)
class _Source:
    """A region walked beside the output; broadcast dimensions stand still."""

    region: Region

    def fields(self, prefix: str, part: Box, block: int) -> dict[str, int]:
        layout = self.region.layout
        n = part.n0 if layout.n > 1 else 0
        y = part.y0 if layout.h > 1 else 0
        x = part.x0 if layout.w > 1 else 0
        return {
            f"{prefix}_line": self.region.address(n, y, x, block),
            f"{prefix}_stride_0": self.region.stride_x if layout.w > 1 else 0,
            f"{prefix}_stride_1": self.region.stride_y if layout.h > 1 else 0,
            f"{prefix}_stride_2": self.region.stride_n if layout.n > 1 else 0,
        }


def lower_elementwise(
    builder: Builder, plan: LayerPlan, box: Box, sources: tuple[Region, ...], target: Region
) -> None:
    """Emit one output box of Add, Mul or Clip, block by block."""
    node = plan.node
    walks = [_Source(r) for r in sources]
    constants = _binary_constants(node) if len(walks) == 2 else _rescale(node.input(0), node)
    if constants.pop("exchanged", False):
        walks.reverse()
    for part in _parts(box):
        for block in range(target.layout.blocks):
            fields = _output_fields(plan, part, target, block) | constants
            fields["format"] = format_code(sources[0].layout.format)
            for prefix, walk in zip("ab", walks, strict=False):
                fields |= walk.fields(prefix, part, block)
            builder.add(Elementwise(**fields))


def lower_lookup(
    builder: Builder, plan: LayerPlan, box: Box, source: Region, target: Region, table_line: int
) -> None:
    """Emit one output box of a Lookup, block by block."""
    for part in _parts(box):
        for block in range(target.layout.blocks):
            walk = _Source(source).fields("a", part, block)
            fields = _output_fields(plan, part, target, block)
            fields |= {name.removeprefix("a_"): value for name, value in walk.items()}
            fields |= {"format": format_code(source.layout.format), "table_line": table_line}
            builder.add(Lookup(**fields))


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
    for part in _parts(box):
        for block in range(target.layout.blocks):
            fields = _output_fields(plan, part, target, block) | constants
            fields["format"] = format_code(sources[0].layout.format)
            for prefix, region in zip("ab", sources, strict=False):
                fields |= _Source(region).fields(prefix, part, block)
            if plan.params_addresses:
                count = target.layout.block_channels(block)
                fields["slot"] = builder.load_params(
                    plan.params_addresses[block], count, plan.index
                )
            builder.add(RealElementwise(**fields))


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
            for part in _parts(box):
                _copy_channels(builder, plan, part, value, source, target, offset)
        else:
            _copy_rows(builder, plan, value, source, target, offset, axis)
        offset += value.type.shape[axis]


def _copy_channels(
    builder: Builder,
    plan: LayerPlan,
    part: Box,
    value: Value,
    source: Region,
    target: Region,
    offset: int,
) -> None:
    """Channels [0, c) of a source to channels [offset, offset + c), in pieces within lines."""
    line, channel = source.layout.line_bytes, 0
    while channel < source.layout.c:
        block, lane = divmod(channel, line)
        out_block, out_lane = divmod(offset + channel, line)
        width = min(line - lane, line - out_lane, source.layout.c - channel)
        fields = _output_fields(plan, part, target, out_block) | _copy(value, plan.node)
        fields |= _Source(source).fields("a", part, block)
        fields |= {"lane": lane, "out_lane": out_lane, "channels": width}
        fields["format"] = format_code(source.layout.format)
        builder.add(Elementwise(**fields))
        channel += width


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
    for part in _parts(source.layout.box):
        moved = Box(
            part.n0 + shift_n,
            part.n1 + shift_n,
            part.y0 + shift_y,
            part.y1 + shift_y,
            part.x0 + shift_x,
            part.x1 + shift_x,
        )
        for block in range(source.layout.blocks):
            fields = _output_fields(plan, moved, target, block) | _copy(value, plan.node)
            fields |= _Source(source).fields("a", part, block)
            fields["format"] = format_code(source.layout.format)
            builder.add(Elementwise(**fields))
