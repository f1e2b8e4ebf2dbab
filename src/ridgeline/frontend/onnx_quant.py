"""Quantisation parameters of QuantizeLinear and DequantizeLinear, moved into the values' types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_qlinear import activation_quants
from ridgeline.frontend.onnx_types import Array, attributes
from ridgeline.ir import Quant

# Through these a value keeps its bits, so that an integer value has one quantisation on both sides.
_MOVES = frozenset(("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"))


def quant_of(node: Any, constants: Mapping[str, Array | None], where: str) -> Quant:
    """The parameters of a QuantizeLinear or DequantizeLinear NodeProto.

    Raises RidgelineError when they are not constants. A scale of one element is per tensor.
    """
    scale = constants.get(node.input[1])
    zero_name = node.input[2] if len(node.input) > 2 else ""
    zero = constants.get(zero_name) if zero_name else None
    if scale is None or (zero_name and zero is None):
        raise RidgelineError(
            "its scale or zero point is computed by the model",
            where=where,
            fix="Quantise the model statically, with constant scales.",
        )
    scales = np.asarray(scale, np.float32)
    zeros = np.zeros(scales.shape, np.int32) if zero is None else zero.astype(np.int32)
    if not np.all(np.isfinite(scales)) or not np.all(scales > 0):
        raise RidgelineError(
            f"its scale is {scales.ravel()[:4].tolist()}, which is not positive and finite",
            where=where,
            fix="Quantise the model again.",
        )
    if scales.size == 1:
        return Quant(scales.reshape(()), zeros.reshape(()))
    attrs = attributes(node, where)
    axis, block = int(attrs.get("axis", 1)), int(attrs.get("block_size", 0))
    return Quant(scales, zeros.reshape(scales.shape), axis, block)


def fitted(quant: Quant, shape: tuple[int, ...], where: str) -> Quant:
    """The parameters with a non-negative axis. Raises RidgelineError when they do not fit."""
    if quant.axis is None:
        return quant
    rank = len(shape)
    axis = quant.axis + rank if quant.axis < 0 else quant.axis
    if not 0 <= axis < rank or (not quant.block and quant.scale.shape != (shape[axis],)):
        raise RidgelineError(
            f"scales of shape {list(quant.scale.shape)} along axis {quant.axis} do not fit "
            f"{list(shape)}",
            where=where,
            fix="Quantise the model again.",
        )
    return Quant(quant.scale, quant.zero_point, axis, quant.block)


def collect_quants(
    nodes: Sequence[Any], constants: Mapping[str, Array], where: str
) -> dict[str, Quant]:
    """The quantisation of each integer value, by name: what makes it, else what reads it.

    Per-tensor parameters are carried backwards through moves, so that an integer graph input that
    is transposed before its DequantizeLinear is known to be quantised too.
    """
    made: dict[str, Quant] = {}
    read: dict[str, Quant] = {}
    for node in nodes:
        for name, quant, is_output in activation_quants(node, constants):
            if is_output:
                made[name] = quant
            else:
                read.setdefault(name, quant)
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.domain:
            continue
        if len(node.input) < 2 or any(n and n not in constants for n in node.input[1:]):
            continue
        quant = quant_of(node, constants, f"{where}, node '{node.name or node.output[0]}'")
        if node.op_type == "QuantizeLinear":
            made[node.output[0]] = quant
        else:
            read.setdefault(node.input[0], quant)
    found = {**read, **made}
    for node in reversed(nodes):
        if node.op_type in _MOVES:
            quant = found.get(node.output[0])
            if quant is not None and quant.axis is None and node.input[0] not in constants:
                found.setdefault(node.input[0], quant)
    return found
