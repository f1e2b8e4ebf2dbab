"""DequantizeLinear, operator, QuantizeLinear become one quantised node, where integers can say it.

What stays in float between DequantizeLinear and QuantizeLinear stays as the file has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.frontend.evaluate import evaluate_constant
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.numerics.formats import INT32
from ridgeline.numerics.quantize import dequantize
from ridgeline.passes.edit import Uses, origins, rebuild
from ridgeline.passes.functions import fuse_functions, inline_functions, with_table
from ridgeline.passes.moves import fuse_moves

# New nodes in the place of the nodes (by id) that they stand for; None leaves the node.
Change = tuple[Node, list[Node], tuple[Node, ...]]

_MOVES = ("Reshape", "Transpose", "Move", "MaxPool")
_COLLAPSED = (
    *_MOVES,
    "Conv",
    "MatMul",
    "Add",
    "Mul",
    "Sub",
    "Max",
    "Min",
    "PRelu",
    "Clip",
    "AveragePool",
    "GlobalAveragePool",
)
_MAX_ACTIVATION_BITS = 16


def absorb_qdq(graph: Graph) -> Graph:
    """The graph with every expressible DequantizeLinear - operator - QuantizeLinear collapsed."""
    graph = fuse_moves(fuse_functions(graph), evaluate_constant)
    for rule in (collapse, sink_dequantize, hoist_quantize, collapse):
        graph = _exhaust(graph, rule)
    return cancel_pairs(inline_functions(graph))


def _exhaust(graph: Graph, rule: Callable[[Node, Uses], Change | None]) -> Graph:
    while True:
        uses = Uses(graph)
        made: dict[int, list[Node]] = {}
        gone: set[int] = set()
        for node in graph.nodes:
            change = rule(node, uses)
            if change is None:
                continue
            place, nodes, removed = change
            if (
                gone.isdisjoint(map(id, removed))
                and id(place) not in gone
                and id(place) not in made
            ):
                made[id(place)] = nodes
                gone.update(id(n) for n in removed)
        if not made:
            return graph
        kept: list[Node] = []
        for node in graph.nodes:
            kept.extend(made.get(id(node), [] if id(node) in gone else [node]))
        graph = rebuild(graph, kept)


def collapse(node: Node, uses: Uses) -> Change | None:
    """The quantised node in the place of its QuantizeLinear."""
    if node.op not in (*_COLLAPSED, "Concat", "Lookup"):
        return None
    quantise = uses.sole_reader(node.output)
    if quantise is None or quantise.op != "QuantizeLinear" or not _is_activation(quantise.output):
        return None
    if node.op == "PRelu":
        return _sloped(node, quantise, uses)
    stored = [_stored(v, uses) for v in node.inputs]
    if any(s is None for s in stored[:2]) or not stored:
        return None
    inputs = [s for s in stored if s is not None]
    if node.op == "Lookup":
        return _tabulated(node, inputs[0], quantise)
    if node.op in ("Conv", "MatMul"):
        bias = node.optional(2)
        product = _product_inputs(node, inputs[:2], bias, _stored(bias, uses))
        if product is None:
            return None
        inputs = product
    elif len(inputs) != len(stored) or not all(_is_activation(v) for v in inputs):
        return None
    made = Node(
        node.op, node.name, tuple(inputs), quantise.outputs, node.attrs, origins(node, quantise)
    )
    return quantise, [made], (node,)


def _sloped(node: Node, quantise: Node, uses: Uses) -> Change | None:
    """PRelu on integers; its slope stays real."""
    x, slope = _stored(node.input(0), uses), node.input(1)
    stored = _stored(slope, uses)
    if stored is not None and stored.data is not None and stored.type.quant is not None:
        slope = Value.constant(slope.name, dequantize(stored.data, stored.type.quant))
    if x is None or not _is_activation(x) or not slope.is_constant:
        return None
    origin = origins(node, quantise)
    made = Node(node.op, node.name, (x, slope), quantise.outputs, node.attrs, origin)
    return quantise, [made], (node,)


def _tabulated(node: Node, x: Value, quantise: Node) -> Change | None:
    y = quantise.output
    if not _is_activation(x) or x.type.dtype.bits != 8 or y.type.dtype.bits != 8:
        return None
    made = with_table(replace(node, origin=origins(node, quantise)), x, y)
    return quantise, [made], (node,)


def _stored(value: Value | None, uses: Uses) -> Value | None:
    """The integers behind a value that a DequantizeLinear makes."""
    producer = uses.producer(value)
    if producer is None or producer.op != "DequantizeLinear":
        return None
    return producer.input(0)


def _is_activation(value: Value) -> bool:
    quant = value.type.quant
    return quant is not None and quant.axis is None and value.type.dtype.bits in (8, 16)


def _product_inputs(
    node: Node, operands: list[Value], bias: Value | None, stored_bias: Value | None
) -> list[Value] | None:
    x, w = operands
    quant = w.type.quant
    channel_axis = 0 if node.op == "Conv" else len(w.type.shape) - 1
    if not _is_activation(x) or quant is None or quant.block or w.type.dtype.bits != 8:
        return None
    if quant.axis is not None and (
        quant.axis % len(w.type.shape) != channel_axis or not w.is_constant
    ):
        return None
    if node.op == "Conv" and not w.is_constant:
        return None
    if bias is None:
        return [x, w]
    joined = _integer_bias(bias if stored_bias is None else stored_bias, x, quant)
    return None if joined is None else [x, w, joined]


def _integer_bias(bias: Value, x: Value, weights: Quant) -> Value | None:
    """The bias in int32 with the scale of the products, x.scale * w.scale.

    ONNX Runtime adds the stored int32 whatever scale the file gives it; a scale that differs is
    requantised here, since then the file's real numbers are meant.
    """
    if bias.data is None or x.type.quant is None:
        return None
    scale = (x.type.quant.scale * weights.scale).astype(np.float32)
    target = Quant(scale, np.zeros(scale.shape, np.int32), None if scale.ndim == 0 else 0)
    given = bias.type.quant
    type = TensorType(bias.type.shape, INT32, target)
    if given is not None and _nearly(given, scale) and bias.type.dtype is INT32:
        return Value(bias.name, type, bias.data)
    if given is not None:
        zero = given.zero_point.astype(np.float64)
        real = (bias.data.astype(np.float64) - zero) * given.scale
    elif bias.type.dtype.is_float:
        real = bias.data.astype(np.float64)
    else:
        return None
    steps = np.rint(real / scale.astype(np.float64))
    if np.abs(steps).max(initial=0) > INT32.high:
        return None
    return Value(bias.name, type, steps.astype(np.int32))


def _nearly(quant: Quant, scale: npt.NDArray[np.float32]) -> bool:
    near = np.allclose(quant.scale, scale, rtol=1e-3, atol=0)
    return near and not quant.zero_point.any()


def sink_dequantize(node: Node, uses: Uses) -> Change | None:
    """DequantizeLinear, move -> move of integers, DequantizeLinear: the same real numbers.

    Concat too, when all its inputs have one quantisation. A weight's channel axis moves along
    with a Transpose.
    """
    if node.op not in (*_MOVES, "Concat") or node.attrs.get("fill"):
        return None
    stored = [v for v in (_stored(i, uses) for i in node.inputs) if v is not None]
    if not stored or len(stored) != len(node.inputs):
        return None
    first = stored[0].type
    if any(v.type.dtype is not first.dtype for v in stored) or first.quant is None:
        return None
    if not all(first.quant.equals(v.type.quant) for v in stored):
        return None
    quant = _moved_quant(first.quant, node)
    if quant is None or (node.op == "MaxPool" and first.dtype.bits != 8):
        return None
    output = node.output
    type = TensorType(output.type.shape, first.dtype, quant)
    moved = Value(f"{output.name}/stored", type, _moved_data(stored[0], node))
    move = Node(node.op, node.name, tuple(stored), (moved,), node.attrs, origins(node))
    dequantise = Node(
        "DequantizeLinear", f"{node.name}/dequantize", (moved,), (output,), {}, origins(node)
    )
    return node, [dequantise] if moved.is_constant else [move, dequantise], ()


def _moved_data(stored: Value, node: Node) -> npt.NDArray[Any] | None:
    """The moved integers of a weight, so that what reads them sees a constant again."""
    if stored.data is None or node.op not in ("Reshape", "Transpose"):
        return None
    if node.op == "Reshape":
        return stored.data.reshape(node.output.type.shape)
    return np.ascontiguousarray(stored.data.transpose(node.attrs["perm"]))


def _moved_quant(quant: Quant, node: Node) -> Quant | None:
    if quant.axis is None:
        return quant
    if node.op != "Transpose" or quant.block:
        return None
    rank = len(node.output.type.shape)
    axis = tuple(node.attrs["perm"]).index(quant.axis % rank)
    return Quant(quant.scale, quant.zero_point, axis)


def hoist_quantize(node: Node, uses: Uses) -> Change | None:
    """Move, QuantizeLinear -> QuantizeLinear, move of integers: rounding is monotonic."""
    quantise = uses.sole_reader(node.output) if node.op in _MOVES else None
    if quantise is None or quantise.op != "QuantizeLinear" or not _is_activation(quantise.output):
        return None
    source, type = node.input(0), quantise.output.type
    if not source.type.dtype.is_float or source.is_constant:
        return None
    if node.op == "MaxPool" and type.dtype.bits != 8:
        return None
    stored = Value(f"{source.name}/stored", TensorType(source.type.shape, type.dtype, type.quant))
    first = Node("QuantizeLinear", quantise.name, (source,), (stored,), {}, origins(quantise))
    move = Node(node.op, node.name, (stored,), quantise.outputs, node.attrs, origins(node))
    return quantise, [first, move], (node,)


def cancel_pairs(graph: Graph) -> Graph:
    """DequantizeLinear followed by QuantizeLinear: nothing when the parameters are the same.

    Otherwise the QuantizeLinear reads the integers and is a requantisation.
    """
    uses = Uses(graph)
    replaced: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        stored = _stored(node.optional(0), uses) if node.op == "QuantizeLinear" else None
        if stored is None or not _is_activation(stored):
            nodes.append(node)
        elif _same(stored, node.output) and not uses.is_output(node.output):
            replaced[id(node.output)] = stored
        else:
            origin = origins(node)
            made = Node("QuantizeLinear", node.name, (stored,), node.outputs, node.attrs, origin)
            nodes.append(made)
    return rebuild(graph, nodes, replaced)


def _same(a: Value, b: Value) -> bool:
    if a.type.dtype is not b.type.dtype or a.type.quant is None:
        return False
    return a.type.quant.equals(b.type.quant)
