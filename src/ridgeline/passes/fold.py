"""What can be computed before the model runs: constants, batch normalisation, per-channel scales.

`evaluate` (frontend.evaluate.evaluate_constant) is injected, so that this floor does not choose who
computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Graph, Node, Value
from ridgeline.passes.edit import Uses, origins, rebuild

Array = npt.NDArray[Any]
Evaluate = Callable[[Node, int], tuple[Array, ...]]

_PRODUCTS = ("Conv", "ConvTranspose", "MatMul")


def fold(graph: Graph, evaluate: Evaluate) -> Graph:
    """Constants computed, identities dropped, scales and BatchNormalization moved into weights."""
    folded = drop_identities(fold_constants(graph, evaluate))
    return expand_batch_normalizations(fold_scales(folded))


def fold_constants(graph: Graph, evaluate: Evaluate) -> Graph:
    """Nodes whose inputs are all constants, computed.

    DequantizeLinear of a constant stays: it is how a quantised file spells its weights.
    """
    replaced: dict[int, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(replaced.get(id(v), v) for v in node.inputs)
        constant = all(v is None or v.is_constant for v in inputs)
        if not constant or node.op == "DequantizeLinear" or not inputs:
            kept.append(node)
            continue
        current = Node(node.op, node.name, inputs, node.outputs, node.attrs, node.origin)
        for value, data in zip(node.outputs, evaluate(current, graph.opset), strict=True):
            replaced[id(value)] = Value(value.name, value.type, data)
    return rebuild(graph, kept, replaced)


def drop_identities(graph: Graph) -> Graph:
    """Identity, and Reshape or Transpose that change nothing; output names stay as they are."""
    uses = Uses(graph)
    replaced: dict[int, Value] = {}
    renamed: dict[int, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if not _is_identity(node):
            kept.append(node)
            continue
        source = node.input(0)
        if not uses.is_output(node.output):
            replaced[id(node.output)] = source
        elif uses.producer(source) is not None and uses.sole_reader(source) is node:
            renamed[id(source)] = node.output
        else:
            kept.append(node)
    return rebuild(graph, [_renamed(n, renamed) for n in kept], replaced)


def _is_identity(node: Node) -> bool:
    if node.op == "Identity":
        a, b = node.input(0).type, node.output.type
        return a.quant is b.quant or (a.quant is not None and a.quant.equals(b.quant))
    if node.op not in ("Reshape", "Transpose"):
        return False
    before, after = node.input(0).type, node.output.type
    if before.shape != after.shape or before.quant is not after.quant:
        return False
    perm = node.attrs.get("perm")
    return perm is None or tuple(perm) == tuple(range(len(before.shape)))


def _renamed(node: Node, renamed: dict[int, Value]) -> Node:
    outputs = tuple(renamed.get(id(v), v) for v in node.outputs)
    return Node(node.op, node.name, node.inputs, outputs, node.attrs, node.origin)


def fold_scales(graph: Graph) -> Graph:
    """A per-channel scale and shift after a Conv or MatMul with constant weights joins them.

    Repeats until nothing more joins, so that Conv, Mul, BatchNormalization becomes one Conv.
    """
    while True:
        uses = Uses(graph)
        pair = next(
            ((p, n) for n in graph.nodes if (p := _scaled_product(n, uses)) is not None), None
        )
        if pair is None:
            return graph
        graph = _merge_scale(graph, *pair)


def _scaled_product(node: Node, uses: Uses) -> Node | None:
    """The product before `node`, when `node` is a scale that can join its weights."""
    if node.op not in ("Mul", "Add", "BatchNormalization") or "clip" in node.attrs:
        return None
    source = next((v for v in node.inputs if v is not None and not v.is_constant), None)
    product = uses.producer(source)
    # `fuse` makes an Add the bias of what is a Conv or MatMul by then.
    if node.op == "Add" and product is not None and product.op != "ConvTranspose":
        return None
    if source is None or product is None or product.op not in _PRODUCTS:
        return None
    if uses.sole_reader(source) is not node or "clip" in product.attrs:
        return None
    weights, bias = product.input(1), product.optional(2)
    if weights.data is None or weights.data.dtype != np.float32 or weights.type.quant is not None:
        return None
    if bias is not None and (bias.data is None or bias.type.quant is not None):
        return None
    if product.op == "MatMul" and len(weights.type.shape) != 2:
        return None
    return product if _scale_and_shift(node, product) is not None else None


def _scale_and_shift(node: Node, product: Node) -> tuple[Array, Array] | None:
    """Float64 scale and shift of each channel of the product's output, or None."""
    axis = len(product.output.type.shape) - 1 if product.op == "MatMul" else 1
    shape = product.output.type.shape
    channels = shape[axis]
    if node.op == "BatchNormalization":
        return batch_normalization(node) if axis == 1 else None
    constant = next((v for v in node.inputs if v is not None and v.is_constant), None)
    if constant is None or node.output.type.shape != shape:
        return None
    values = per_channel(constant, axis, len(shape), channels)
    if values is None:
        return None
    real = values.astype(np.float64)
    return (np.ones(channels), real) if node.op == "Add" else (real, np.zeros(channels))


def per_channel(value: Value, axis: int, rank: int, channels: int) -> Array | None:
    """A constant that broadcasts along one axis only, as [channels], or None."""
    if value.data is None or value.data.dtype != np.float32 or len(value.type.shape) > rank:
        return None
    dims = (1,) * (rank - len(value.type.shape)) + value.type.shape
    if any(d != 1 for i, d in enumerate(dims) if i != axis) or dims[axis] not in (1, channels):
        return None
    return np.broadcast_to(value.data.reshape(-1), (channels,))


def batch_normalization(node: Node) -> tuple[Array, Array] | None:
    """Float64 scale and shift of an inference BatchNormalization with constant parameters.

    ONNX: y = (x - mean) / sqrt(variance + epsilon) * scale + bias.
    """
    parameters = [v.data for v in node.inputs[1:5] if v is not None and v.data is not None]
    if len(parameters) != 4 or node.attrs.get("training_mode") or len(node.outputs) > 1:
        return None
    gamma, beta, mean, variance = (p.astype(np.float64) for p in parameters)
    spread = variance + float(node.attrs.get("epsilon", 1e-5))
    if not np.all(spread > 0):
        return None
    scale = gamma / np.sqrt(spread)
    return scale, beta - mean * scale


def _merge_scale(graph: Graph, product: Node, node: Node) -> Graph:
    found = _scale_and_shift(node, product)
    assert found is not None
    scale, shift = found
    weights, bias = product.input(1), product.optional(2)
    assert weights.data is not None
    folded = _scaled(product, weights.data, scale)
    old = np.zeros(scale.size) if bias is None or bias.data is None else bias.data
    inputs: tuple[Value | None, ...] = (
        product.input(0),
        Value.constant(weights.name, folded),
        Value.constant(
            bias.name if bias is not None else f"{product.name}/bias",
            (old * scale + shift).astype(np.float32),
        ),
    )
    if bias is None and not shift.any():
        inputs = inputs[:2]
    merged = Node(
        product.op, product.name, inputs, node.outputs, product.attrs, origins(product, node)
    )
    return rebuild(graph, [merged if n is product else n for n in graph.nodes if n is not node])


def _scaled(product: Node, weights: Array, scale: Array) -> Array:
    """The weights with each output channel scaled; a ConvTranspose has them [C, O/group, ...]."""
    if product.op == "MatMul":
        return (weights * scale).astype(np.float32)
    kernel = weights.shape[2:]
    if product.op == "Conv":
        return (weights * scale.reshape(-1, *([1] * (1 + len(kernel))))).astype(np.float32)
    group = int(product.attrs.get("group", 1))
    split = weights.reshape(group, -1, weights.shape[1], *kernel)
    scaled = split * scale.reshape(group, 1, -1, *([1] * len(kernel)))
    return scaled.astype(np.float32).reshape(weights.shape)


def expand_batch_normalizations(graph: Graph) -> Graph:
    """A BatchNormalization that no product takes becomes Mul and Add of [1, C, 1, ...]."""
    nodes: list[Node] = []
    for node in graph.nodes:
        found = batch_normalization(node) if node.op == "BatchNormalization" else None
        if found is None:
            nodes.append(node)
            continue
        value, output = node.input(0), node.output
        shape = (1, -1, *([1] * (len(value.type.shape) - 2)))
        scale, shift = (a.reshape(shape).astype(value.type.dtype.numpy) for a in found)
        scaled = Value(f"{output.name}/scaled", output.type)
        scale_value = Value.constant(f"{node.name}/scale", scale)
        shift_value = Value.constant(f"{node.name}/shift", shift)
        origin = origins(node)
        nodes.append(Node("Mul", f"{node.name}/mul", (value, scale_value), (scaled,), {}, origin))
        nodes.append(Node("Add", node.name, (scaled, shift_value), (output,), {}, origin))
    return rebuild(graph, nodes)
