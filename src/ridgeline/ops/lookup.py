"""Lookup: any function of one 8-bit value, as a table worked out when the model is quantised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.ops.primitive import Array, Attributes, Cost, Template, cost_of, present

ENTRIES = 256


class Lookup:
    """x (8 bits), table [256] -> the entry of each value. The attribute `function` is the Graph of
    one float input and output that the table stands for.
    """

    op = "Lookup"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        table: TensorType = present(inputs, 1, self.op)
        if table.shape != (ENTRIES,):
            raise RidgelineError(f"Lookup has a table of shape {table.shape}, not ({ENTRIES},)")
        return (TensorType(x.shape, table.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        raise RidgelineError(
            "Lookup is defined for stored integers only",
            fix="Evaluate the float graph before quantisation",
        )

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """Entry i belongs to the stored byte i, for int8 as two's complement.

        The entries are ONNX Runtime's: QuantizeLinear(function(DequantizeLinear(i))).
        """
        x: Array = present(inputs, 0, self.op)
        table: Array = present(inputs, 1, self.op)
        return [table[x.astype(np.int64) & (ENTRIES - 1)]]

    def cost(self, node: Node) -> Cost:
        return cost_of(node, vector_operations=node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "vector"
