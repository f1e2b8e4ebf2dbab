"""Weights of fewer bits, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.ir import Graph, Node, Quant, Value
from ridgeline.ops.stored import quant_of

LEAST_BITS, MOST_BITS = 2, 8
EVERY = "*"
"""Stands for every layer that has weights and is not named itself."""


def narrowed(graph: Graph, bits: Mapping[str, int]) -> Graph:
    """The quantised graph with the weights of the named layers rounded to so many bits.

    Each channel (the whole, where it has one scale) is scaled anew, so that its largest weight is
    the largest number of those bits; biases, whose steps change with it, are rounded too. The graph
    means what it computes then: its integers stay those of 8-bit types. Raises RidgelineError for
    bits beyond 2 to 8 and for a name that no layer with weights has.
    """
    nodes = {node.name: node for node in graph.nodes if _has_weights(node)}
    for name, count in bits.items():
        if name != EVERY and name not in nodes:
            raise RidgelineError(
                f"no layer with weights is called '{name}'", where="--bits",
                fix=did_you_mean(name, nodes),
            )  # fmt: skip
        if not LEAST_BITS <= count <= MOST_BITS:
            raise RidgelineError(
                f"{count} bits for the weights of '{name}'", where="--bits",
                fix=f"From {LEAST_BITS} to {MOST_BITS} are built",
            )  # fmt: skip
    changed: dict[int, Value] = {}
    for name, node in nodes.items():
        count = bits.get(name, bits.get(EVERY, MOST_BITS))
        if count < MOST_BITS:
            changed |= _narrow(node, count)
    return _replaced(graph, changed)


def _has_weights(node: Node) -> bool:
    if node.op not in ("Conv", "MatMul"):
        return False
    value = node.optional(1)
    return value is not None and value.data is not None and value.type.quant is not None


def _narrow(node: Node, bits: int) -> dict[int, Value]:
    value = node.input(1)
    quant = quant_of(value, node)
    shape = [1] * len(value.type.shape)
    if quant.axis is not None:
        shape[quant.axis] = -1
    zero = np.asarray(quant.zero_point, np.int64)
    centred = np.asarray(value.data).astype(np.int64) - zero.reshape(shape)
    axes = tuple(i for i in range(centred.ndim) if i != quant.axis)
    largest = np.abs(centred).max(axis=axes, keepdims=True)
    most = (1 << (bits - 1)) - 1
    # float64 throughout: the new scale is rounded to float32 once.
    ratio = np.where(largest > most, largest / most, 1.0)
    stored = np.clip(np.rint(centred / ratio), -most, most).astype(np.int64)
    scale = np.asarray(quant.scale, np.float64).reshape(shape) * ratio
    new = Quant(
        scale.astype(np.float32).reshape(np.shape(quant.scale)), quant.zero_point, quant.axis
    )
    made = Value(
        value.name,
        replace(value.type, quant=new),
        (stored + zero.reshape(shape)).astype(np.asarray(value.data).dtype),
    )
    changed = {id(value): made}
    bias = node.optional(2)
    if bias is not None and bias.data is not None:
        steps = np.rint(np.asarray(bias.data, np.float64).reshape(-1) / ratio.reshape(-1))
        data = np.clip(steps, -(2**31), 2**31 - 1).astype(np.asarray(bias.data).dtype)
        changed[id(bias)] = replace(bias, data=data.reshape(np.shape(bias.data)))
    return changed


def _replaced(graph: Graph, changed: Mapping[int, Value]) -> Graph:
    """The graph with other constants; nodes that read none of them stay as they are."""
    if not changed:
        return graph
    nodes = tuple(
        replace(node, inputs=tuple(v if v is None else changed.get(id(v), v) for v in node.inputs))
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes).check()
