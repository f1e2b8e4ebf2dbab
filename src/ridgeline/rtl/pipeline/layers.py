"""What each stage of a pipeline computes: layers of a quantised graph as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, Value
from ridgeline.numerics.qlinear import add_constants, repeats_innermost
from ridgeline.numerics.requantize import requant_scale
from ridgeline.ops.stored import is_quantized, output_bounds, quant_of, scalars_of
from ridgeline.ops.windows import Geometry

Integers = npt.NDArray[np.int64]

INPUT = -1
"""The source that is the pipeline's input."""

MATRIX, DEPTHWISE, MAX, SUM, ADD = "matrix", "depthwise", "max", "sum", "add"
"""What a stage does: products over all channels, over its own, the largest, the sum; two added."""

SUM_BITS = 32
WIRING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True, slots=True)
class Element:
    """A stored integer on the wires of a stream, from `low` to `high`; `zero` stands for 0.0."""

    low: int
    high: int
    zero: int

    @property
    def signed(self) -> bool:
        return self.low < 0

    @property
    def bits(self) -> int:
        return width(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Image:
    """What streams: `height` × `width` pixels of `channels` elements, a pixel at a time."""

    height: int
    width: int
    channels: int
    element: Element
    is_vector: bool = False
    """Whether its pixels are pieces of a vector, in order, and not places with channels."""

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def pixel_bits(self) -> int:
        return self.channels * self.element.bits


@dataclass(frozen=True, slots=True)
class Window:
    """Taps, the step between windows, the step between taps, and padding at the top and left."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def span(self) -> tuple[int, int]:
        """Rows and columns from a window's first to its last tap."""
        rows, cols = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        return rows, cols


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One stage's work. `sources`: stages, or INPUT, whose images it reads.

    weights: zero point subtracted, [outputs, taps, channels] of a matrix, [channels, taps] of a
    depthwise one, else empty. bias int32 and scale float32 [outputs]. constants: of an addition,
    float32 (scale of a, scale of b, offset), as `machine.instructions.Elementwise` has them.
    """

    name: str
    kind: str
    sources: tuple[int, ...]
    given: tuple[Image, ...]
    made: Image
    window: Window
    weights: Integers
    bias: Integers
    scale: npt.NDArray[np.float32]
    constants: tuple[np.float32, ...] = ()

    @property
    def weight_bits(self) -> int:
        if not self.weights.size:
            return 0
        return max(width(min(int(self.weights.min()), -1), max(int(self.weights.max()), 0)), 2)

    @property
    def operand_range(self) -> tuple[int, int]:
        """What enters the sum, or the maximum: zero points are subtracted but from maxima."""
        one = self.given[0].element
        zero = 0 if self.kind in (MAX, ADD) else one.zero
        return min(one.low - zero, 0), max(one.high - zero, 0)

    @property
    def sum_bits(self) -> int:
        """Bits of the sum of one output, biases left out."""
        low, high = self.operand_range
        largest = max(-low, high)
        if self.kind in (MATRIX, DEPTHWISE):
            flat = np.abs(self.weights).reshape(len(self.weights), -1)
            largest *= int(flat.sum(axis=1).max(initial=0))
        elif self.kind == SUM:
            largest *= self.window.taps
        return largest.bit_length() + 1


def width(low: int, high: int) -> int:
    """Bits that hold every integer from low to high, with a sign where low is negative."""
    if low >= 0:
        return max(high.bit_length(), 1)
    return max((-low - 1).bit_length(), high.bit_length()) + 1


def layers_of(graph: Graph) -> list[Layer]:
    """The stages of a quantised graph between its stored inputs and outputs (`device_part`).

    Raises RidgelineError naming the layer that no stage computes, and why.
    """
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise RidgelineError(
            f"a pipeline has one input and one output, and the graph {len(graph.inputs)} and"
            f" {len(graph.outputs)}",
            where=f"graph '{graph.name}'",
        )
    return _Reader(graph).layers


class _Reader:
    """Turns nodes into layers, in order."""

    def __init__(self, graph: Graph) -> None:
        self.layers: list[Layer] = []
        self.made: dict[int, tuple[int, Image]] = {}
        self.users = graph.users()
        entered = graph.inputs[0]
        self.made[id(entered)] = INPUT, input_image(graph)
        for node in graph.nodes:
            self._add(node)
        (output,) = graph.outputs
        place, _ = self.made[id(output)]
        if place != len(self.layers) - 1:
            raise RidgelineError(
                "the graph's output is not that of its last layer", where=f"graph '{graph.name}'"
            )

    def _add(self, node: Node) -> None:
        if node.op in WIRING:
            self.made[id(node.output)] = self._flattened(node)
            return
        work = {
            "Conv": _convolution,
            "MatMul": _dense,
            "MaxPool": _max_pool,
            "GlobalAveragePool": _mean,
            "AveragePool": _mean,
            "Add": _addition,
        }.get(node.op)
        if work is None or not is_quantized(node.output):
            known = "Conv, MatMul, Gemm, Add, MaxPool, GlobalAveragePool, Flatten and Reshape"
            raise _refused(node, f"no stage computes {node.op}", f"Stages compute {known}")
        sources = [self._source(v, node) for v in node.inputs if v is not None and v.data is None]
        layer = work(node, [image for _, image in sources])
        layer = replace(layer, sources=tuple(place for place, _ in sources))
        needed = layer.sum_bits
        if layer.bias.size:
            needed = max(needed, int(np.abs(layer.bias).max()).bit_length() + 1) + 1
        if needed > SUM_BITS:
            raise _refused(node, f"its sums need {needed} bits and a lane takes {SUM_BITS}")
        self.made[id(node.output)] = len(self.layers), layer.made
        self.layers.append(layer)

    def _source(self, value: Value, node: Node) -> tuple[int, Image]:
        if id(value) not in self.made:
            raise _refused(node, f"'{value.name}' comes from no stage")
        return self.made[id(value)]

    def _flattened(self, node: Node) -> tuple[int, Image]:
        """A reshape to a vector is wiring: what follows it takes the whole image as its window."""
        place, image = self._source(node.input(0), node)
        shape = node.output.type.shape
        pixels = prod(shape[1:-1]) if len(shape) == 4 else 1
        whole = prod(shape) == image.pixels * image.channels and shape[0] == 1
        followed = all(
            user.op in ("MatMul", *WIRING) for user in self.users.get(id(node.output), [])
        )
        if not whole or (image.pixels > 1 and not followed) or pixels > 1:
            raise _refused(
                node, f"no stage makes {list(node.input(0).type.shape)} to {list(shape)}"
            )
        return place, image


def input_image(graph: Graph) -> Image:
    """The pixels that come in: an image's, or of a vector as many elements as divide it."""
    value = graph.inputs[0]
    shape = value.type.shape
    where = f"input '{value.name}'"
    if not shape or shape[0] != 1 or len(shape) not in (2, 3, 4):
        raise RidgelineError(
            f"a pipeline takes one image or vector at a time, and this is {list(shape)}",
            where=where,
            fix="Read the model with --shape, the batch 1",
        )
    if value.type.quant is None:
        raise RidgelineError("is not quantised", where=where)
    low, high = value.type.dtype.low, value.type.dtype.high
    element = Element(low, high, int(value.type.quant.zero_point))
    if len(shape) == 2:
        channels = max(c for c in range(1, MOST_VECTOR_CHANNELS + 1) if shape[1] % c == 0)
        return Image(1, shape[1] // channels, channels, element, is_vector=True)
    spatial = (1, shape[2]) if len(shape) == 3 else shape[2:]
    return Image(spatial[0], spatial[1], shape[1], element)


MOST_VECTOR_CHANNELS = 16
"""Elements of a vector that come in together."""


def pixels_of(stored: npt.NDArray[Any], image: Image) -> npt.NDArray[Any]:
    """[pixels, channels] of one stored image [1, channels, ...] or vector, in streaming order."""
    if stored.ndim == 2:
        return stored.reshape(image.pixels, image.channels)
    return np.ascontiguousarray(stored.reshape(image.channels, image.pixels).T)


def _refused(node: Node, what: str, fix: str = "") -> RidgelineError:
    return RidgelineError(what, where=f"layer '{node.name}' ({node.op})", fix=fix)


def _made(node: Node, height: int, columns: int, channels: int) -> Image:
    low, high = output_bounds(node)
    if low > high or node.output.type.dtype.bits not in (8, 16):
        raise _refused(node, f"no stage makes {node.output.type.dtype.name}")
    zero = scalars_of(node.output, node).zero_point
    return Image(height, columns, channels, Element(low, high, zero))


def _window(node: Node, given: Image) -> tuple[Window, int, int]:
    """The node's window, and the rows and columns of what it makes."""
    geometry = Geometry.of(node.attrs, node.op)
    rank = len(geometry.kernel)
    if rank > 2:
        raise _refused(node, f"no stage has windows in {rank} dimensions")

    def two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
        return (values[0], values[1]) if rank == 2 else (missing, values[0])

    window = Window(
        two(geometry.kernel, 1),
        two(geometry.strides, 1),
        two(geometry.dilations, 1),
        two(geometry.pads[:rank], 0),
    )
    shape = node.output.type.shape[2:]
    rows, columns = two(tuple(shape), 1)
    return window, rows, columns


def _parameters(node: Node, channels: int) -> tuple[Integers, npt.NDArray[np.float32]]:
    x, w, output = node.input(0), node.input(1), scalars_of(node.output, node)
    scale = requant_scale(scalars_of(x, node).scale, quant_of(w, node).scale, output.scale)
    bias = node.optional(2)
    data = np.zeros(channels) if bias is None or bias.data is None else np.asarray(bias.data)
    scales = np.broadcast_to(scale.reshape(-1), (channels,)).astype(np.float32)
    return data.astype(np.int64).reshape(-1), scales


def _centred_weights(node: Node) -> Integers:
    value = node.input(1)
    if value.data is None:
        raise _refused(node, f"its weights '{value.name}' are no constant")
    quant = quant_of(value, node)
    zero = np.asarray(quant.zero_point, np.int64)
    data = np.asarray(value.data).astype(np.int64)
    if quant.axis is not None:
        shape = [1] * data.ndim
        shape[quant.axis] = zero.size
        zero = zero.reshape(shape)
    return data - zero


def _convolution(node: Node, given: list[Image]) -> Layer:
    (image,) = given
    window, rows, columns = _window(node, image)
    weights = _centred_weights(node)
    outputs, group = weights.shape[0], int(node.attrs.get("group", 1))
    bias, scale = _parameters(node, outputs)
    flat = weights.reshape(outputs, weights.shape[1], window.taps)
    if group > 1 and group == image.channels == outputs:
        kind, ordered = DEPTHWISE, flat[:, 0]
    else:
        # Other groups become one with zeros between: as many products, none of them wrong.
        wide = np.zeros((outputs, window.taps, image.channels), np.int64)
        inside = flat.shape[1]
        for output in range(outputs):
            first = output // (outputs // group) * inside
            wide[output, :, first : first + inside] = flat[output].T
        kind, ordered = MATRIX, wide
    made = _made(node, rows, columns, outputs)
    return Layer(node.name, kind, (), (image,), made, window, ordered, bias, scale)


def _dense(node: Node, given: list[Image]) -> Layer:
    """Of a whole image as one window; the vector's order is channels, rows, columns."""
    if len(given) != 1:
        raise _refused(node, "no stage multiplies two activations")
    (image,) = given
    weights = _centred_weights(node)
    if weights.ndim != 2 or weights.shape[0] != image.pixels * image.channels:
        raise _refused(node, f"no stage multiplies by weights of shape {list(weights.shape)}")
    outputs = weights.shape[1]
    bias, scale = _parameters(node, outputs)
    if image.is_vector:
        ordered = weights.T.reshape(outputs, image.pixels, image.channels)
    else:
        ordered = weights.T.reshape(outputs, image.channels, image.pixels).swapaxes(1, 2)
    window = Window((image.height, image.width))
    made = _made(node, 1, 1, outputs)
    return Layer(
        node.name, MATRIX, (), (image,), made, window, np.ascontiguousarray(ordered), bias, scale
    )


def _max_pool(node: Node, given: list[Image]) -> Layer:
    (image,) = given
    source, output = scalars_of(node.input(0), node), scalars_of(node.output, node)
    if source != output:
        raise _refused(node, "its input and output have different quantisations")
    window, rows, columns = _window(node, image)
    return _plain(node, MAX, image, _made(node, rows, columns, image.channels), window)


def _plain(node: Node, kind: str, image: Image, made: Image, window: Window) -> Layer:
    none = np.zeros(0, np.int64)
    return Layer(node.name, kind, (), (image,), made, window, none, none, np.zeros(0, np.float32))


def _mean(node: Node, given: list[Image]) -> Layer:
    """Of the whole image: the sum of integers, requantised."""
    (image,) = given
    if node.op == "AveragePool":
        window, rows, columns = _window(node, image)
        padded = any(Geometry.of(node.attrs, node.op).pads)
        if padded or (rows, columns) != (1, 1) or window.kernel != (image.height, image.width):
            raise _refused(node, "no stage averages parts of an image, in float32")
    source, output = scalars_of(node.input(0), node), scalars_of(node.output, node)
    count = np.float32(image.pixels)
    scale = np.float32(source.scale / np.float32(output.scale * count))
    made = _made(node, 1, 1, image.channels)
    layer = _plain(node, SUM, image, made, Window((image.height, image.width)))
    channels = image.channels
    return replace(
        layer, bias=np.zeros(channels, np.int64), scale=np.full(channels, scale, np.float32)
    )


def _addition(node: Node, given: list[Image]) -> Layer:
    if len(given) != 2 or given[0].pixels != given[1].pixels:
        raise _refused(node, "a stage adds two images of one shape")
    if given[0].channels != given[1].channels:
        raise _refused(node, "a stage adds two images of one shape")
    a, b = (scalars_of(node.input(i), node) for i in (0, 1))
    output = scalars_of(node.output, node)
    image = given[0]
    if repeats_innermost(node.input(0).type.shape, node.input(1).type.shape):
        raise _refused(node, "a stage adds images of several elements")
    made = _made(node, image.height, image.width, image.channels)
    if made.element.bits > 8 or max(one.element.bits for one in given) > 8:
        raise _refused(node, "a stage adds 8-bit integers")
    layer = _plain(node, ADD, image, made, Window())
    return replace(layer, given=tuple(given), constants=add_constants(a, b, output))
