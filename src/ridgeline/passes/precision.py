"""A float16, bfloat16 or float64 graph in float32, in which quantisation calibrates.

Inputs and outputs keep their formats, behind a CastLike: the difference inside is far below what
int8 keeps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import BF16, FP16, FP32, FP64
from ridgeline.passes.edit import rebuild

_OTHER_FLOATS = (FP16, BF16, FP64)
_ONNX_FLOAT = 1  # TensorProto.FLOAT, what a Cast's `to` says


def in_float32(graph: Graph) -> Graph:
    """The graph computed in float32; itself when it is already, or when a node names a format.

    A node with a body, a `dtype`, or a format that no input has is such a node; a Cast is changed.
    """
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]
    if any(map(_names_format, graph.nodes)) or not any(
        v.type.dtype in _OTHER_FLOATS for v in values
    ):
        return graph
    wide: dict[int, Value] = {}
    nodes: list[Node] = []
    for value in graph.inputs:
        if value.type.dtype in _OTHER_FLOATS:
            nodes.append(_cast(value, _widened(value, wide), f"{value.name}/widen"))
    for node in graph.nodes:
        inputs = tuple(None if v is None else _widened(v, wide) for v in node.inputs)
        outputs = tuple(_widened(v, wide) for v in node.outputs)
        attrs = dict(node.attrs)
        if node.op == "Cast" and node.output.type.dtype in _OTHER_FLOATS:
            attrs["to"] = _ONNX_FLOAT
        made = replace(node, inputs=inputs, outputs=outputs, attrs=attrs)
        same = node.op == "Cast" and made.input(0).type.dtype is made.output.type.dtype
        nodes.append(replace(made, op="Identity", attrs={}) if same else made)
    for value in graph.outputs:
        if id(value) in wide:
            nodes.append(_cast(wide[id(value)], value, f"{value.name}/narrow"))
    return rebuild(graph, nodes)


def _names_format(node: Node) -> bool:
    if "dtype" in node.attrs or "captures" in node.attrs:
        return True
    given = any(v is not None and v.type.dtype in _OTHER_FLOATS for v in node.inputs)
    made = any(v.type.dtype in _OTHER_FLOATS for v in node.outputs)
    return made and not given and node.op != "Cast"


def _widened(value: Value, wide: dict[int, Value]) -> Value:
    if value.type.dtype not in _OTHER_FLOATS:
        return value
    if id(value) not in wide:
        data = None if value.data is None else value.data.astype(np.float32)
        name = value.name if value.is_constant else f"{value.name}/float32"
        wide[id(value)] = Value(name, TensorType(value.type.shape, FP32), data)
    return wide[id(value)]


def _cast(source: Value, output: Value, name: str) -> Node:
    like = Value.constant(f"{name}/format", np.zeros((), output.type.dtype.numpy))
    return Node("CastLike", name, (source, like), (output,))
