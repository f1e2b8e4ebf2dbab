"""MaxPool, AveragePool and GlobalAveragePool."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.numerics.qlinear import qlinear_average_pool, qlinear_global_average_pool
from ridgeline.ops.primitive import (
    Array,
    Attributes,
    Cost,
    Template,
    cost_of,
    present,
    to_float,
)
from ridgeline.ops.stored import (
    all_eight_bits,
    centred,
    moved,
    output_bounds,
    real,
    scalars_of,
    store,
    within_bounds,
)
from ridgeline.ops.windows import Geometry


class MaxPool:
    """The largest element of each window; padding never wins."""

    op = "MaxPool"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        return _infer_windows(present(inputs, 0, self.op), attrs, self.op)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        if np.issubdtype(x.dtype, np.integer):
            return [_maximum(x, attrs, np.iinfo(x.dtype).min)]
        return [_maximum(to_float(x), attrs, -np.inf).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """The largest stored integer, then the table if the quantisation changes (monotonic)."""
        x: Array = present(inputs, 0, self.op)
        largest = _maximum(x, node.attrs, node.input(0).type.dtype.low)
        return [moved(largest, node.input(0), node)]

    def cost(self, node: Node) -> Cost:
        """Vector operations: every output element × kernel elements."""
        return cost_of(node, vector_operations=_window_operations(node))

    def template(self, node: Node) -> Template:
        return "vector"


class AveragePool:
    """The mean of each window, over its kernel or only over what lies inside the input."""

    op = "AveragePool"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        return _infer_windows(present(inputs, 0, self.op), attrs, self.op)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        total, count = _window_sum(to_float(x), attrs)
        return [(total / count).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """ONNX Runtime's QLinearAveragePool, whose sums are float32 in raster order.

        A window that is the whole unpadded image is a GlobalAveragePool, with integer sums.
        """
        x: Array = present(inputs, 0, self.op)
        geometry = Geometry.of(node.attrs, self.op)
        if geometry.kernel == x.shape[2:] and not any(geometry.pads) and all_eight_bits(node):
            return [_global_average(x, node)]
        total, count = _window_sum(real(x, node.input(0), node), node.attrs)
        if not all_eight_bits(node):
            return [store(total / count, node)]
        output = scalars_of(node.output, node)
        result = qlinear_average_pool(total, count, output, *output_bounds(node))
        return [within_bounds(result, node)]

    def cost(self, node: Node) -> Cost:
        """Vector operations: every output element × kernel elements."""
        return cost_of(node, vector_operations=_window_operations(node))

    def template(self, node: Node) -> Template:
        return "vector"


class GlobalAveragePool:
    """The mean over all spatial dimensions, which stay as 1."""

    op = "GlobalAveragePool"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        if len(x.shape) < 3 or 0 in x.shape[2:]:
            raise RidgelineError(f"GlobalAveragePool has nothing to average in shape {x.shape}")
        return (TensorType((*x.shape[:2], *(1 for _ in x.shape[2:])), x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        axes = tuple(range(2, x.ndim))
        return [np.mean(to_float(x), axis=axes, keepdims=True, dtype=np.float32).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """ONNX Runtime's QLinearGlobalAveragePool: integer sums, then `requantize`."""
        return [_global_average(present(inputs, 0, self.op), node)]

    def cost(self, node: Node) -> Cost:
        """Vector operations: every input element."""
        return cost_of(node, vector_operations=node.input(0).type.elements)

    def template(self, node: Node) -> Template:
        return "vector"


def _infer_windows(x: TensorType, attrs: Attributes, op: str) -> tuple[TensorType, ...]:
    if len(x.shape) < 3:
        raise RidgelineError(f"{op} has an input of shape {x.shape}, without spatial dimensions")
    spatial = Geometry.of(attrs, op).output_shape(x.shape[2:], op)
    return (TensorType((*x.shape[:2], *spatial), x.dtype),)


def _window_operations(node: Node) -> int:
    return node.output.type.elements * prod(int(k) for k in node.attrs["kernel_shape"])


def _maximum(x: Array, attrs: Attributes, fill: float) -> Array:
    geometry = Geometry.of(attrs, "MaxPool")
    taps = geometry.taps(geometry.padded(x, fill))
    largest = next(taps).copy()
    for tap in taps:
        np.maximum(largest, tap, out=largest)
    return largest


def _window_sum(
    x: npt.NDArray[np.float32], attrs: Attributes
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(float32 sums in raster order from 0, elements that each is divided by).

    Padding adds 0, which changes no float32 sum.
    """
    geometry = Geometry.of(attrs, "AveragePool")
    total = np.zeros((*x.shape[:2], *geometry.output_shape(x.shape[2:], "AveragePool")), np.float32)
    for tap in geometry.taps(geometry.padded(x, 0)):
        total += tap
    if attrs.get("count_include_pad"):
        return total, np.asarray(prod(geometry.kernel), np.float32)
    ones = geometry.padded(np.ones((1, 1, *x.shape[2:]), np.float32), 0)
    return total, np.asarray(np.sum(list(geometry.taps(ones)), axis=0), np.float32)


def _global_average(x: Array, node: Node) -> Array:
    total = centred(x, node.input(0), node).sum(
        axis=tuple(range(2, x.ndim)), keepdims=True, dtype=np.int64
    )
    stored = qlinear_global_average_pool(
        total,
        prod(x.shape[2:]),
        scalars_of(node.input(0), node),
        scalars_of(node.output, node),
        *output_bounds(node),
    )
    return stored.astype(node.output.type.dtype.numpy)
