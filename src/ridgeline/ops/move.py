"""Move: any rearrangement of one tensor's elements, said as an index for each output element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.ops.primitive import Array, Attributes, Cost, Template, cost_of, present
from ridgeline.ops.stored import moved, same_quantisation, store

NOWHERE = -1
"""The index of an element that comes from no input: it is `fill`."""


class Move:
    """x -> the elements that `index` (int, of the output's shape) numbers in x's own order.

    `fill` is the real number where the index is NOWHERE. `function` is the Graph of one float input
    and output that this stands for: Slice, Pad, Tile, DepthToSpace, Resize to the nearest…
    """

    op = "Move"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        index: npt.NDArray[Any] = np.asarray(attrs["index"])
        if index.size and not NOWHERE <= int(index.min()) <= int(index.max()) < x.elements:
            raise RidgelineError(
                f"Move takes elements {int(index.min())} to {int(index.max())} of {x.elements}"
            )
        return (TensorType(tuple(index.shape), x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        return [_taken(x, attrs, attrs.get("fill", 0.0))]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """Stored integers, and the fill as the output stores it."""
        x: Array = present(inputs, 0, self.op)
        fill = store(np.asarray(node.attrs.get("fill", 0.0), np.float32), node)
        return [_taken(moved(x, node.input(0), node), node.attrs, fill)]

    def cost(self, node: Node) -> Cost:
        same = same_quantisation(node.input(0), node.output)
        return cost_of(node, vector_operations=0 if same else node.output.type.elements)

    def template(self, node: Node) -> Template:
        return "move"


def _taken(x: Array, attrs: Attributes, fill: Any) -> Array:
    index: npt.NDArray[Any] = np.asarray(attrs["index"])
    result = x.reshape(-1)[np.maximum(index, 0)]
    result[index == NOWHERE] = fill
    return result
