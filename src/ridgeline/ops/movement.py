"""Reshape, Transpose and Concat: elements move, and change only where the quantisation does."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.ops.primitive import Array, Attributes, Cost, Template, cost_of, present
from ridgeline.ops.stored import moved, same_quantisation


class Reshape:
    """The same elements in the same order under another shape, fully known."""

    op = "Reshape"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        shape = tuple(int(d) for d in attrs["shape"])
        if prod(shape) != x.elements or any(d < 0 for d in shape):
            raise RidgelineError(f"Reshape cannot turn {x.shape} into {shape}")
        return (TensorType(shape, x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        return [x.reshape(tuple(int(d) for d in attrs["shape"]))]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        return _moved_first(self.float_meaning(inputs, node.attrs), node)

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=_requantized_elements(node))

    def template(self, node: Node) -> Template:
        return _movement_template(node)


class Transpose:
    """Output dimension i is input dimension perm[i]."""

    op = "Transpose"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        perm = tuple(int(d) for d in attrs["perm"])
        if sorted(perm) != list(range(len(x.shape))):
            raise RidgelineError(f"Transpose has perm {perm} for an input of shape {x.shape}")
        return (TensorType(tuple(x.shape[d] for d in perm), x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        return [np.ascontiguousarray(x.transpose(tuple(int(d) for d in attrs["perm"])))]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        return _moved_first(self.float_meaning(inputs, node.attrs), node)

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=_requantized_elements(node))

    def template(self, node: Node) -> Template:
        return _movement_template(node)


class Concat:
    """The inputs one after another along `axis`."""

    op = "Concat"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        first: TensorType = present(inputs, 0, self.op)
        types: list[TensorType] = [present(inputs, i, self.op) for i in range(len(inputs))]
        axis = int(attrs["axis"])
        if not 0 <= axis < len(first.shape):
            raise RidgelineError(f"Concat has axis {axis} for inputs of shape {first.shape}")
        rest = [t.shape[:axis] + t.shape[axis + 1 :] for t in types]
        if any(len(t.shape) != len(first.shape) for t in types) or len(set(rest)) != 1:
            shapes = ", ".join(str(t.shape) for t in types)
            raise RidgelineError(f"Concat along axis {axis} has inputs that do not fit: {shapes}")
        length = sum(t.shape[axis] for t in types)
        shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        return (TensorType(shape, first.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        arrays: list[Any] = [present(inputs, i, self.op) for i in range(len(inputs))]
        return [np.concatenate(arrays, axis=int(attrs["axis"]))]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """Each input as the output stores it (a table where that differs), then joined."""
        arrays = [
            moved(present(inputs, i, self.op), node.input(i), node) for i in range(len(inputs))
        ]
        return self.float_meaning(arrays, node.attrs)

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=_requantized_elements(node))

    def template(self, node: Node) -> Template:
        return _movement_template(node)


def _moved_first(arrays: list[Array], node: Node) -> list[Array]:
    return [moved(arrays[0], node.input(0), node)]


def _requantized_elements(node: Node) -> int:
    """Elements whose stored integer changes because the quantisation does."""
    values = [v for v in node.inputs if v is not None]
    return sum(v.type.elements for v in values if not same_quantisation(v, node.output))


def _movement_template(node: Node) -> Template:
    return "vector" if _requantized_elements(node) else "move"
