"""Softmax, which runs on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.numerics.qlinear import qlinear_softmax
from ridgeline.ops.primitive import Array, Attributes, Cost, Template, cost_of, present, to_float
from ridgeline.ops.stored import (
    all_eight_bits,
    output_bounds,
    real,
    scalars_of,
    store,
    within_bounds,
)


class Softmax:
    """exp(x - max) over its sum, along `axis`."""

    op = "Softmax"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        axis = int(attrs["axis"])
        if not -len(x.shape) <= axis < len(x.shape):
            raise RidgelineError(f"Softmax has axis {axis} for an input of shape {x.shape}")
        return (TensorType(x.shape, x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        axis = int(attrs["axis"])
        shifted = to_float(x)
        exponential = np.exp(shifted - shifted.max(axis=axis, keepdims=True))
        total = exponential.sum(axis=axis, keepdims=True, dtype=np.float32)
        return [(exponential / total).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """ONNX Runtime's QLinearSoftmax for 8-bit values; else float32 between Q and DQ."""
        x: Array = present(inputs, 0, self.op)
        axis = int(node.attrs["axis"])
        if not all_eight_bits(node):
            return [store(self.float_meaning([real(x, node.input(0), node)], node.attrs)[0], node)]
        last = np.moveaxis(x, axis, -1)
        source, output = scalars_of(node.input(0), node), scalars_of(node.output, node)
        result = qlinear_softmax(last, source, output, *output_bounds(node))
        return [np.ascontiguousarray(np.moveaxis(within_bounds(result, node), -1, axis))]

    def cost(self, node: Node) -> Cost:
        """Vector operations: maximum, exponential, sum and division of every element."""
        return cost_of(node, vector_operations=4 * node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "host"
