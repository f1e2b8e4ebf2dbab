"""QuantizeLinear and DequantizeLinear: the borders between real numbers and stored integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.ir import Node, TensorType
from ridgeline.numerics.formats import FP32, UINT8
from ridgeline.ops.primitive import Array, Attributes, Cost, Template, cost_of, present
from ridgeline.ops.stored import is_quantized, real, store


class QuantizeLinear:
    """Real to stored, by the quantisation of the output's type.

    Its input may itself be quantised; then this is a requantisation. `infer` gives ONNX's default
    uint8, which the caller replaces by the format it chose. The float meaning is the identity.
    """

    op = "QuantizeLinear"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        return (TensorType(x.shape, UINT8),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        return [present(inputs, 0, self.op)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        value = node.input(0)
        return [store(real(x, value, node) if is_quantized(value) else x, node)]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "vector" if is_quantized(node.input(0)) else "host"


class DequantizeLinear:
    """Stored to real, by the input type's quantisation. The float meaning is the identity."""

    op = "DequantizeLinear"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        return (TensorType(x.shape, FP32),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        return [present(inputs, 0, self.op)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        result = real(present(inputs, 0, self.op), node.input(0), node)
        return [np.asarray(result, node.output.type.dtype.numpy)]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "host"
