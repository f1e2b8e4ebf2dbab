"""A per-channel scale or shift before a Conv or MatMul joins its weights and bias.

`fold` has made BatchNormalization a Mul and an Add. With padding only a scale may: a shift would
have to reach the padding too, which stays zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Graph, Node, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import Uses, origins, rebuild
from ridgeline.passes.fold import per_channel

Array = npt.NDArray[Any]


def fold_before(graph: Graph) -> Graph:
    """The graph with every such scale and shift gone, until none is left."""
    while True:
        uses = Uses(graph)
        found = next((m for n in graph.nodes if (m := _merged(n, uses)) is not None), None)
        if found is None:
            return graph
        before, product, merged = found
        kept = [merged if n is product else n for n in graph.nodes if n is not before]
        graph = rebuild(graph, kept)


def _merged(product: Node, uses: Uses) -> tuple[Node, Node, Node] | None:
    """(the node before, the product, the product that stands for both)."""
    if product.op not in ("Conv", "MatMul"):
        return None
    weights, bias = product.input(1), product.optional(2)
    before = uses.producer(product.input(0))
    if before is None or uses.sole_reader(before.output) is not product:
        return None
    if weights.data is None or weights.type.dtype is not FP32 or weights.type.quant is not None:
        return None
    if bias is not None and (bias.data is None or bias.type.quant is not None):
        return None
    if product.op == "MatMul" and len(weights.type.shape) != 2:
        return None
    found = _scale_and_shift(before, product)
    if found is None or (found[1].any() and any(product.attrs.get("pads", ()))):
        return None
    source = next(v for v in before.inputs if v is not None and not v.is_constant)
    inputs = (source, *_parameters(product, *found))
    origin = origins(before, product)
    merged = Node(product.op, product.name, inputs, product.outputs, product.attrs, origin)
    return before, product, merged


def _scale_and_shift(node: Node, product: Node) -> tuple[Array, Array] | None:
    """Float64 scale and shift of each channel of the product's input, or None."""
    shape = node.output.type.shape
    axis = 1 if product.op == "Conv" else len(shape) - 1
    if node.op not in ("Mul", "Add") or "clip" in node.attrs:
        return None
    constant = next((v for v in node.inputs if v is not None and v.is_constant), None)
    if constant is None or all(v is None or v.is_constant for v in node.inputs):
        return None
    source = next(v for v in node.inputs if v is not None and not v.is_constant)
    channels = shape[axis]
    values = per_channel(constant, axis, len(shape), channels)
    if values is None or source.type.shape != shape:
        return None
    real = values.astype(np.float64)
    neutral = (np.ones(channels), np.zeros(channels))
    return (real, neutral[1]) if node.op == "Mul" else (neutral[0], real)


def _parameters(product: Node, scale: Array, shift: Array) -> list[Value]:
    """W scaled along its inputs, and the bias plus W shift."""
    weights, bias = product.input(1), product.optional(2)
    assert weights.data is not None
    real = weights.data.astype(np.float64)
    if product.op == "MatMul":
        scaled, added = real * scale[:, None], shift @ real
    else:
        # Output channel o of group o // (O / group) reads the channels of that group.
        group, outputs = int(product.attrs["group"]), real.shape[0]
        of_output = np.repeat(np.arange(group), outputs // group)
        wide = (..., *([None] * (real.ndim - 2)))
        scaled = real * scale.reshape(group, -1)[of_output][wide]
        taps = (real * shift.reshape(group, -1)[of_output][wide]).reshape(outputs, -1)
        added = taps.sum(axis=1)
    values = [Value.constant(weights.name, scaled.astype(np.float32))]
    if bias is not None or shift.any():
        old = 0.0 if bias is None or bias.data is None else bias.data.astype(np.float64)
        name = f"{product.name}/bias" if bias is None else bias.name
        values.append(Value.constant(name, (old + added).astype(np.float32)))
    return values
