"""ONNX's element types, attributes and tensors, beside our number formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_bodies import Body
from ridgeline.ir import TensorType
from ridgeline.numerics import formats
from ridgeline.numerics.formats import DType

Array = npt.NDArray[Any]

_ELEMENT_TYPES: dict[int, DType] = {
    TensorProto.FLOAT: formats.FP32,
    TensorProto.UINT8: formats.UINT8,
    TensorProto.INT8: formats.INT8,
    TensorProto.UINT16: formats.UINT16,
    TensorProto.INT16: formats.INT16,
    TensorProto.INT32: formats.INT32,
    TensorProto.INT64: formats.INT64,
    TensorProto.STRING: formats.STRING,
    TensorProto.BOOL: formats.BOOL,
    TensorProto.FLOAT16: formats.FP16,
    TensorProto.DOUBLE: formats.FP64,
    TensorProto.UINT32: formats.UINT32,
    TensorProto.UINT64: formats.UINT64,
    TensorProto.BFLOAT16: formats.BF16,
    TensorProto.FLOAT8E4M3FN: formats.FP8_E4M3,
    TensorProto.FLOAT8E5M2: formats.FP8_E5M2,
    TensorProto.UINT4: formats.UINT4,
    TensorProto.INT4: formats.INT4,
}
SUPPORTED_ELEMENTS = frozenset(_ELEMENT_TYPES)
_BY_NAME = {dtype.name: element for element, dtype in _ELEMENT_TYPES.items()}


def dtype_of_element(element: int, where: str) -> DType:
    """The format of an ONNX element type. Raises RidgelineError for one that is not supported."""
    found = _ELEMENT_TYPES.get(element)
    if found is None:
        names = {number: name for name, number in TensorProto.DataType.items()}
        name = names.get(element, str(element))
        raise RidgelineError(
            f"the element type {name} is not supported",
            where=where,
            fix="Export the model with float32, float16 or integer tensors.",
        )
    return found


def element_of_dtype(dtype: DType) -> int:
    """ONNX's element type of a format."""
    return _BY_NAME[dtype.name]


def type_proto(type: TensorType) -> Any:
    """An ONNX TypeProto with every dimension known."""
    return helper.make_tensor_type_proto(element_of_dtype(type.dtype), list(type.shape))


def to_array(tensor: Any, where: str) -> Array:
    """The values of a TensorProto. Raises RidgelineError when bytes and dimensions disagree."""
    dtype_of_element(tensor.data_type, where)
    if any(d < 0 for d in tensor.dims):
        raise RidgelineError(
            f"its dimensions are {list(tensor.dims)}, and none may be negative",
            where=where,
            fix="The file is damaged: export the model again.",
        )
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise RidgelineError(
            f"the values of {list(tensor.dims)} cannot be read ({error})",
            where=where,
            fix="The file is damaged: export the model again.",
        ) from error


def to_tensor(array: Array, name: str, dtype: DType) -> Any:
    """A TensorProto that holds `array` bit for bit."""
    if dtype is formats.STRING:
        strings: Any = [_bytes(v) for v in array.ravel()]
        return helper.make_tensor(name, TensorProto.STRING, array.shape, strings)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def attributes(node: Any, where: str) -> dict[str, Any]:
    """A node's attributes as Python numbers, strings, lists and arrays."""
    return {a.name: _attribute_value(a, where) for a in node.attribute}


def _attribute_value(attribute: Any, where: str) -> Any:
    try:
        value = helper.get_attribute_value(attribute)
    except ValueError:
        value = None
    if value is None:
        raise RidgelineError(
            f"attribute '{attribute.name}' has no value",
            where=where,
            fix="The file is damaged: export the model again.",
        )
    if attribute.type == onnx.AttributeProto.GRAPH:
        return Body(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return to_array(value, where)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in value]
    return value
