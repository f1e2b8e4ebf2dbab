"""Operators that newer opsets have, in those of every opset that graphs use."""

from __future__ import annotations

import numpy as np

from ridgeline.ir import Node, TensorType, Value


def spelled(node: Node, opset: int) -> list[Node] | None:
    """Nodes that compute what the node does as ONNX defines it; None where it needs no spelling."""
    # ONNX Runtime 1.32 has no kernel for Swish, and takes ONNX's function of it in opset 24 only.
    if node.op == "Swish" and opset != 24:
        return _swish(node)
    if node.op == "RMSNormalization" and opset < 23:
        return _root_mean_square(node)
    return None


def _swish(node: Node) -> list[Node]:
    x, alpha = node.input(0), float(node.attrs.get("alpha", 1.0))
    made: list[Node] = []
    inner = x
    if alpha != 1.0:
        factor = Value.constant(f"{node.name}/alpha", np.asarray(alpha, x.type.dtype.numpy))
        inner = _add(made, node, "Mul", (x, factor), x.type)
    share = _add(made, node, "Sigmoid", (inner,), x.type)
    return [*made, Node("Mul", node.name, (x, share), node.outputs, {}, node.origin)]


def _root_mean_square(node: Node) -> list[Node]:
    x, scale = node.input(0), node.input(1)
    rank = len(x.type.shape)
    axis = int(node.attrs.get("axis", -1)) % rank
    number = x.type.dtype.numpy
    epsilon = Value.constant(
        f"{node.name}/epsilon", np.asarray(node.attrs.get("epsilon", 1e-5), number)
    )
    axes = Value.constant(f"{node.name}/axes", np.arange(axis, rank, dtype=np.int64))
    one = TensorType((*x.type.shape[:axis], *([1] * (rank - axis))), x.type.dtype)
    made: list[Node] = []
    square = _add(made, node, "Mul", (x, x), x.type)
    mean = _add(made, node, "ReduceMean", (square, axes), one)
    raised = _add(made, node, "Add", (mean, epsilon), one)
    root = _add(made, node, "Sqrt", (raised,), one)
    normal = _add(made, node, "Div", (x, root), x.type)
    return [*made, Node("Mul", node.name, (normal, scale), node.outputs, {}, node.origin)]


def _add(
    made: list[Node], node: Node, op: str, inputs: tuple[Value, ...], type: TensorType
) -> Value:
    name = f"{node.name}/{op}_{len(made)}"
    output = Value(f"{node.output.name}/{op}_{len(made)}", type)
    made.append(Node(op, name, inputs, (output,), {}, node.origin))
    return output
