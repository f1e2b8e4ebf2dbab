"""What the accelerator can run, and in words why it cannot run the rest.

Support is data: `RULES` gives for each operator a function that returns the reason why a node must
go to the host, or None. The same text serves the report and the error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ridgeline.compiler.layout import layout_of
from ridgeline.compiler.storage import Storage, Stores, lies_otherwise, storage_of
from ridgeline.compiler.support_moves import move_reason
from ridgeline.ir import Node, Value
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.vector import MOST_DEPTHWISE_TAPS
from ridgeline.numerics.formats import INT8, INT16, UINT8
from ridgeline.ops.convolution import is_depthwise
from ridgeline.ops.evaluate import is_quantized_node
from ridgeline.ops.stored import is_quantized, same_quantisation
from ridgeline.ops.windows import Geometry

ACTIVATION_FORMATS = (UINT8, INT8, INT16)
WEIGHT_FORMATS = (UINT8, INT8)


Rule = Callable[[Node, Machine, Stores], str | None]


def host_reason(node: Node, machine: Machine, storage: Stores) -> str | None:
    """Why a node must run on the host; None when the device takes it."""
    rule = RULES.get(node.op)
    if rule is None:
        return _BORDERS.get(node.op) or f"the accelerator has no {node.op}"
    if not is_quantized_node(node):
        return f"{node.op} is in {node.output.type.dtype}, the array and vector unit take integers"
    for value in (node.input(0), node.output):
        if value.type.dtype not in ACTIVATION_FORMATS:
            return f"'{value.name}' is {value.type.dtype}, not uint8, int8 or int16"
        if value.type.quant is not None and value.type.quant.axis is not None:
            return f"'{value.name}' is an activation quantised per channel"
        wide = value.type.dtype is INT16
        if wide and "int16" not in machine.array.macs_per_pe_per_cycle:
            return f"'{value.name}' is int16, and {machine.name} takes int8 activations only"
        if wide and value.type.quant is not None and int(value.type.quant.zero_point):
            return f"'{value.name}' is int16 with a zero point"
        if 0 in value.type.shape:
            return f"'{value.name}' is empty"
        if not value.type.shape:
            return f"'{value.name}' is a single number"
    return rule(node, machine, storage)


def _spatial_rank_reason(node: Node) -> str | None:
    rank = len(node.input(0).type.shape) - 2
    return None if rank in (1, 2) else f"{rank} spatial dimensions; the walks have two"


def _geometry_reason(node: Node, machine: Machine) -> str | None:
    """The array takes a window tap by tap, so that only its stride lies in an instruction."""
    geometry = Geometry.of(node.attrs, node.op)
    if max(geometry.strides) > 255:
        return f"a stride of {max(geometry.strides)} does not fit the instruction (255)"
    most = max(*geometry.kernel, *geometry.dilations)
    if most > 255 and not uses_array(node, machine):
        return f"a kernel or dilation of {most} does not fit the vector instruction (255)"
    return None


def _conv(node: Node, machine: Machine, storage: Stores) -> str | None:
    reason = _spatial_rank_reason(node) or _geometry_reason(node, machine)
    if reason:
        return reason
    if storage_of(node.input(0), storage, 1) is None:
        return lies_otherwise(node.input(0))
    return _weights_reason(node, machine, channel_axis=0)


def _weights_reason(node: Node, machine: Machine, channel_axis: int) -> str | None:
    weights = node.input(1)
    if not weights.is_constant:
        return "both operands are activations; weights must be constant"
    if weights.type.dtype not in WEIGHT_FORMATS or weights.type.quant is None:
        return f"weights are {weights.type.dtype}, not int8 or uint8"
    quant = weights.type.quant
    if quant.block:
        return "weights are quantised in blocks along k"
    if quant.axis is not None and quant.axis % len(weights.type.shape) != channel_axis:
        return "weights are quantised per channel of another axis"
    if quant.zero_point.size > 1 and len(set(quant.zero_point.reshape(-1).tolist())) > 1:
        return "weight zero points differ between channels"
    bias = node.optional(2)
    if bias is not None and not bias.is_constant:
        return "the bias is not constant"
    return _overflow_reason(node, machine, channel_axis)


def _overflow_reason(node: Node, machine: Machine, channel_axis: int) -> str | None:
    """int16 sums in narrow accumulators: only when no input could make them wrap."""
    if node.input(0).type.dtype is not INT16 or machine.array.accumulator_bits >= 48:
        return None
    return (
        f"int16 products need 48-bit accumulators and {machine.name} has"
        f" {machine.array.accumulator_bits}"
    )


def _matmul(node: Node, machine: Machine, storage: Stores) -> str | None:
    x, weights = node.input(0), node.input(1)
    if len(weights.type.shape) != 2 and weights.is_constant:
        return "a batched right operand"
    if len(x.type.shape) > 4:
        return f"{len(x.type.shape)} dimensions"
    found = storage.get(id(x))
    if not (found is not None and found.flattened):
        found = storage_of(x, storage, len(x.type.shape) - 1)
    if found is None:
        return lies_otherwise(x)
    return _weights_reason(node, machine, channel_axis=1)


def _binary(node: Node, machine: Machine, storage: Stores) -> str | None:
    name = OPERATION_NAMES.get(node.op, node.op.lower())
    if name not in machine.vector.operations:
        return f"the vector unit of {machine.name} has no '{name}'"
    a, b = node.input(0), node.input(1)
    if INT16 in (a.type.dtype, b.type.dtype, node.output.type.dtype):
        return f"{node.op} of int16"
    if a.type.dtype is not b.type.dtype or not is_quantized(b):
        return f"operands are {a.type.dtype} and {b.type.dtype}"
    if len(node.output.type.shape) > 4 or not node.output.type.shape:
        return f"{len(node.output.type.shape)} dimensions"
    axis = _broadcast_axis([a, b], node.output, storage)
    for value in (a, b):
        reason = _operand_reason(value, node.output, axis, storage)
        if reason:
            return reason
    return None


def _common_axis(values: list[Value], storage: Stores) -> int:
    """The channel axis of the first value that already lies somewhere, else ONNX's."""
    for value in values:
        found = storage.get(id(value))
        if found is not None and not found.flattened:
            return found.channel_axis
    return 1 if max(len(v.type.shape) for v in values) > 1 else 0


def _broadcast_axis(values: list[Value], output: Value, storage: Stores) -> int:
    """The channel axis of the output: that of what already lies somewhere, else one along which
    nothing is broadcast, ONNX's own first.
    """
    rank = len(output.type.shape)
    computed = [v for v in values if not v.is_constant]
    for value in computed:
        found = storage.get(id(value))
        if found is not None and not found.flattened:
            return found.channel_axis + rank - len(value.type.shape)
    usual = 1 if rank > 1 else 0
    for axis in (usual, *reversed(range(rank))):
        sizes = [(1,) * (rank - len(v.type.shape)) + v.type.shape for v in computed]
        if all(size[axis] == output.type.shape[axis] for size in sizes):
            return axis
    return usual


def _operand_reason(value: Value, output: Value, axis: int, storage: Stores) -> str | None:
    """Why a possibly broadcast operand cannot be walked beside the output."""
    if value.type.quant is not None and value.type.quant.axis is not None:
        return f"'{value.name}' is quantised per channel"
    if value.is_constant:
        return None
    own = axis - (len(output.type.shape) - len(value.type.shape))
    if own < 0 or value.type.shape[own] != output.type.shape[axis]:
        return f"'{value.name}' is broadcast along channels"
    if storage_of(value, storage, own) is None:
        return lies_otherwise(value)
    return None


def _rescale_reason(node: Node, machine: Machine) -> str | None:
    if "rescale" not in machine.vector.operations:
        return f"the vector unit of {machine.name} has no 'rescale'"
    if INT16 in (node.input(0).type.dtype, node.output.type.dtype):
        return f"{node.op} that rescales int16"
    return None


def _clip(node: Node, machine: Machine, storage: Stores) -> str | None:
    x = node.input(0)
    if storage_of(x, storage, _common_axis([x], storage)) is None:
        return lies_otherwise(x)
    return _rescale_reason(node, machine)


def _prelu(node: Node, machine: Machine, storage: Stores) -> str | None:
    if "slope" not in machine.vector.operations:
        return f"the vector unit of {machine.name} has no 'slope'"
    x, slope = node.input(0), node.input(1)
    if INT16 in (x.type.dtype, node.output.type.dtype):
        return "PRelu of int16"
    axis = _common_axis([x], storage)
    own = axis - (len(x.type.shape) - len(slope.type.shape))
    others = prod(d for i, d in enumerate(slope.type.shape) if i != own)
    if not slope.is_constant or others != 1:
        return "its slope is not one constant for each channel"
    return None if storage_of(x, storage, axis) else lies_otherwise(x)


def _lookup(node: Node, machine: Machine, storage: Stores) -> str | None:
    if "lookup" not in machine.vector.operations:
        return f"the vector unit of {machine.name} has no 'lookup'"
    x = node.input(0)
    if INT16 in (x.type.dtype, node.output.type.dtype):
        return "a table has entries for 8-bit values only"
    return None if storage_of(x, storage, _common_axis([x], storage)) else lies_otherwise(x)


def _pool(node: Node, machine: Machine, storage: Stores) -> str | None:
    name = "max_pool" if node.op == "MaxPool" else "average_pool"
    if name not in machine.vector.operations:
        return f"the vector unit of {machine.name} has no '{name}'"
    if node.op != "MaxPool" and node.input(0).type.dtype is not node.output.type.dtype:
        return "input and output formats differ"
    reason = _spatial_rank_reason(node)
    if node.op == "MaxPool" and not same_quantisation(node.input(0), node.output):
        reason = reason or _rescale_reason(node, machine)
    if reason is None and node.op != "GlobalAveragePool":
        reason = _geometry_reason(node, machine)
    if reason is None and node.op == "GlobalAveragePool":
        spatial = node.input(0).type.shape[2:]
        if max(spatial) > 255:
            reason = f"a window of {spatial} does not fit the instruction"
        reason = reason or _image_reason(node, machine, storage)
    if reason:
        return reason
    if len(node.outputs) > 1:
        return "the indices of the largest elements are asked for"
    return None if storage_of(node.input(0), storage, 1) else lies_otherwise(node.input(0))


def _image_reason(node: Node, machine: Machine, storage: Stores) -> str | None:
    """A mean takes all rows of an image at once."""
    x, output = (layout_of(v.type, 1, machine) for v in (node.input(0), node.output))
    needed_bytes = sum(
        layout.h * layout.w * layout.row_lines * layout.line_bytes for layout in (x, output)
    )
    if storage_of(node.input(0), storage, 1) is None or (
        needed_bytes <= machine.unified_buffer.bytes
    ):
        return None
    return f"an image of {needed_bytes} bytes does not fit the unified buffer"


def reshaped_storage(node: Node, source: Storage) -> Storage | None:
    """Storage of a Reshape that moves nothing: same rows and channels, or a flattened image."""
    before, after = node.input(0).type.shape, node.output.type.shape
    if source.flattened:
        return Storage(source.root, source.channel_axis, True) if before == after else None
    axis = source.channel_axis
    # Channels-first data flattened for a dense layer: [N, C, ...] -> [N, C * ...].
    images = before[:axis]
    flat = axis == 1 and len(after) == 2 and after[0] == images[0]
    if flat and prod(before[2:]) == 1:
        return Storage(source.root, 1)
    if flat:
        return Storage(source.root, 1, True)
    outer, inner = prod(before[:axis]), prod(before[axis + 1 :])
    for new_axis, size in enumerate(after):
        if size != before[axis]:
            continue
        if prod(after[:new_axis]) == outer and prod(after[new_axis + 1 :]) == inner:
            return Storage(source.root, new_axis)
    return None


def _reshape(node: Node, machine: Machine, storage: Stores) -> str | None:
    x = node.input(0)
    if not same_quantisation(x, node.output):
        return "the quantisation changes inside a Reshape"
    found = storage.get(id(x))
    if found is None:
        return "it only renames what the host holds"
    shared = None if id(node) in storage.copied else reshaped_storage(node, found)
    if shared is None or _unwanted(node, shared.channel_axis, storage, flat=shared.flattened):
        return move_reason(node, machine, storage)
    return None


def _unwanted(node: Node, axis: int, storage: Stores, *, flat: bool = False) -> bool:
    """Whether who reads the node's output wants its channels along another axis."""
    wanted = storage.wanted.get(id(node.output))
    return wanted is not None and not flat and axis != wanted


def _transpose(node: Node, machine: Machine, storage: Stores) -> str | None:
    x = node.input(0)
    if not same_quantisation(x, node.output):
        return "the quantisation changes inside a Transpose"
    found = storage.get(id(x))
    if found is None:
        return _transpose_of_the_hosts(node, machine, storage)
    rest = [int(p) for p in node.attrs["perm"] if int(p) != found.channel_axis]
    # Rows must keep their order; dimensions of 1 may go anywhere.
    order = [p for p in rest if x.type.shape[p] != 1]
    axis = [int(p) for p in node.attrs["perm"]].index(found.channel_axis)
    if found.flattened or order != sorted(order) or _unwanted(node, axis, storage):
        return move_reason(node, machine, storage)
    return None


def _transpose_of_the_hosts(node: Node, machine: Machine, storage: Stores) -> str | None:
    """The host packs rows of channels anyway, so that only an order of rows is work."""
    perm = [int(p) for p in node.attrs["perm"]]
    wanted = storage.wanted.get(id(node.output))
    for axis in range(len(perm)) if wanted is None else (wanted,):
        rest = [p for p in perm if p != perm[axis] and node.input(0).type.shape[p] != 1]
        if rest == sorted(rest):
            if wanted is None:
                return "it only rearranges what the host holds"
            storage[id(node.input(0))] = Storage(node.input(0), perm[axis])
            return None
    return move_reason(node, machine, storage)


def _concat(node: Node, machine: Machine, storage: Stores) -> str | None:
    """By the vector unit where the inputs lie alike, else by Loads."""
    before = dict(storage)
    if _concat_reason(node, machine, storage) is None:
        return None
    for key in storage.keys() - before.keys():
        del storage[key]
    return move_reason(node, machine, storage)


def _concat_reason(node: Node, machine: Machine, storage: Stores) -> str | None:
    values = [node.input(i) for i in range(len(node.inputs))]
    if any(v.is_constant for v in values):
        return "one of the inputs is constant"
    axis = _common_axis(values, storage)
    for value in values:
        if storage_of(value, storage, axis) is None:
            return lies_otherwise(value)
        if value.type.dtype is not node.output.type.dtype:
            return "input and output formats differ"
    rest = [i for i in range(len(node.output.type.shape)) if i != axis]
    if len(rest) > 3:
        return "more than three dimensions of rows"
    return _rescale_reason(node, machine)


_BORDERS = {
    "QuantizeLinear": "real numbers become integers on the host, before they cross the link",
    "DequantizeLinear": "integers become real numbers on the host, after they crossed the link",
}

OPERATION_NAMES = {"Sub": "subtract", "Max": "maximum", "Min": "minimum"}
"""What machine files call the operations of the vector unit on real numbers."""

RULES: dict[str, Rule] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "Add": _binary,
    "Mul": _binary,
    "Sub": _binary,
    "Max": _binary,
    "Min": _binary,
    "PRelu": _prelu,
    "Clip": _clip,
    "Lookup": _lookup,
    "Move": move_reason,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _pool,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
}


def uses_array(node: Node, machine: Machine) -> bool:
    """Whether a device node's products are made by the array (else by the vector unit)."""
    if node.op == "MatMul":
        return True
    if node.op != "Conv":
        return False
    shape = node.input(1).type.shape
    one_to_one = is_depthwise(node) and shape[0] == node.input(0).type.shape[1]
    fits = prod(shape[2:]) <= MOST_DEPTHWISE_TAPS
    return not (one_to_one and fits and "depthwise" in machine.vector.operations)
