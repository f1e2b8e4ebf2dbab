"""Matrix product with an optional bias: MatMul and Gemm in one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.numerics.matmul import integer_matmul
from ridgeline.numerics.requantize import requant_scale, requantize
from ridgeline.numerics.rounding import wrap
from ridgeline.ops.primitive import (
    Array,
    Attributes,
    Cost,
    Template,
    clipped,
    cost_of,
    optional,
    present,
    to_float,
)
from ridgeline.ops.stored import accumulator_bits, centred, output_bounds, quant_of, scalars_of


class MatMul:
    """a [..., m, k] × b [k, n] or [..., k, n], bias [n] or absent -> [..., m, n]."""

    op = "MatMul"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        a: TensorType = present(inputs, 0, self.op)
        b: TensorType = present(inputs, 1, self.op)
        bias: TensorType | None = optional(inputs, 2)
        if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
            raise RidgelineError(f"MatMul cannot multiply {a.shape} by {b.shape}")
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise RidgelineError(f"MatMul cannot broadcast {a.shape} with {b.shape}") from error
        if bias is not None and bias.shape != (b.shape[-1],):
            raise RidgelineError(f"MatMul has a bias of shape {bias.shape}, not ({b.shape[-1]},)")
        return (TensorType((*batch, a.shape[-2], b.shape[-1]), a.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        a: Array = present(inputs, 0, self.op)
        b: Array = present(inputs, 1, self.op)
        bias: Array | None = optional(inputs, 2)
        result = np.matmul(to_float(a), to_float(b))
        if bias is not None:
            result = result + to_float(bias)
        return [clipped(result, attrs).astype(a.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """ONNX Runtime's QLinearMatMul and QGemm: exact accumulator, then `requantize`."""
        a_value, b_value = node.input(0), node.input(1)
        bits = accumulator_bits(a_value)
        a = centred(present(inputs, 0, self.op), a_value, node)
        b = centred(present(inputs, 1, self.op), b_value, node)
        total = integer_matmul(a, b, bits)
        bias: Array | None = optional(inputs, 2)
        if bias is not None:
            total = wrap(total.astype(np.int64) + bias.astype(np.int64), bits)
        output = scalars_of(node.output, node)
        scale = requant_scale(
            scalars_of(a_value, node).scale, quant_of(b_value, node).scale, output.scale
        )
        stored = requantize(total, scale, output.zero_point, *output_bounds(node))
        return [stored.astype(node.output.type.dtype.numpy)]

    def cost(self, node: Node) -> Cost:
        """MACs: every output element × k."""
        elements = node.output.type.elements
        reduction = node.input(0).type.shape[-1]
        return cost_of(node, macs=elements * reduction, vector_operations=elements)

    def template(self, node: Node) -> Template:
        return "matmul"
