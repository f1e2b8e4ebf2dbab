"""The table from ONNX operators to the vocabulary of docs/graph.md, one function each.

An operator that is not in the table stays as it is and runs on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ridgeline.frontend.onnx_arithmetic import (
    read_bound,
    read_division,
    read_mean,
    read_subtraction,
    read_sum,
)
from ridgeline.frontend.onnx_qlinear import read_qlinear_conv, read_qlinear_matmul
from ridgeline.frontend.onnx_source import Source
from ridgeline.frontend.onnx_types import element_of_dtype
from ridgeline.frontend.onnx_weightless import is_stand_in
from ridgeline.frontend.onnx_windows import convolution_attributes, read_pool_window, with_ceil_mode
from ridgeline.ir import Node, Value

Nodes = tuple[Node, ...]


def _same(source: Source) -> Nodes:
    """An operator whose meaning has no attributes."""
    return (source.node(source.op, source.inputs),)


def _conv(source: Source) -> Nodes:
    weights = source.input(1)
    attrs = convolution_attributes(source, weights)
    bias = source.optional(2)
    if bias is not None and bias.type.shape != weights.type.shape[:1]:
        raise source.error(f"the bias {bias.type} does not fit weights {weights.type}")
    inputs = (source.input(0), weights) + ((bias,) if bias is not None else ())
    return (source.node("Conv", inputs, attrs),)


def _batch_normalization(source: Source) -> Nodes:
    """The host's own until passes.fold takes it; its variance must have a root."""
    variance = source.constant(4)
    if variance is None or source.attrs.get("training_mode"):
        return ()
    epsilon = float(source.attrs.get("epsilon", 1e-5))
    bad = variance.astype(np.float64) + epsilon <= 0
    if bad.any():
        found = source.input(4)
        raise source.error(
            f"its variance '{found.name}' has {int(bad.sum())} of {variance.size} values that are "
            f"too low for a root ({float(variance[bad][0]):g})",
            "Train or export the model again.",
        )
    return ()


def _gemm(source: Source) -> Nodes:
    """alpha * A' B' + beta * C as MatMul; stays Gemm where alpha or beta meets a computed one."""
    alpha, beta = float(source.attrs.get("alpha", 1.0)), float(source.attrs.get("beta", 1.0))
    a, b, c = source.input(0), source.input(1), source.optional(2)
    if (alpha != 1.0 and b.data is None) or (beta != 1.0 and c is not None and c.data is None):
        return (source.node("Gemm", source.inputs, dict(source.attrs)),)
    nodes: list[Node] = []
    if source.attrs.get("transA"):
        a = _transposed(source, a, "a", nodes)
    if source.attrs.get("transB"):
        b = _transposed(source, b, "b", nodes)
    if alpha != 1.0 and b.data is not None and not is_stand_in(b.data):
        b = source.new_constant("b", (b.data * np.asarray(alpha, b.data.dtype)))
    columns = source.outputs[0].type.shape[-1]
    if c is not None and c.data is not None:
        scaled = c.data * np.asarray(beta, c.data.dtype) if beta != 1.0 else c.data
        if scaled.size in (1, columns) and scaled.shape[:-1] in ((), (1,)):
            bias = np.broadcast_to(scaled.reshape(-1), (columns,))
            c = c if bias.shape == c.type.shape and beta == 1.0 else source.new_constant("c", bias)
        else:
            c = source.new_constant("c", scaled)
    if c is None or c.type.shape == (columns,):
        inputs = (a, b) if c is None else (a, b, c)
        return (*nodes, source.node("MatMul", inputs))
    product = source.intermediate("product", source.outputs[0].type.shape, source.outputs[0])
    nodes.append(source.node("MatMul", (a, b), {}, (product,), "product"))
    return (*nodes, source.node("Add", (product, c), suffix="add"))


def _transposed(source: Source, value: Value, suffix: str, nodes: list[Node]) -> Value:
    if value.data is not None and not is_stand_in(value.data):
        return source.new_constant(suffix, value.data.T)
    output = source.intermediate(suffix, value.type.shape[::-1], value)
    nodes.append(source.node("Transpose", (value,), {"perm": (1, 0)}, (output,), suffix))
    return output


def _matmul(source: Source) -> Nodes:
    """Vectors become matrices of one row or column, and the result is reshaped back."""
    a, b = source.input(0), source.input(1)
    if len(a.type.shape) > 1 and len(b.type.shape) > 1:
        return (source.node("MatMul", (a, b)),)
    nodes: list[Node] = []
    if len(a.type.shape) == 1:
        a = _reshaped(source, a, (1, *a.type.shape), "a", nodes)
    if len(b.type.shape) == 1:
        b = _reshaped(source, b, (*b.type.shape, 1), "b", nodes)
    left, right = list(a.type.shape), list(b.type.shape)
    shape = (*np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2])), left[-2], right[-1])
    product = source.intermediate("product", shape, source.outputs[0])
    nodes.append(source.node("MatMul", (a, b), {}, (product,), "product"))
    return (*nodes, _reshape_to_output(source, product))


def _reshaped(
    source: Source, value: Value, shape: tuple[int, ...], suffix: str, nodes: list[Node]
) -> Value:
    if value.data is not None and not is_stand_in(value.data):
        return source.new_constant(suffix, value.data.reshape(shape))
    output = source.intermediate(suffix, shape, value)
    nodes.append(source.node("Reshape", (value,), {"shape": shape}, (output,), suffix))
    return output


def _reshape_to_output(source: Source, value: Value) -> Node:
    return source.node("Reshape", (value,), {"shape": source.outputs[0].type.shape})


def _reshape(source: Source) -> Nodes:
    """Reshape, Flatten, Squeeze, Unsqueeze: their shapes were inferred, -1 and 0 resolved."""
    value, output = source.input(0), source.outputs[0]
    if value.type.elements != output.type.elements:
        raise source.error(
            f"{list(value.type.shape)} cannot become {list(output.type.shape)}: "
            f"{value.type.elements} elements are not {output.type.elements}",
            "If the batch was changed, the model fixes it inside: use the exported batch.",
        )
    return (_reshape_to_output(source, value),)


def _relu(source: Source) -> Nodes:
    return (source.node("Clip", (source.input(0),), {"min": 0.0}),)


def _clip(source: Source) -> Nodes:
    """Bounds as attributes (opset 6) or constants (opset 11); computed ones as Max and Min."""
    value = source.input(0)
    low = source.attrs.get("min", source.constant(1))
    high = source.attrs.get("max", source.constant(2))
    computed = any(v is not None and v.data is None for v in source.inputs[1:])
    if computed or not value.type.dtype.is_float:
        return _clip_on_host(source)
    attrs: dict[str, float] = {}
    if low is not None and (bound := _single(source, low)) > -3.4e38:
        attrs["min"] = bound
    if high is not None and (bound := _single(source, high)) < 3.4e38:
        attrs["max"] = bound
    return (source.node("Clip", (value,), attrs),)


def _single(source: Source, bound: npt.ArrayLike) -> float:
    """The number in a bound: ONNX wants a scalar, and ONNX Runtime takes [1] for one as well."""
    array = np.asarray(bound, np.float64)
    if array.size != 1:
        raise source.error(f"a bound has the shape {list(array.shape)}", "Clip takes one number.")
    return float(array.reshape(()))


def _clip_on_host(source: Source) -> Nodes:
    value, low, high = source.input(0), source.optional(1), source.optional(2)
    nodes: list[Node] = []
    if low is not None and high is not None:
        raised = source.intermediate("max", value.type.shape, value)
        nodes.append(source.node("Max", (value, low), {}, (raised,), "max"))
        value = raised
    elif low is not None:
        return (source.node("Max", (value, low)),)
    if high is None:
        return (source.node("Identity", (value,)),)
    return (*nodes, source.node("Min", (value, high)))


def _max_pool(source: Source) -> Nodes:
    if len(source.outputs) > 1:
        return (source.on_host(),)
    window = with_ceil_mode(source, read_pool_window(source))
    if window is None:
        return (source.on_host(),)
    attrs = {
        "kernel_shape": window.kernel_shape,
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads,
    }
    return (source.node("MaxPool", (source.input(0),), attrs),)


def _global_max_pool(source: Source) -> Nodes:
    spatial = source.input(0).type.shape[2:]
    rank = len(spatial)
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    attrs = {"kernel_shape": spatial, "strides": ones, "dilations": ones, "pads": zeros}
    return (source.node("MaxPool", (source.input(0),), attrs),)


def _average_pool(source: Source) -> Nodes:
    window = read_pool_window(source)
    if any(d != 1 for d in window.dilations):
        return (source.on_host(),)
    counted = bool(source.attrs.get("count_include_pad", 0))
    resolved = with_ceil_mode(source, window)
    if resolved is None or (counted and resolved.pads != window.pads and any(window.pads)):
        return (source.on_host(),)
    attrs = {
        "kernel_shape": resolved.kernel_shape,
        "strides": resolved.strides,
        "pads": resolved.pads,
        "count_include_pad": int(counted and any(window.pads)),
    }
    return (source.node("AveragePool", (source.input(0),), attrs),)


def _transpose(source: Source) -> Nodes:
    rank = len(source.input(0).type.shape)
    perm = tuple(int(p) for p in source.attrs.get("perm") or range(rank - 1, -1, -1))
    return (source.node("Transpose", (source.input(0),), {"perm": perm}),)


def _concat(source: Source) -> Nodes:
    rank = len(source.outputs[0].type.shape)
    present = [v for v in source.inputs if v is not None]
    filled = [v for v in present if v.type.elements] or present[:1]
    return (source.node("Concat", filled, {"axis": int(source.attrs["axis"]) % rank}),)


def _softmax(source: Source) -> Nodes:
    """Before opset 13 Softmax worked on the input flattened to two dimensions at `axis`."""
    value = source.input(0)
    rank = len(value.type.shape)
    axis = int(source.attrs.get("axis", -1 if source.opset >= 13 else 1)) % rank
    if source.opset >= 13 or axis == rank - 1:
        return (source.node("Softmax", (value,), {"axis": axis}),)
    rows = math.prod(value.type.shape[:axis])
    flat = (rows, value.type.elements // rows)
    nodes: list[Node] = []
    flattened = _reshaped(source, value, flat, "flat", nodes)
    result = source.intermediate("softmax", flat, value)
    nodes.append(source.node("Softmax", (flattened,), {"axis": 1}, (result,), "softmax"))
    return (*nodes, _reshape_to_output(source, result))


def _reduce_mean(source: Source) -> Nodes:
    """A mean over all spatial dimensions is GlobalAveragePool; any other runs on the host."""
    axes = source.attrs.get("axes", source.constant(1))
    value = source.input(0)
    rank = len(value.type.shape)
    if axes is None or rank < 3 or not value.type.dtype.is_float:
        return ()
    if sorted(int(a) % rank for a in axes) != list(range(2, rank)):
        return ()
    if source.attrs.get("keepdims", 1):
        return (source.node("GlobalAveragePool", (value,)),)
    pooled_shape = value.type.shape[:2] + (1,) * (rank - 2)
    pooled = source.intermediate("pooled", pooled_shape, value)
    pool = source.node("GlobalAveragePool", (value,), {}, (pooled,), "pool")
    return (pool, _reshape_to_output(source, pooled))


def _identity(source: Source) -> Nodes:
    return (source.node("Identity", (source.input(0),), {}, source.outputs[:1]),)


def _cast_like(source: Source) -> Nodes:
    """Of the second input only the format counts, which is known."""
    attrs = {**source.attrs, "to": element_of_dtype(source.input(1).type.dtype)}
    return (source.node("Cast", source.inputs[:1], attrs),)


def _dropout(source: Source) -> Nodes:
    training = source.optional(2)
    if len(source.outputs) > 1 or (
        training is not None and (training.data is None or bool(training.data))
    ):
        return ()
    return _identity(source)


def _quantisation(source: Source) -> Nodes:
    """The reader has moved scale and zero point into the type of the quantised value.

    Where the model computes them, the host quantises.
    """
    stored = source.input(0) if source.op == "DequantizeLinear" else source.outputs[0]
    if stored.type.quant is None or any(v and not v.is_constant for v in source.inputs[1:]):
        return (source.on_host(),)
    return (source.node(source.op, (source.input(0),)),)


# An empty result leaves the node to the host under ONNX's own name.
TABLE: dict[str, Callable[[Source], Nodes]] = {
    "Add": _same,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "DequantizeLinear": _quantisation,
    "Div": read_division,
    "Dropout": _dropout,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _same,
    "GlobalMaxPool": _global_max_pool,
    "Identity": _identity,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Max": read_bound,
    "Mean": read_mean,
    "Min": read_bound,
    "Mul": _same,
    "QLinearConv": read_qlinear_conv,
    "QLinearMatMul": read_qlinear_matmul,
    "QuantizeLinear": _quantisation,
    "ReduceMean": _reduce_mean,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _reshape,
    "Sub": read_subtraction,
    "Sum": read_sum,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
