"""Stored integers of a node: its quantisation parameters and output bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, Quant, Value
from ridgeline.numerics.formats import INT8, UINT8
from ridgeline.numerics.qlinear import Scalars
from ridgeline.numerics.quantize import dequantize, quantize
from ridgeline.ops.primitive import Array

EIGHT_BITS = (INT8, UINT8)


def is_quantized(value: Value) -> bool:
    """Whether the value's bits are integers that stand for real numbers."""
    return value.type.dtype.is_integer and value.type.quant is not None


def quant_of(value: Value, node: Node) -> Quant:
    """The value's quantisation. Raises RidgelineError naming the node when it has none."""
    if value.type.quant is None:
        raise RidgelineError(
            f"'{value.name}' ({value.type}) has no quantisation",
            where=f"node '{node.name}' ({node.op})",
            fix="Quantise the graph first, or evaluate it in float",
        )
    return value.type.quant


def scalars_of(value: Value, node: Node) -> Scalars:
    """The value's one scale and zero point. Raises RidgelineError when it has one per channel."""
    quant = quant_of(value, node)
    if quant.axis is not None:
        raise RidgelineError(
            f"'{value.name}' is quantised per channel, where {node.op} needs one scale",
            where=f"node '{node.name}' ({node.op})",
            fix="Quantise it per tensor",
        )
    return Scalars(np.float32(quant.scale), int(quant.zero_point))


def output_bounds(node: Node) -> tuple[int, int]:
    """Lowest and highest stored output: the format's range within the quantised `clip`.

    Rounding is monotonic, so clamping stored integers at the quantised limits equals quantising
    the clamped real number.
    """
    value = node.output
    low, high = value.type.dtype.low, value.type.dtype.high
    clip = node.attrs.get("clip")
    if clip is None:
        return low, high
    return max(low, _stored(clip[0], -np.inf, value, node)), min(
        high, _stored(clip[1], np.inf, value, node)
    )


def _stored(limit: float | None, absent: float, value: Value, node: Node) -> int:
    real = np.float32(absent if limit is None else limit)
    return int(quantize(real, quant_of(value, node), value.type.dtype))


def centred(stored: Array, value: Value, node: Node) -> npt.NDArray[np.int32]:
    """stored - zero point, along the value's channel axis if it has one. Returns int32."""
    quant = quant_of(value, node)
    zero = quant.zero_point.astype(np.int32)
    if quant.axis is not None:
        shape = [1] * stored.ndim
        shape[quant.axis] = zero.size
        zero = zero.reshape(shape)
    return stored.astype(np.int32) - zero


def accumulator_bits(value: Value) -> int:
    """Accumulator width for a matrix product with this left operand: 32, or 48 for int16."""
    return 32 if value.type.dtype.bits <= 8 else 48


def within_bounds(result: npt.NDArray[np.int64], node: Node) -> Array:
    """Integers within the node's stored bounds, in the output's format."""
    low, high = output_bounds(node)
    return np.clip(result, low, high).astype(node.output.type.dtype.numpy)


def store(real: npt.ArrayLike, node: Node) -> Array:
    """Real numbers quantised as the node's output, within its clip."""
    dtype = node.output.type.dtype
    return within_bounds(quantize(real, quant_of(node.output, node), dtype).astype(np.int64), node)


def real(stored: Array, value: Value, node: Node) -> npt.NDArray[np.float32]:
    """The real numbers that stored integers stand for."""
    return dequantize(stored, quant_of(value, node))


def same_quantisation(first: Value, second: Value) -> bool:
    """Whether the two values store real numbers the same way."""
    if first.type.dtype != second.type.dtype or first.type.quant is None:
        return first.type.dtype == second.type.dtype and second.type.quant is None
    return first.type.quant.equals(second.type.quant)


def moved(stored: Array, source: Value, node: Node) -> Array:
    """Stored integers as the node's output stores them: unchanged, or through the table.

    Where the quantisations differ this is quantize(dequantize(x)) of each element, which
    `numerics.quantize.requantize_table` gives as a table.
    """
    if same_quantisation(source, node.output):
        return stored
    return store(real(stored, source, node), node)


def all_eight_bits(node: Node) -> bool:
    """Whether the first output and every present input are 8-bit integers."""
    values = [v for v in node.inputs if v is not None]
    return all(v.type.dtype in EIGHT_BITS for v in [*values, node.output])
