"""Operators that only rearrange one tensor, as nodes `Move` whose index ONNX Runtime itself finds.

The operator is run once on the numbers of its input's elements: what comes out says where each
output element comes from. So Slice, Split, Pad, Tile, DepthToSpace, Resize to the nearest and the
rest need no rule of their own. A Move that stays in float is spelled out again as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import Uses, rebuild

Evaluate = Callable[[Node, int], tuple[npt.NDArray[Any], ...]]

_MOVES = frozenset(
    (
        "CenterCropPad",
        "Compress",
        "DepthToSpace",
        "Expand",
        "Gather",
        "GatherElements",
        "GatherND",
        "Pad",
        "Resize",
        "ReverseSequence",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Tile",
        "Trilu",
    )
)
MOST_ELEMENTS = (1 << 24) - 1
"""Element numbers must be exact in float32, in which they go through the operator."""


def fuse_moves(graph: Graph, evaluate: Evaluate) -> Graph:
    """Every operator of the list above, over a computed float32 tensor, as one Move a result."""
    uses = Uses(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _moves(node, graph, uses, evaluate) or [node]
    return rebuild(graph, nodes)


def _moves(node: Node, graph: Graph, uses: Uses, evaluate: Evaluate) -> list[Node]:
    if not _is_move(node, uses):
        return []
    fill = _fill(node)
    try:
        indices = _indices(node, graph.opset, evaluate)
    except RidgelineError:
        return []
    except Exception:  # ONNX Runtime's own: the host will say what it lacks
        return []
    made: list[Node] = []
    for number, (value, index) in enumerate(zip(node.outputs, indices, strict=True)):
        if not uses.readers(value) and not uses.is_output(value):
            continue
        function = Graph(node.name, (node.input(0),), (value,), (node,), graph.opset).check()
        name = node.name if len(node.outputs) == 1 else f"{node.name}/{number}"
        attrs = {"function": function, "index": index, "fill": fill}
        made.append(Node("Move", name, (node.input(0),), (value,), attrs, node.origin))
    return made


def _is_move(node: Node, uses: Uses) -> bool:
    if node.op not in _MOVES or not node.inputs or node.optional(0) is None:
        return False
    x = node.input(0)
    rest = [v for v in node.inputs[1:] if v is not None]
    values = (x, *node.outputs)
    if x.is_constant or _is_dequantised_weight(x, uses) or any(not v.is_constant for v in rest):
        return False
    if any(v.type.dtype is not FP32 or not v.type.elements or not v.type.shape for v in values):
        return False
    if node.op == "Resize" and (
        node.attrs.get("mode", "nearest") != "nearest" or _extrapolates(node)
    ):
        return False
    return max(v.type.elements for v in values) <= MOST_ELEMENTS


def _extrapolates(node: Node) -> bool:
    return node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"


def _is_dequantised_weight(value: Value, uses: Uses) -> bool:
    producer = uses.producer(value)
    return (
        producer is not None and producer.op == "DequantizeLinear" and producer.input(0).is_constant
    )


def _fill(node: Node) -> float:
    """What Pad puts outside; everything else puts 0."""
    value = node.optional(2) if node.op == "Pad" else None
    return 0.0 if value is None or value.data is None else float(value.data.reshape(()))


def _indices(node: Node, opset: int, evaluate: Evaluate) -> list[npt.NDArray[np.int32]]:
    """Where each element of each output comes from. Elements are numbered from 1: 0 is a fill."""
    x = node.input(0)
    numbers = np.arange(1, x.type.elements + 1, dtype=np.float32).reshape(x.type.shape)
    inputs = [Value.constant("numbers", numbers), *node.inputs[1:]]
    if node.op == "Pad" and len(inputs) > 2 and inputs[2] is not None:
        inputs[2] = Value.constant("nothing", np.zeros_like(inputs[2].data))
    outputs = tuple(Value(v.name, TensorType(v.type.shape, FP32)) for v in node.outputs)
    asked = replace(node, inputs=tuple(inputs), outputs=outputs)
    return [array.astype(np.int32) - 1 for array in evaluate(asked, opset)]
