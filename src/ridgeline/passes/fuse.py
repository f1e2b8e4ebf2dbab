"""Bias, activation and padding join the operator that they belong to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ridgeline.ir import Graph, Node, Value
from ridgeline.passes.edit import Uses, origins, rebuild, with_attrs
from ridgeline.passes.fold import per_channel

Merge = Callable[[Node, Uses], tuple[Node, Node] | None]

_CLIPPED = ("Conv", "MatMul", "Add", "Mul")


def fuse(graph: Graph) -> Graph:
    """Pad into Conv, Add of a constant into the bias, Clip into the operator before it.

    A rule merges a node with the one that makes its input, when no one else reads that input.
    """
    for rule in (merge_pad, merge_bias):
        graph = _apply(graph, rule)
    return _apply(raise_clips(graph), merge_clip)


def _apply(graph: Graph, rule: Merge) -> Graph:
    """Apply one rule until it finds no more, in one walk for each chain."""
    while True:
        uses = Uses(graph)
        merged: dict[int, Node] = {}
        gone: set[int] = set()
        for node in graph.nodes:
            found = rule(node, uses)
            if found is None or id(found[0]) in gone or id(found[0]) in merged:
                continue
            producer, result = found
            gone.add(id(producer))
            merged[id(node)] = result
        if not merged:
            return graph
        kept = [merged.get(id(n), n) for n in graph.nodes if id(n) not in gone]
        graph = rebuild(graph, kept)


def _producer(node: Node, index: int, uses: Uses) -> Node | None:
    """The node that makes input `index`, when `node` is its only reader."""
    value = node.optional(index)
    producer = uses.producer(value)
    return producer if value is not None and uses.sole_reader(value) is node else None


def merge_clip(node: Node, uses: Uses) -> tuple[Node, Node] | None:
    """Clip after Conv, MatMul, Add or Mul becomes its `clip`, within one that it has already."""
    if node.op != "Clip":
        return None
    producer = _producer(node, 0, uses)
    if producer is None or producer.op not in (*_CLIPPED, "Clip"):
        return None
    low, high = node.attrs.get("min"), node.attrs.get("max")
    if producer.op == "Clip":
        earlier = (producer.attrs.get("min"), producer.attrs.get("max"))
        low, high = _compose(earlier, (low, high))
        return producer, _after(producer, node, with_attrs(node, min=low, max=high))
    clip = _compose(producer.attrs.get("clip") or (None, None), (low, high))
    return producer, _after(producer, node, with_attrs(producer, clip=clip))


def raise_clips(graph: Graph) -> Graph:
    """Clip after MaxPool, Reshape or Transpose goes before it: it is monotonic, element by element.

    There it can join the operator that makes the values.
    """
    while True:
        uses = Uses(graph)
        found = next(((n, m) for n in graph.nodes if (m := _raised(n, uses)) is not None), None)
        if found is None:
            return graph
        node, (move, swapped) = found
        kept = [n for n in graph.nodes if n is not move]
        graph = rebuild(graph, [s for n in kept for s in (swapped if n is node else [n])])


def _raised(node: Node, uses: Uses) -> tuple[Node, list[Node]] | None:
    move = _producer(node, 0, uses) if node.op == "Clip" else None
    if move is None or move.op not in ("MaxPool", "Reshape", "Transpose"):
        return None
    source = uses.producer(move.input(0))
    if source is None or uses.sole_reader(move.input(0)) is not move:
        return None
    if source.op not in (*_CLIPPED, "MaxPool", "Reshape", "Transpose", "Clip"):
        return None
    clipped = Value(f"{move.input(0).name}/clipped", move.input(0).type)
    clip = Node("Clip", node.name, (move.input(0),), (clipped,), node.attrs, node.origin)
    after = Node(move.op, move.name, (clipped,), node.outputs, move.attrs, move.origin)
    return move, [clip, after]


def _compose(
    first: tuple[float | None, float | None], second: tuple[float | None, float | None]
) -> tuple[float | None, float | None]:
    """The bounds of clip(clip(x, first), second): the first's, moved into the second's."""
    bounds = [b for b in second if b is not None]
    if not bounds:
        return first
    low, high = (-np.inf if second[0] is None else second[0]), (second[1])
    high = np.inf if high is None else high
    moved = [None if b is None else float(min(max(b, low), high)) for b in first]
    return (
        second[0] if moved[0] is None else moved[0],
        second[1] if moved[1] is None else moved[1],
    )


def _after(producer: Node, node: Node, attrs: dict[str, object]) -> Node:
    """The producer with other attributes, making what `node` made."""
    return Node(
        producer.op, producer.name, producer.inputs, node.outputs, attrs, origins(producer, node)
    )


def merge_bias(node: Node, uses: Uses) -> tuple[Node, Node] | None:
    """Add of one number per channel after Conv or MatMul becomes its bias.

    The number may be a constant, or (in a quantised file) the DequantizeLinear of one.
    """
    if node.op != "Add" or len(node.inputs) != 2:
        return None
    for index in (0, 1):
        producer = _producer(node, index, uses)
        if producer is None or producer.op not in ("Conv", "MatMul") or "clip" in producer.attrs:
            continue
        if producer.output.type.shape != node.output.type.shape:
            continue
        bias = _joined_bias(producer, node.input(1 - index), uses)
        if bias is not None:
            inputs = (*producer.inputs[:2], bias)
            attrs = with_attrs(producer, clip=node.attrs.get("clip"))
            origin = origins(producer, node)
            return producer, Node(producer.op, producer.name, inputs, node.outputs, attrs, origin)
    return None


def _joined_bias(product: Node, addend: Value, uses: Uses) -> Value | None:
    shape = product.output.type.shape
    axis = 1 if product.op == "Conv" else len(shape) - 1
    if product.op == "MatMul" and (
        not _is_weight(product.input(1), uses) or len(product.input(1).type.shape) != 2
    ):
        return None
    old = product.optional(2)
    if addend.data is None:
        fits = addend.type.shape == (shape[axis],) and axis == len(shape) - 1
        return addend if fits and old is None and _is_weight(addend, uses) else None
    added = per_channel(addend, axis, len(shape), shape[axis])
    if added is None or (old is not None and old.data is None):
        return None
    if old is None or old.data is None:
        return Value.constant(addend.name, np.ascontiguousarray(added))
    return Value.constant(old.name, (old.data + added).astype(np.float32))


def _is_weight(value: Value, uses: Uses) -> bool:
    """A constant, or the DequantizeLinear of one."""
    producer = uses.producer(value)
    if producer is None:
        return value.is_constant
    return producer.op == "DequantizeLinear" and producer.input(0).is_constant


def merge_pad(node: Node, uses: Uses) -> tuple[Node, Node] | None:
    """Pad with zeros before Conv becomes its padding."""
    if node.op != "Conv":
        return None
    pad = _producer(node, 0, uses)
    if pad is None or pad.op != "Pad" or pad.attrs.get("mode", "constant") != "constant":
        return None
    pads, value = pad.input(1).data, pad.optional(2)
    if pads is None or pad.optional(3) is not None:
        return None
    if value is not None and (value.data is None or float(value.data) != 0.0):
        return None
    rank = len(node.input(0).type.shape)
    begins, ends = [int(p) for p in pads[:rank]], [int(p) for p in pads[rank:]]
    if any(begins[:2]) or any(ends[:2]) or min(begins + ends) < 0:
        return None
    added = begins[2:] + ends[2:]
    total = tuple(int(a) + b for a, b in zip(node.attrs["pads"], added, strict=True))
    inputs = (pad.input(0), *node.inputs[1:])
    attrs = with_attrs(node, pads=total)
    return pad, Node("Conv", node.name, inputs, node.outputs, attrs, origins(pad, node))
