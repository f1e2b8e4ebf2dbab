"""How tensors lie in host memory: in which order, padded how, at which address."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.numerics.formats import DType


@dataclass(frozen=True, slots=True)
class Packing:
    """How a tensor lies in host and device memory on its way to the unified buffer.

    Pixel-major: for every row (image, y, x) its channels, densely. An int16 tensor has, for each
    block of `block` channels, their low bytes, then their high bytes. `channel_axis` None means the
    plain C order of the array, untouched.
    """

    channel_axis: int | None = None
    planes: int = 1
    block: int = 1
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Rows above, columns left, rows below, columns right that the host adds, of value `fill`."""
    fill: int = 0

    def bytes(self, shape: tuple[int, ...], dtype: DType) -> int:
        """Bytes of an array of this shape in this packing."""
        if self.channel_axis is None:
            return prod(shape) * dtype.bytes
        rest = [d for i, d in enumerate(shape) if i != self.channel_axis]
        padded = self._padded(rest)
        return prod(padded) * shape[self.channel_axis] * dtype.bytes

    def _padded(self, rest: list[int]) -> list[int]:
        """Row dimensions with the padding: columns are the last, rows the one before."""
        top, left, bottom, right = self.pads
        result = list(rest)
        if left or right:
            result[-1] += left + right
        if top or bottom:
            result[-2] += top + bottom
        return result

    def pack(self, array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Bytes of `array` in this packing."""
        if self.channel_axis is None:
            return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        moved = np.moveaxis(array, self.channel_axis, -1)
        if any(self.pads):
            top, left, bottom, right = self.pads
            widths = [(0, 0)] * (moved.ndim - 2) + [(left, right), (0, 0)]
            if top or bottom:
                widths[-3] = (top, bottom)
            moved = np.pad(moved, widths, constant_values=self.fill)
        moved = np.ascontiguousarray(moved)
        rows = moved.reshape(-1, moved.shape[-1])
        if self.planes == 1:
            return np.frombuffer(rows.tobytes(), np.uint8)
        parts: list[npt.NDArray[np.uint8]] = []
        for start in range(0, rows.shape[1], self.block):
            words = rows[:, start : start + self.block].astype("<i2").view(np.uint8)
            pairs = words.reshape(rows.shape[0], -1, 2)
            parts += [pairs[:, :, 0], pairs[:, :, 1]]
        return np.concatenate(parts, axis=1).reshape(-1)

    def unpack(
        self, data: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: DType
    ) -> npt.NDArray[Any]:
        """The array of `shape` whose bytes these are; the inverse of `pack`."""
        if self.channel_axis is None:
            return np.frombuffer(data.tobytes(), dtype.numpy).reshape(shape)
        if any(self.pads):
            raise AssertionError("padding is added on the way to the device only")
        channels = shape[self.channel_axis]
        rest = tuple(d for i, d in enumerate(shape) if i != self.channel_axis)
        if self.planes == 1:
            rows = np.frombuffer(data.tobytes(), dtype.numpy).reshape(-1, channels)
        else:
            rows = self._join_planes(data.reshape(prod(rest), -1), channels)
        return np.moveaxis(rows.reshape(*rest, channels), -1, self.channel_axis)

    def _join_planes(self, data: npt.NDArray[np.uint8], channels: int) -> npt.NDArray[Any]:
        rows = np.empty((data.shape[0], channels), "<i2")
        for start in range(0, channels, self.block):
            width = min(self.block, channels - start)
            low = data[:, 2 * start : 2 * start + width].astype(np.int16)
            high = data[:, 2 * start + width : 2 * start + 2 * width].view(np.int8)
            rows[:, start : start + width] = high.astype(np.int16) * 256 + low
        return rows


@dataclass(frozen=True, slots=True)
class HostTensor:
    """A tensor in host memory: what it is called, its type, where it lies and how."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    address: int
    packing: Packing = field(default_factory=Packing)

    @property
    def bytes(self) -> int:
        return self.packing.bytes(self.shape, self.dtype)

    def read(self, host: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The array that host memory holds."""
        data = host[self.address : self.address + self.bytes]
        return self.packing.unpack(data, self.shape, self.dtype)

    def write(self, host: npt.NDArray[np.uint8], array: npt.NDArray[Any]) -> None:
        """Put `array` into host memory."""
        host[self.address : self.address + self.bytes] = self.packing.pack(array)
