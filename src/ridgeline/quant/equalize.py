"""Results of a product that leave for float operators, brought to one size channel by channel.

A few channels of a transformer's residual stream are a hundred times larger than the rest, which a
scale for the whole tensor then rounds away. Where only float operators read a product, its columns
of weights and its bias are divided by the channels' sizes, which costs nothing as weights have a
scale a channel, and a Mul in float gives the sizes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Graph, Node, Value
from ridgeline.passes.edit import origins, rebuild
from ridgeline.quant.calibrate import watch
from ridgeline.quant.select import select_nodes

Array = npt.NDArray[Any]

# Only where the largest channel takes more than this many bits from the middle one.
_LOST_BITS = 3


class _Reach:
    """The largest magnitude of each channel, along the last axis."""

    def __init__(self) -> None:
        self.largest: Array | None = None

    def observe(self, values: Array) -> None:
        found = np.abs(values.reshape(-1, values.shape[-1])).max(axis=0, initial=0.0)
        self.largest = found if self.largest is None else np.maximum(self.largest, found)


def equalize_outputs(
    graph: Graph, samples: Mapping[str, Array], keep_float: Sequence[str]
) -> tuple[Graph, list[str]]:
    """The graph in which such products are equalised, and the names of the Muls that stay float.

    The graph computes what it did, but for the order in which float32 rounds.
    """
    candidates = _candidates(graph, keep_float)
    reaches = [_Reach() for _ in candidates]
    watch(graph, samples, [(n.output, r) for n, r in zip(candidates, reaches, strict=True)])
    made: dict[int, list[Node]] = {}
    for node, reach in zip(candidates, reaches, strict=True):
        if reach.largest is not None and _is_uneven(reach.largest):
            made[id(node)] = _equalized(node, reach.largest)
    names = [nodes[-1].name for nodes in made.values()]
    if not made:
        return graph, names
    return rebuild(graph, [m for n in graph.nodes for m in made.get(id(n), [n])]), names


def _candidates(graph: Graph, keep_float: Sequence[str]) -> list[Node]:
    """Dense products with weights that only float operators read."""
    chosen = {id(n) for n in select_nodes(graph, keep_float)}
    users = graph.users()
    outputs = {id(v) for v in graph.outputs}
    return [
        node
        for node in graph.nodes
        if id(node) in chosen
        and node.op == "MatMul"
        and node.input(1).is_constant
        and len(node.input(1).type.shape) == 2
        and "clip" not in node.attrs
        and id(node.output) not in outputs
        and not any(id(reader) in chosen for reader in users.get(id(node.output), []))
    ]


def _is_uneven(largest: Array) -> bool:
    middle = float(np.median(largest))
    return 0 < middle * 2**_LOST_BITS < float(largest.max())


def _equalized(node: Node, largest: Array) -> list[Node]:
    """The product with results of one size, and the Mul that makes what it made."""
    # No channel is raised beyond what its own quantisation would resolve.
    sizes = np.maximum(largest / largest.max(), 2.0**-16).astype(np.float32)
    weights, bias = node.input(1), node.optional(2)
    assert weights.data is not None
    scaled: list[Value | None] = [node.input(0), replace(weights, data=weights.data / sizes)]
    if bias is not None and bias.data is not None:
        scaled.append(replace(bias, data=bias.data / sizes))
    result = Value(f"{node.output.name}/equalized", node.output.type)
    product = replace(node, inputs=tuple(scaled), outputs=(result,))
    back = Value.constant(f"{node.output.name}/sizes", sizes)
    name = f"{node.name}/sizes"
    return [product, Node("Mul", name, (result, back), node.outputs, {}, origins(node))]
