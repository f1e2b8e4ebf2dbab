"""Tensor types: a shape, a number format and, for quantised tensors, what the stored bits mean."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.formats import DType


@dataclass(frozen=True, slots=True, eq=False)
class Quant:
    """real = scale * (stored - zero_point), with ONNX's meaning.

    `scale` is float32 and `zero_point` int32; both have shape () for per tensor, or (channels,)
    with `axis` naming the channel axis. `block` > 0 groups that many elements along `axis`.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int32]
    axis: int | None = None
    block: int = 0
    dynamic: bool = False

    @staticmethod
    def per_tensor(scale: float, zero_point: int = 0) -> Quant:
        return Quant(np.asarray(scale, np.float32), np.asarray(zero_point, np.int32))

    def __post_init__(self) -> None:
        if self.scale.shape != self.zero_point.shape:
            raise ValueError(f"scale {self.scale.shape}, zero point {self.zero_point.shape} differ")
        if (self.axis is None) != (self.scale.ndim == 0):
            raise ValueError("a per-channel quantisation needs an axis, a per-tensor one has none")

    def equals(self, other: Quant | None) -> bool:
        """The same scale bits, zero points and axis."""
        return (
            other is not None
            and self.axis == other.axis
            and self.block == other.block
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def __str__(self) -> str:
        if self.axis is not None:
            return f"quant(axis={self.axis}, channels={self.scale.size})"
        return f"quant({float(self.scale):.9g}, {int(self.zero_point)})"


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """Shape (all dimensions known), number format, and quantisation when the bits are integers."""

    shape: tuple[int, ...]
    dtype: DType
    quant: Quant | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    def __str__(self) -> str:
        dims = ",".join(str(d) for d in self.shape)
        return f"{self.dtype}[{dims}]" + (f" {self.quant}" if self.quant else "")


def type_of(array: npt.NDArray[Any], quant: Quant | None = None) -> TensorType:
    """The type of a constant array."""
    from ridgeline.numerics.formats import dtype_of

    return TensorType(tuple(int(d) for d in array.shape), dtype_of(array), quant)
