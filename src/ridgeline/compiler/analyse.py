"""Device nodes to layer plans: geometry, operands, and weights packed into the constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.constants import ConstantPool, pack_columns, pack_lines, pack_params
from ridgeline.compiler.gather import gather_windows
from ridgeline.compiler.layout import Layout, layout_of
from ridgeline.compiler.place import Placement
from ridgeline.compiler.plan import LayerPlan, Operand, Rearrangement, Window
from ridgeline.compiler.support import uses_array
from ridgeline.compiler.support_moves import arrangement, constant_layout
from ridgeline.ir import Node, TensorType, Value
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.lookup import table_lines
from ridgeline.numerics.requantize import requant_scale
from ridgeline.ops.stored import quant_of, scalars_of, store
from ridgeline.ops.windows import Geometry

Array = npt.NDArray[Any]


class Analyst:
    """Turns nodes of one program into plans, filling one constant pool."""

    def __init__(self, placement: Placement, machine: Machine, pool: ConstantPool) -> None:
        self.placement = placement
        self.machine = machine
        self.pool = pool

    def plan(self, node: Node, index: int) -> LayerPlan:
        """The plan of a device node, which is line `index` of the report."""
        moved = self.placement.storage[id(node.output)].moved
        return (_plan_move if moved else PLANNERS[node.op])(self, node, index)

    def operand(self, value: Value) -> Operand:
        """A value of the graph as rows of channels."""
        stored = self.placement.storage[id(value)]
        if stored.flattened:
            return Operand(stored.root, self.root_layout(stored.root))
        return Operand(stored.root, layout_of(value.type, stored.channel_axis, self.machine))

    def broadcast_operand(self, value: Value, output: Value) -> Operand:
        """A value as rows beside those of `output`, which may have more dimensions."""
        stored = self.placement.storage[id(value)]
        more = len(output.type.shape) - len(value.type.shape)
        type = replace(value.type, shape=(1,) * more + value.type.shape)
        layout = layout_of(type, stored.channel_axis + more, self.machine)
        return Operand(stored.root, layout)

    def root_layout(self, root: Value) -> Layout:
        """The layout of the value that owns the bytes."""
        axis = self.placement.storage[id(root)].channel_axis
        return layout_of(root.type, axis, self.machine)

    def constant_operand(self, value: Value, output: Value) -> Operand:
        """A constant broadcast to all channels of `output`, packed as rows."""
        axis = self.placement.storage[id(output)].channel_axis
        rank = len(output.type.shape)
        data = np.asarray(value.data)
        data = data.reshape((1,) * (rank - data.ndim) + data.shape)
        shape = list(data.shape)
        shape[axis] = output.type.shape[axis]
        data = np.ascontiguousarray(np.broadcast_to(data, shape))
        type = TensorType(data.shape, value.type.dtype, value.type.quant)
        layout = layout_of(type, axis, self.machine)
        address = self.pool.add(layout.packing.pack(data).tobytes())
        return Operand(value, layout, constant=True, address=address)

    def parameters(self, node: Node, channels: int) -> tuple[Array, Array, int]:
        """(bias int32, scale float32) per output channel, and the weights' zero point."""
        weights = node.input(1)
        quant = quant_of(weights, node)
        scale = requant_scale(
            scalars_of(node.input(0), node).scale, quant.scale, scalars_of(node.output, node).scale
        )
        scales = np.broadcast_to(scale.reshape(-1), (channels,)).astype(np.float32)
        bias = node.optional(2)
        data = np.zeros(channels, np.int32) if bias is None else np.asarray(bias.data, np.int32)
        return data.reshape(-1), scales, int(quant.zero_point.reshape(-1)[0])


def _two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    """Spatial values along (y, x); one-dimensional ones are along x."""
    return (values[0], values[1]) if len(values) == 2 else (missing, values[0])


def window_of(geometry: Geometry) -> Window:
    """A node's window along y and x."""
    rank = len(geometry.kernel)
    return Window(
        _two(geometry.kernel, 1),
        _two(geometry.strides, 1),
        _two(geometry.dilations, 1),
        _two(geometry.pads[:rank], 0),
    )


def _plan_conv(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    x, output = analyst.operand(node.input(0)), analyst.operand(node.output)
    window = window_of(Geometry.of(node.attrs, node.op))
    bias, scale, zero = analyst.parameters(node, output.layout.c)
    data = np.asarray(node.input(1).data)
    if data.ndim == 3:
        data = data[:, :, None, :]
    if not uses_array(node, analyst.machine):
        table = data.reshape(data.shape[0], -1).T
        address, lines = pack_lines(analyst.pool, x.layout, np.ascontiguousarray(table))
        params = tuple(
            pack_params(
                analyst.pool, bias[s : s + x.layout.line_bytes], scale[s : s + x.layout.line_bytes]
            )
            for s in range(0, output.layout.c, x.layout.line_bytes)
        )
        return LayerPlan(
            index,
            node,
            "window",
            (x,),
            output,
            window,
            table_address=address,
            table_lines=lines,
            params_addresses=params,
        )
    weights = data.transpose(2, 3, 1, 0)
    group = int(node.attrs.get("group", 1))
    found = gather_windows(analyst.placement, analyst.machine, node, x, output, window)
    if found is not None:
        x, window = found.operand, found.window
        rows = window.kernel[0]
        weights = np.ascontiguousarray(weights).reshape(rows, 1, -1, weights.shape[3])
    columns = pack_columns(
        analyst.pool, analyst.machine, x.layout, weights, group, zero, bias, scale
    )
    return LayerPlan(index, node, "matmul", (x,), output, window, columns)


def _plan_matmul(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    """A dense layer; over a flattened image it is a convolution whose kernel is the image."""
    x, output = analyst.operand(node.input(0)), analyst.operand(node.output)
    bias, scale, zero = analyst.parameters(node, output.layout.c)
    data = np.asarray(node.input(1).data)
    kernel = (1, 1)
    if analyst.placement.storage[id(node.input(0))].flattened:
        kernel = (x.layout.h, x.layout.w)
    # Rows of the matrix follow ONNX's order: channel, then y, then x.
    weights = data.reshape(x.layout.c, *kernel, -1).transpose(1, 2, 0, 3)
    columns = pack_columns(analyst.pool, analyst.machine, x.layout, weights, 1, zero, bias, scale)
    return LayerPlan(index, node, "matmul", (x,), output, Window(kernel), columns)


def _plan_window(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    x, output = analyst.operand(node.input(0)), analyst.operand(node.output)
    if node.op == "GlobalAveragePool":
        window = Window((x.layout.h, x.layout.w))
    else:
        window = window_of(Geometry.of(node.attrs, node.op))
    return LayerPlan(index, node, "window", (x,), output, window)


def _plan_elementwise(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    operands = tuple(
        analyst.constant_operand(v, node.output)
        if v.is_constant
        else analyst.broadcast_operand(v, node.output)
        for v in (node.input(i) for i in range(len(node.inputs)))
    )
    return LayerPlan(index, node, "elementwise", operands, analyst.operand(node.output))


def _plan_prelu(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    """The slopes as parameters, whose scale is their magnitude and whose bias is their sign."""
    x, output = analyst.operand(node.input(0)), analyst.operand(node.output)
    slopes = np.asarray(node.input(1).data, np.float32).reshape(-1)
    slopes = np.broadcast_to(slopes, (output.layout.c,))
    signs, sizes = np.where(slopes < 0, -1, 0).astype(np.int32), np.abs(slopes)
    line = x.layout.line_bytes
    params = tuple(
        pack_params(analyst.pool, signs[s : s + line], sizes[s : s + line])
        for s in range(0, output.layout.c, line)
    )
    return LayerPlan(index, node, "elementwise", (x,), output, params_addresses=params)


def _plan_lookup(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    return LayerPlan(
        index,
        node,
        "elementwise",
        (analyst.operand(node.input(0)),),
        analyst.operand(node.output),
        table_address=analyst.pool.add(np.asarray(node.input(1).data).tobytes()),
        table_lines=table_lines(analyst.machine),
    )


def _plan_concat(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    operands = tuple(analyst.operand(node.input(i)) for i in range(len(node.inputs)))
    return LayerPlan(index, node, "concat", operands, analyst.operand(node.output))


def _plan_move(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    """Its inputs are read where they lie in device memory, so that none comes on chip for it."""
    storage, machine = analyst.placement.storage, analyst.machine
    output = analyst.operand(node.output)
    found = arrangement(node, machine, storage, output.layout.channel_axis)
    sources: list[Value | int] = []
    for value in (v for v in node.inputs if v is not None):
        if value.is_constant:
            data = constant_layout(value, machine).packing.pack(np.asarray(value.data))
            sources.append(analyst.pool.add(data.tobytes()))
        else:
            sources.append(storage[id(value)].root)
    sources += [analyst.pool.add(line) for line in _fill_lines(node, output.layout)]
    move = Rearrangement(found.placed, tuple(sources))
    return LayerPlan(index, node, "move", (), output, rearrangement=move)


def _fill_lines(node: Node, layout: Layout) -> list[bytes]:
    """A line of fill for each plane."""
    stored = store(np.asarray(node.attrs.get("fill", 0.0), np.float32), node)
    word = int(stored) & ((1 << (8 * layout.planes)) - 1)
    return [bytes([word >> (8 * p) & 255]) * layout.line_bytes for p in range(layout.planes)]


def _plan_alias(analyst: Analyst, node: Node, index: int) -> LayerPlan:
    return LayerPlan(
        index, node, "alias", (analyst.operand(node.input(0)),), analyst.operand(node.output)
    )


PLANNERS: dict[str, Callable[[Analyst, Node, int], LayerPlan]] = {
    "Conv": _plan_conv,
    "MatMul": _plan_matmul,
    "Add": _plan_elementwise,
    "Mul": _plan_elementwise,
    "Sub": _plan_elementwise,
    "Max": _plan_elementwise,
    "Min": _plan_elementwise,
    "PRelu": _plan_prelu,
    "Clip": _plan_elementwise,
    "Lookup": _plan_lookup,
    "MaxPool": _plan_window,
    "AveragePool": _plan_window,
    "GlobalAveragePool": _plan_window,
    "Concat": _plan_concat,
    "Reshape": _plan_alias,
    "Transpose": _plan_alias,
}
