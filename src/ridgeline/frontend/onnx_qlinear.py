"""QLinearConv and QLinearMatMul (quantised files in "QOperator" form) as quantised primitives.

Their scales are inputs of the operator; here they move into the types of the values, as those of
QuantizeLinear do. What is not constant, or not per tensor where it must be, stays on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ridgeline.frontend.onnx_source import Source
from ridgeline.frontend.onnx_types import Array
from ridgeline.frontend.onnx_windows import convolution_attributes
from ridgeline.ir import Node, Quant, TensorType, Value
from ridgeline.numerics.formats import INT32

Nodes = tuple[Node, ...]

# Both have x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point.
_OPERATORS = ("QLinearConv", "QLinearMatMul")
_FIRST, _SECOND, _OUTPUT = (1, 2), (4, 5), (6, 7)


def activation_quants(
    node: Any, constants: Mapping[str, Array]
) -> Iterator[tuple[str, Quant, bool]]:
    """(value, its per-tensor parameters, whether the node makes it) of a QLinear NodeProto."""
    if node.op_type not in _OPERATORS or node.domain not in ("", "ai.onnx"):
        return
    found = ((node.input[0], _FIRST), (node.input[3], _SECOND), (node.output[0], _OUTPUT))
    for name, places in found:
        scale, zero = (constants.get(node.input[p]) for p in places)
        if name not in constants and scale is not None and zero is not None and scale.size == 1:
            quant = _quant(scale, zero, None)
            if quant is not None:
                yield name, quant, name == node.output[0]


def _quant(scale: Array, zero: Array, axis: int | None) -> Quant | None:
    scales, zeros = np.asarray(scale, np.float32), zero.astype(np.int32)
    if not np.all(np.isfinite(scales)) or not np.all(scales > 0):
        return None
    if scales.size == 1 and zeros.size == 1:
        return Quant(scales.reshape(()), zeros.reshape(()))
    if axis is None or scales.ndim != 1 or zeros.size not in (1, scales.size):
        return None
    return Quant(scales, np.broadcast_to(zeros.reshape(-1), scales.shape), axis)


def read_qlinear_conv(source: Source) -> Nodes:
    """QLinearConv: the bias is int32 with the scale of the products (ONNX QLinearConv, "B")."""
    operands = _operands(source, axis=0)
    bias = source.optional(8)
    if operands is None or not operands[1].is_constant:
        return ()
    if bias is not None:
        if bias.data is None:
            return ()
        operands = (*operands, _product_bias(bias, *operands))
    attrs = convolution_attributes(source, operands[1])
    return (source.node("Conv", operands, attrs),)


def read_qlinear_matmul(source: Source) -> Nodes:
    """QLinearMatMul of matrices, each with one scale, or the second with one for each column."""
    operands = _operands(source, axis=len(source.input(3).type.shape) - 1)
    if operands is None or any(len(v.type.shape) < 2 for v in operands):
        return ()
    return (source.node("MatMul", operands),)


def _operands(source: Source, axis: int) -> tuple[Value, ...] | None:
    """x and w with their quantisation in their types, when all parameters are constant."""
    values = (source.input(0), source.input(3), source.outputs[0])
    typed: list[Value] = []
    for value, places in zip(values, (_FIRST, _SECOND, _OUTPUT), strict=True):
        scale, zero = (source.constant(p) for p in places)
        if scale is None or zero is None:
            return None
        quant = _quant(scale, zero, axis if value is values[1] else None)
        if quant is None:
            return None
        if value.is_constant:
            type = TensorType(value.type.shape, value.type.dtype, quant)
            value = Value(value.name, type, value.data)
        elif value.type.quant is None or not value.type.quant.equals(quant):
            return None
        typed.append(value)
    return (typed[0], typed[1])


def _product_bias(bias: Value, x: Value, weights: Value) -> Value:
    assert x.type.quant is not None
    assert weights.type.quant is not None
    scale = (x.type.quant.scale * weights.type.quant.scale).astype(np.float32)
    quant = Quant(scale, np.zeros(scale.shape, np.int32), None if scale.ndim == 0 else 0)
    return Value(bias.name, TensorType(bias.type.shape, INT32, quant), bias.data)
