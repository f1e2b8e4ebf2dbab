"""Arrays into and out of an ONNX Runtime session, those of formats that NumPy lacks included."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from ridgeline.frontend.onnx_types import Array, dtype_of_element, element_of_dtype
from ridgeline.numerics.formats import DType, dtype_of

_FOUR_BITS = 4


def run_session(session: Any, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
    """The named outputs. Raises ONNX Runtime's own errors.

    ONNX Runtime's Python interface takes and gives bfloat16, 8-bit floats and 4-bit integers as
    raw memory only.
    """
    kinds = {o.name: o.type for o in session.get_outputs()}
    if not any(map(_is_raw, inputs.values())) and all(_is_plain(kinds[n]) for n in names):
        return [np.asarray(r) for r in session.run(names, dict(inputs))]
    feed = {name: _to_value(array) for name, array in inputs.items()}
    return [_from_value(v) for v in session.run_with_ort_values(list(names), feed)]


def _is_plain(kind: str) -> bool:
    return not any(k in kind for k in ("bfloat16", "float8", "int4"))


def _is_raw(array: Array) -> bool:
    return not _is_plain(array.dtype.name)


def _to_value(array: Array) -> Any:
    if not _is_raw(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    dtype = dtype_of(array)
    raw = _packed(array) if dtype.bits == _FOUR_BITS else np.ascontiguousarray(array)
    stored = raw.reshape(array.shape if dtype.bits > _FOUR_BITS else -1).view(
        np.uint16 if dtype.bytes == 2 else np.uint8
    )
    element = element_of_dtype(dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(stored, element)


def _from_value(value: Any) -> Array:
    if _is_plain(value.data_type()):
        return np.asarray(value.numpy())
    dtype = dtype_of_element(value.element_type(), "ONNX Runtime")
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    shape = tuple(value.shape())
    if dtype.bits == _FOUR_BITS:
        return _unpacked(np.frombuffer(data, np.uint8), dtype, shape)
    return np.frombuffer(data, dtype.numpy).reshape(shape)


def _packed(array: Array) -> npt.NDArray[np.uint8]:
    """Two elements a byte, the first in the low half (ONNX, "4 bit integer types")."""
    flat = array.astype(np.int8).view(np.uint8).reshape(-1) & 15
    even = np.append(flat, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    return (even[:, 0] | even[:, 1] << 4).astype(np.uint8)


def _unpacked(data: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...]) -> Array:
    halves = np.stack([data & 15, data >> 4], axis=1).reshape(-1)[: int(np.prod(shape))]
    signed = halves.astype(np.int8) - (16 * (halves > 7) if dtype.kind == "int" else 0)
    return signed.astype(dtype.numpy).reshape(shape)
