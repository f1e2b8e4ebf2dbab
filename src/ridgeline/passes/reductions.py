"""Reductions along any axes as pooling: the kept axes become channels, the others one window.

Only where products or the model's outputs read the result, as behind a backbone. Within a
normalisation that is spelled out, a mean in integers would cost precision and save nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import Uses, rebuild
from ridgeline.passes.normalizations import reduced_axes

MOST_SIDE = 255
"""Height and width of a window that an instruction holds, at most."""
_REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceSumSquare")
_MOVES = ("Reshape", "Transpose")
_PRODUCTS = ("Conv", "MatMul")


def lower_reductions(graph: Graph) -> Graph:
    """Every such reduction of float32 over at most 255 x 255 elements."""
    uses = Uses(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        sides = _sides(node)
        lowered = sides is not None and _is_read_by_products(node.output, uses)
        nodes += _Lowering(node, sides).nodes() if sides and lowered else [node]
    return rebuild(graph, nodes)


def _sides(node: Node) -> tuple[int, int] | None:
    """(height, width) of the window, where the reduction can be one."""
    if node.op not in _REDUCTIONS:
        return None
    x, given = node.input(0), node.optional(1)
    if x.type.dtype is not FP32 or x.is_constant or not x.type.elements or not x.type.shape:
        return None
    if given is not None and given.data is None:
        return None
    axes = reduced_axes(node, len(x.type.shape))
    count = prod(x.type.shape[a] for a in axes)
    heights = [h for h in range(1, isqrt(count) + 1) if count % h == 0]
    fitting = [(h, count // h) for h in heights if count // h <= MOST_SIDE]
    return fitting[0] if axes and fitting else None


def _is_read_by_products(value: Value, uses: Uses) -> bool:
    """Directly or behind moves; an output of the model counts as such a reader."""
    readers = uses.readers(value)
    if uses.is_output(value) and not readers:
        return True
    return bool(readers) and all(
        _is_read_by_products(n.output, uses)
        if n.op in _MOVES
        else n.op in _PRODUCTS and n.input(0) is value
        for n in readers
    )


class _Lowering:
    """One reduction under way."""

    def __init__(self, node: Node, sides: tuple[int, int]) -> None:
        self.node = node
        self.sides = sides
        shape = node.input(0).type.shape
        self.reduced = reduced_axes(node, len(shape))
        self.kept = [a for a in range(len(shape)) if a not in self.reduced]
        # The first axis stays that of the images, so that none lies among another's channels.
        images = shape[0] if 0 in self.kept and len(self.kept) > 1 else 1
        channels = prod(shape[a] for a in self.kept) // images
        self.image = (images, channels, *sides)
        self.pooled = (images, channels, 1, 1)
        self.made: list[Node] = []

    def nodes(self) -> list[Node]:
        x = self.node.input(0)
        if self.node.op == "ReduceSumSquare":
            x = self._add("Mul", "squares", (x, x), x.type.shape, {})
        if self.node.op == "ReduceMin":
            x = self._scaled(x, "negative", -1.0)
        perm = (*self.kept, *self.reduced)
        if perm != tuple(range(len(perm))):
            shape = tuple(x.type.shape[p] for p in perm)
            x = self._add("Transpose", "moved", (x,), shape, {"perm": perm})
        x = self._add("Reshape", "image", (x,), self.image, {"shape": self.image})
        x = self._pooled(x)
        if self.node.op == "ReduceMin":
            x = self._scaled(x, "least", -1.0)
        if self.node.op in ("ReduceSum", "ReduceSumSquare"):
            x = self._scaled(x, "sum", float(prod(self.sides)))
        shape = self.node.output.type.shape
        attrs = {"shape": shape}
        origin = self._origin()
        last = Node("Reshape", self.node.name, (x,), self.node.outputs, attrs, origin)
        return [*self.made, last]

    def _pooled(self, x: Value) -> Value:
        if self.node.op not in ("ReduceMax", "ReduceMin"):
            return self._add("GlobalAveragePool", "mean", (x,), self.pooled, {})
        window = {
            "kernel_shape": self.sides,
            "strides": (1, 1),
            "pads": (0, 0, 0, 0),
            "dilations": (1, 1),
        }
        return self._add("MaxPool", "largest", (x,), self.pooled, window)

    def _scaled(self, x: Value, name: str, factor: float) -> Value:
        scale = Value.constant(f"{self.node.name}/{name}", np.array([factor], np.float32))
        return self._add("Mul", name, (x, scale), x.type.shape, {})

    def _add(
        self,
        op: str,
        name: str,
        inputs: tuple[Value, ...],
        shape: Sequence[int],
        attrs: dict[str, Any],
    ) -> Value:
        y = Value(f"{self.node.output.name}/{name}", TensorType(tuple(shape), FP32))
        self.made.append(Node(op, f"{self.node.name}/{name}", inputs, (y,), attrs, self._origin()))
        return y

    def _origin(self) -> tuple[str, ...]:
        return self.node.origin or (self.node.name,)
