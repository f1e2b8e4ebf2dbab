"""The table of number formats: one row a format, with its storage type and its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Kind = Literal["int", "uint", "float", "bool", "string"]


@dataclass(frozen=True, slots=True)
class DType:
    """A number format. `bits` is its logical width; `numpy` the type that stores one element."""

    name: str
    bits: int
    kind: Kind
    numpy: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes (sub-byte formats are stored one per byte)."""
        return self.numpy.itemsize

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def low(self) -> int:
        """Smallest integer of an integer format."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int:
        """Largest integer of an integer format."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    def __str__(self) -> str:
        return self.name


def _row(name: str, bits: int, kind: Kind, storage: npt.DTypeLike) -> DType:
    return DType(name, bits, kind, np.dtype(storage))


BOOL = _row("bool", 8, "bool", np.bool_)
STRING = _row("string", 0, "string", np.object_)
INT4 = _row("int4", 4, "int", ml_dtypes.int4)
UINT4 = _row("uint4", 4, "uint", ml_dtypes.uint4)
INT8 = _row("int8", 8, "int", np.int8)
UINT8 = _row("uint8", 8, "uint", np.uint8)
INT16 = _row("int16", 16, "int", np.int16)
UINT16 = _row("uint16", 16, "uint", np.uint16)
INT32 = _row("int32", 32, "int", np.int32)
UINT32 = _row("uint32", 32, "uint", np.uint32)
INT64 = _row("int64", 64, "int", np.int64)
UINT64 = _row("uint64", 64, "uint", np.uint64)
FP8_E4M3 = _row("fp8_e4m3fn", 8, "float", ml_dtypes.float8_e4m3fn)
FP8_E5M2 = _row("fp8_e5m2", 8, "float", ml_dtypes.float8_e5m2)
BF16 = _row("bf16", 16, "float", ml_dtypes.bfloat16)
FP16 = _row("fp16", 16, "float", np.float16)
FP32 = _row("fp32", 32, "float", np.float32)
FP64 = _row("fp64", 64, "float", np.float64)

FORMATS: dict[str, DType] = {
    d.name: d
    for d in (
        BOOL,
        STRING,
        INT4,
        UINT4,
        INT8,
        UINT8,
        INT16,
        UINT16,
        INT32,
        UINT32,
        INT64,
        UINT64,
        FP8_E4M3,
        FP8_E5M2,
        BF16,
        FP16,
        FP32,
        FP64,
    )
}


def dtype_of(array: npt.NDArray[Any]) -> DType:
    """The format whose storage type is the array's. Raises KeyError for a type not in the table."""
    for row in FORMATS.values():
        if row.numpy == array.dtype:
            return row
    raise KeyError(f"no number format is stored as {array.dtype}")
