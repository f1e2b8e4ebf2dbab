"""Reading a model for its shapes: large constants stand as one value without memory.

What decides shapes is small (`SMALL_ELEMENTS`) and is read; weights may even be missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_types import Array, dtype_of_element
from ridgeline.ir import TensorType, Value

SMALL_ELEMENTS = 4096
"""Shapes, axes and the like have no more; larger constants are weights."""

SCALES_ELEMENTS = 16
"""Real numbers that decide shapes are the factors of a Resize, one for each axis."""


def is_stand_in(array: Array) -> bool:
    """Whether an array is one value repeated without memory."""
    return array.size > SMALL_ELEMENTS and not any(array.strides)


def is_weight(value: Value) -> bool:
    """Whether a constant may be a parameter, which stays as it is stored rather than be folded."""
    return value.data is not None and (
        is_stand_in(value.data)
        or (value.type.dtype.is_float and value.type.elements > SCALES_ELEMENTS)
    )


def stand_in(name: str, type: TensorType) -> Value:
    """A constant of this type whose values are all 1 and take no memory."""
    one = np.ones((), type.dtype.numpy)
    return Value(name, type, np.broadcast_to(one, type.shape))


def stands_in(tensor: Any, where: str) -> Value | None:
    """The stand-in for a large or absent TensorProto; None for one that is to be read."""
    elements = 1
    for dim in tensor.dims:
        if dim < 0:
            return None
        elements *= dim
    absent = tensor.data_location == tensor.EXTERNAL
    if elements <= SMALL_ELEMENTS and not absent:
        return None
    if elements > 1 << 40:
        raise RidgelineError(
            f"it has {elements:,} elements, more than any model's weights",
            where=where,
            fix="The file is damaged: export the model again.",
        )
    dims = tuple(int(d) for d in tensor.dims)
    return stand_in(tensor.name, TensorType(dims, dtype_of_element(tensor.data_type, where)))
