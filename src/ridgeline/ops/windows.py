"""Sliding windows over the spatial dimensions of [N, C, spatial...] tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ops.primitive import Array, Attributes


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window per spatial dimension: elements, steps between, steps inside, and padding."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @staticmethod
    def of(attrs: Attributes, op: str) -> Geometry:
        """The geometry of a node's attributes; absent strides, dilations, pads are 1, 1, 0."""
        if "kernel_shape" not in attrs:
            raise RidgelineError(f"{op} lacks the attribute kernel_shape")
        kernel = tuple(int(k) for k in attrs["kernel_shape"])
        rank = len(kernel)
        geometry = Geometry(
            kernel,
            tuple(int(s) for s in attrs.get("strides") or (1,) * rank),
            tuple(int(d) for d in attrs.get("dilations") or (1,) * rank),
            tuple(int(p) for p in attrs.get("pads") or (0,) * (2 * rank)),
        )
        geometry._check(op)
        return geometry

    def _check(self, op: str) -> None:
        rank = len(self.kernel)
        for name, values, length in (
            ("kernel_shape", self.kernel, rank),
            ("strides", self.strides, rank),
            ("dilations", self.dilations, rank),
            ("pads", self.pads, 2 * rank),
        ):
            if len(values) != length:
                raise RidgelineError(
                    f"{op} has {name} {list(values)} with {len(values)} entries, not {length}"
                )
            least = 0 if name == "pads" else 1
            if any(v < least for v in values):
                raise RidgelineError(f"{op} has {name} {list(values)} with an entry below {least}")

    @property
    def extent(self) -> tuple[int, ...]:
        """Input elements from a window's first to its last, per dimension."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def output_shape(self, spatial: tuple[int, ...], op: str) -> tuple[int, ...]:
        """Windows per dimension. Raises RidgelineError where the window does not fit."""
        rank = len(self.kernel)
        if len(spatial) != rank:
            raise RidgelineError(
                f"{op} has a kernel of {rank} dimensions {list(self.kernel)} for an input with "
                f"{len(spatial)} spatial dimensions {list(spatial)}"
            )
        sizes: list[int] = []
        for d in range(rank):
            room = spatial[d] + self.pads[d] + self.pads[rank + d] - self.extent[d]
            if room < 0:
                raise RidgelineError(
                    f"{op} has a window of {self.extent[d]} in dimension {d}, larger than the "
                    f"padded input of {room + self.extent[d]}"
                )
            sizes.append(room // self.strides[d] + 1)
        return tuple(sizes)

    def padded(self, x: Array, fill: Any) -> Array:
        """x with its spatial dimensions padded by `fill`."""
        if not any(self.pads):
            return x
        rank = len(self.kernel)
        width = [(0, 0), (0, 0)] + [(self.pads[d], self.pads[rank + d]) for d in range(rank)]
        return np.pad(x, width, constant_values=fill)

    def windows(self, padded: Array) -> Array:
        """A view [N, C, output..., kernel...] of a padded [N, C, spatial...] tensor."""
        rank = len(self.kernel)
        axes = tuple(range(2, 2 + rank))
        view: npt.NDArray[Any] = np.lib.stride_tricks.sliding_window_view(padded, self.extent, axes)
        steps = [slice(None, None, s) for s in self.strides]
        inside = [slice(None, None, d) for d in self.dilations]
        return view[(slice(None), slice(None), *steps, *inside)]

    def taps(self, padded: Array) -> Iterator[Array]:
        """For each kernel element in raster order, the view [N, C, output...] that it touches."""
        view = self.windows(padded)
        for offset in product(*(range(k) for k in self.kernel)):
            yield view[(..., *offset)]
