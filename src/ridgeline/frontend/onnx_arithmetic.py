"""Element-by-element ONNX operators made of Add, Mul and Clip, where that changes no meaning."""

from __future__ import annotations

import math

import numpy as np

from ridgeline.frontend.onnx_source import Source
from ridgeline.ir import Node, Value
from ridgeline.numerics.formats import FP32

Nodes = tuple[Node, ...]


def read_sum(source: Source) -> Nodes:
    """Sum of two and more as a chain of Add."""
    return _chain(source, source.outputs, "Add")


def read_mean(source: Source) -> Nodes:
    """The chain of Add, times one over their number; only in float32, where that is a rounding."""
    if source.outputs[0].type.dtype is not FP32:
        return ()
    count = len(source.inputs)
    if count == 1:
        return _chain(source, source.outputs, "Add")
    total = source.intermediate("sum", source.outputs[0].type.shape, source.outputs[0])
    share = source.new_constant("share", np.asarray(1 / count, np.float32))
    return (*_chain(source, (total,), "Add"), source.node("Mul", (total, share)))


def _chain(source: Source, outputs: tuple[Value, ...], op: str) -> Nodes:
    first, *rest = [v for v in source.inputs if v is not None]
    if not rest:
        return (source.node("Identity", (first,), {}, outputs),)
    nodes: list[Node] = []
    for index, value in enumerate(rest):
        last = index == len(rest) - 1
        shape = np.broadcast_shapes(first.type.shape, value.type.shape)
        made = outputs if last else (source.intermediate(f"{op.lower()}{index}", shape, first),)
        suffix = "" if last and outputs is source.outputs else f"{op.lower()}{index}"
        nodes.append(source.node(op, (first, value), {}, made, suffix))
        first = made[0]
    return tuple(nodes)


def read_subtraction(source: Source) -> Nodes:
    """x - constant is x + (-constant), and constant - x is x * -1 + constant, bit for bit.

    Any other Sub runs on the host.
    """
    left, right = source.constant(0), source.constant(1)
    if right is not None and right.dtype.kind == "f":
        return (source.node("Add", (source.input(0), source.new_constant("negated", -right))),)
    x = source.optional(1)
    if left is None or x is None or x.type.dtype is not FP32:
        return (source.node("Sub", source.inputs),)
    negated = source.intermediate("negated", x.type.shape, x)
    minus = source.new_constant("minus", np.asarray(-1, np.float32))
    return (
        source.node("Mul", (x, minus), {}, (negated,), "negate"),
        source.node("Add", (negated, source.input(0))),
    )


def read_division(source: Source) -> Nodes:
    """x / constant is x * (1 / constant), within one rounding; any other Div runs on the host."""
    constant = source.constant(1)
    if constant is None or constant.dtype != np.float32 or not np.all(constant):
        return (source.node("Div", source.inputs),)
    with np.errstate(over="ignore"):
        reciprocal = (1.0 / constant.astype(np.float64)).astype(np.float32)
    if not np.all(np.isfinite(reciprocal)):
        return (source.node("Div", source.inputs),)
    return (source.node("Mul", (source.input(0), source.new_constant("reciprocal", reciprocal))),)


def read_bound(source: Source) -> Nodes:
    """Max or Min of a tensor and one number is a Clip, of more tensors a chain."""
    present = [v for v in source.inputs if v is not None]
    numbers = [v for v in present if v.data is not None and v.data.size == 1]
    tensors = [v for v in present if v.data is None]
    if len(present) != 2 or len(numbers) != 1 or len(tensors) != 1:
        return _chain(source, source.outputs, source.op)
    value, bound = tensors[0], numbers[0].data
    assert bound is not None
    if value.type.shape != source.outputs[0].type.shape or not value.type.dtype.is_float:
        return _chain(source, source.outputs, source.op)
    if not math.isfinite(float(bound.reshape(()))):
        return _chain(source, source.outputs, source.op)
    side = "min" if source.op == "Max" else "max"
    return (source.node("Clip", (value,), {side: float(bound.reshape(()))}),)
