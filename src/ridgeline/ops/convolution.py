"""Convolution as a matrix product over gathered windows, in float and in exact integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType
from ridgeline.numerics.matmul import integer_matmul
from ridgeline.numerics.requantize import requant_scale, requantize
from ridgeline.numerics.rounding import wrap
from ridgeline.ops.primitive import (
    Array,
    Attributes,
    Cost,
    Template,
    clipped,
    cost_of,
    optional,
    present,
    to_float,
)
from ridgeline.ops.stored import accumulator_bits, centred, output_bounds, quant_of, scalars_of
from ridgeline.ops.windows import Geometry

# Gathered window elements held at once; larger batches are worked through in parts.
_GATHERED_ELEMENTS = 1 << 24

Product = Callable[[Array, Array], Array]


class Conv:
    """x [N, C, spatial...], w [O, C/group, kernel...], bias [O] or absent -> [N, O, output...]."""

    op = "Conv"

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        x: TensorType = present(inputs, 0, self.op)
        w: TensorType = present(inputs, 1, self.op)
        bias: TensorType | None = optional(inputs, 2)
        geometry = Geometry.of(attrs, self.op)
        group = int(attrs.get("group", 1))
        if len(x.shape) < 3 or len(w.shape) != len(x.shape):
            raise RidgelineError(f"Conv has an input of shape {x.shape} and weights {w.shape}")
        if geometry.kernel != w.shape[2:]:
            raise RidgelineError(f"Conv has kernel_shape {geometry.kernel} but weights {w.shape}")
        if group < 1 or x.shape[1] != w.shape[1] * group or w.shape[0] % group:
            raise RidgelineError(
                f"Conv has {x.shape[1]} input channels, group {group} and weights {w.shape}"
            )
        if bias is not None and bias.shape != (w.shape[0],):
            raise RidgelineError(f"Conv has a bias of shape {bias.shape}, not ({w.shape[0]},)")
        spatial = geometry.output_shape(x.shape[2:], self.op)
        return (TensorType((x.shape[0], w.shape[0], *spatial), x.dtype),)

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        x: Array = present(inputs, 0, self.op)
        w: Array = present(inputs, 1, self.op)
        bias: Array | None = optional(inputs, 2)
        result = _convolve(to_float(x), to_float(w), attrs, np.matmul)
        if bias is not None:
            result = result + to_float(bias)
        return [_channels_first(clipped(result, attrs)).astype(x.dtype)]

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """ONNX Runtime's QLinearConv: exact accumulator, then `requantize`.

        Padding adds nothing, as it stands for the zero point. The accumulator has 32 bits (48 for
        int16 inputs) and wraps.
        """
        x_value, w_value = node.input(0), node.input(1)
        bits = accumulator_bits(x_value)
        x = centred(present(inputs, 0, self.op), x_value, node)
        w = centred(present(inputs, 1, self.op), w_value, node)
        total = _convolve(x, w, node.attrs, lambda a, b: integer_matmul(a, b, bits))
        bias: Array | None = optional(inputs, 2)
        if bias is not None:
            total = wrap(total.astype(np.int64) + bias.astype(np.int64), bits)
        output = scalars_of(node.output, node)
        scale = requant_scale(
            scalars_of(x_value, node).scale, quant_of(w_value, node).scale, output.scale
        )
        stored = requantize(total, scale, output.zero_point, *output_bounds(node))
        return [_channels_first(stored.astype(node.output.type.dtype.numpy))]

    def cost(self, node: Node) -> Cost:
        """MACs: every output element × C/group × kernel elements, padding included."""
        reduction = prod(node.input(1).type.shape[1:])
        elements = node.output.type.elements
        return cost_of(node, macs=elements * reduction, vector_operations=elements)

    def template(self, node: Node) -> Template:
        return "vector" if is_depthwise(node) else "matmul"


def is_depthwise(node: Node) -> bool:
    """Whether a Conv sees one input channel an output, of several."""
    return int(node.attrs.get("group", 1)) > 1 and node.input(1).type.shape[1] == 1


def _convolve(x: Array, w: Array, attrs: Attributes, multiply: Product) -> Array:
    """Channels last, [N, output..., O]: the product of gathered windows and weights."""
    geometry = Geometry.of(attrs, "Conv")
    group = int(attrs.get("group", 1))
    images, outputs = x.shape[0], w.shape[0]
    spatial = geometry.output_shape(x.shape[2:], "Conv")
    reduction = prod(w.shape[1:])
    weights = w.reshape(group, outputs // group, reduction).transpose(0, 2, 1)
    gathered = max(1, group * reduction * prod(spatial))
    step = max(1, _GATHERED_ELEMENTS // gathered)
    parts: list[Array] = []
    for start in range(0, images, step):
        patches = _patches(x[start : start + step], geometry, group)
        parts.append(multiply(patches, weights).transpose(1, 0, 2).reshape(-1, outputs))
    rows = np.concatenate(parts) if parts else np.zeros((0, outputs), x.dtype)
    return rows.reshape(images, *spatial, outputs)


def _patches(x: Array, geometry: Geometry, group: int) -> Array:
    """[group, N × outputs, C/group × kernel] windows of [N, C, spatial...]."""
    images, channels = x.shape[:2]
    view = geometry.windows(geometry.padded(x, 0))
    rank = len(geometry.kernel)
    spatial, kernel = view.shape[2 : 2 + rank], view.shape[2 + rank :]
    split = view.reshape(images, group, channels // group, *spatial, *kernel)
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    reduction = channels // group * prod(kernel)
    return split.transpose(order).reshape(group, images * prod(spatial), reduction)


def _channels_first(array: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))
