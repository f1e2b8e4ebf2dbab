"""The specification that runs: a graph interpreted node by node, float and quantised mixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.primitive import Array
from ridgeline.ops.stored import is_quantized

HostOperation = Callable[[Node, Sequence[Array | None]], Sequence[Array]]

# Their output (or input) is real by design, so the rule for the others does not read them.
_BORDERS = ("QuantizeLinear", "DequantizeLinear")


def evaluate(
    graph: Graph, inputs: Mapping[str, Any], host: HostOperation | None = None
) -> dict[int, Array]:
    """Every value of the graph by id(value), constants included.

    `inputs` holds an array for each graph input, by name, in its type's storage format. A node
    whose output and first input are quantised has its integer meaning, another its float meaning.
    An operator that is no primitive goes to `host(node, inputs)`. Raises RidgelineError for an
    input that is missing or does not fit, and for such an operator without a host.
    """
    values: dict[int, Array] = {id(v): np.asarray(v.data) for v in graph.constants()}
    values |= {id(v): np.asarray(v.data) for v in graph.outputs if v.is_constant}
    for value in graph.inputs:
        if value.name not in inputs:
            raise RidgelineError(f"no data for input '{value.name}'", where=f"graph '{graph.name}'")
        array = np.asarray(inputs[value.name])
        if array.shape != value.type.shape or array.dtype != value.type.dtype.numpy:
            raise RidgelineError(
                f"input '{value.name}' is {value.type}, the data {array.dtype}{list(array.shape)}",
                where=f"graph '{graph.name}'",
            )
        values[id(value)] = array
    for node in graph.nodes:
        arrays = [None if v is None else values[id(v)] for v in node.inputs]
        results = evaluate_node(node, arrays, host)
        values |= {id(v): r for v, r in zip(node.outputs, results, strict=True)}
    return values


def is_quantized_node(node: Node) -> bool:
    """Whether a node has its integer meaning: its first input and output are quantised."""
    first = node.optional(0)
    return first is not None and is_quantized(first) and is_quantized(node.output)


def evaluate_node(
    node: Node, inputs: Sequence[Array | None], host: HostOperation | None = None
) -> list[Array]:
    """The outputs of one node. Raises RidgelineError that names the node."""
    primitive = PRIMITIVES.get(node.op)
    where = f"node '{node.name}' ({node.op})"
    if primitive is None:
        if host is None:
            raise RidgelineError(
                f"operator {node.op} is not one of Ridgeline's and no host was given",
                where=where,
                fix="Give evaluate a host that can run it",
            )
        return list(host(node, inputs))
    if node.op in _BORDERS or is_quantized_node(node):
        return primitive.integer_meaning(node, inputs)
    first = node.optional(0)
    if first is not None and is_quantized(first) != is_quantized(node.output):
        raise RidgelineError(
            f"its input is {first.type} and its output {node.output.type}",
            where=where,
            fix="Put a QuantizeLinear or a DequantizeLinear between",
        )
    return primitive.float_meaning(inputs, node.attrs)
