"""Linear Resize by a whole factor as depthwise convolutions, one for each phase of the output.

Output q * s + r lies at q + t(r) of the input, between two of its elements, so that each of the
s * s phases is a convolution of the input with its edge repeated; DepthToSpace interleaves them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import rebuild

# Of more phases than 16, each a convolution of its own, the host is sooner done.
MOST_FACTOR = 4
_HALF_PIXEL = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


def lower_linear_resize(graph: Graph) -> Graph:
    """Every Resize of images [N, C, H, W] in float32 that is of this kind, lowered."""
    nodes = [made for node in graph.nodes for made in (_lowered(node) or [node])]
    return rebuild(graph, nodes)


def _factor(node: Node) -> int | None:
    """The whole number by which height and width grow, where that is all that happens."""
    if node.op != "Resize" or node.attrs.get("mode", "nearest") != "linear":
        return None
    x, y = node.input(0).type, node.output.type
    if x.dtype is not FP32 or len(x.shape) != 4 or node.input(0).is_constant:
        return None
    factor = y.shape[2] // max(x.shape[2], 1)
    grown = (*x.shape[:2], *(d * factor for d in x.shape[2:]))
    if not 2 <= factor <= MOST_FACTOR or y.shape != grown or not y.elements:
        return None
    # Scales that only round to this size put the samples elsewhere.
    scales = node.optional(2)
    if any(v is not None and v.data is None for v in node.inputs[1:]):
        return None
    if scales is not None and scales.data is not None and scales.data.size:
        wanted = {4: (1, 1, factor, factor), 2: (factor, factor)}.get(scales.data.size)
        if wanted is None or tuple(scales.data.reshape(-1).tolist()) != wanted:
            return None
    return factor


def _lowered(node: Node) -> list[Node] | None:
    factor = _factor(node)
    mode = str(node.attrs.get("coordinate_transformation_mode", "half_pixel"))
    if factor is None or (mode not in _HALF_PIXEL and mode != "asymmetric"):
        return None
    taps = _taps(factor, half_pixel=mode in _HALF_PIXEL)
    x, output = node.input(0), node.output
    batch, channels, height, width = x.type.shape
    padded = _value(f"{output.name}/edge", (batch, channels, height + 2, width + 2))
    pads = Value.constant(f"{node.name}/pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    made = [Node("Pad", f"{node.name}/edge", (x, pads), (padded,), {"mode": "edge"}, _origin(node))]
    phases: list[Value] = []
    for place, (down, across) in enumerate(np.ndindex(factor, factor)):
        phase = _value(f"{output.name}/phase{place}", (batch, channels, height, width))
        kernel = np.broadcast_to(np.outer(taps[down], taps[across]), (channels, 1, 3, 3))
        weights = Value.constant(
            f"{node.name}/weights{place}", np.ascontiguousarray(kernel, np.float32)
        )
        name = f"{node.name}/phase{place}"
        made.append(
            Node("Conv", name, (padded, weights), (phase,), _window(channels), _origin(node))
        )
        phases.append(phase)
    joined = _value(f"{output.name}/phases", (batch, channels * factor**2, height, width))
    made.append(
        Node("Concat", f"{node.name}/phases", tuple(phases), (joined,), {"axis": 1}, _origin(node))
    )
    attrs = {"blocksize": factor, "mode": "DCR"}
    made.append(Node("DepthToSpace", node.name, (joined,), node.outputs, attrs, _origin(node)))
    return made


def _taps(factor: int, *, half_pixel: bool) -> npt.NDArray[Any]:
    """[phases, 3]: how much of the elements before, at and after q is in output q * factor + r."""
    taps = np.zeros((factor, 3))
    for r in range(factor):
        place = (r + 0.5) / factor - 0.5 if half_pixel else r / factor
        first = int(np.floor(place))
        taps[r, first + 1] = 1 - (place - first)
        if place > first:
            taps[r, first + 2] = place - first
    return taps


def _window(channels: int) -> dict[str, Any]:
    return {
        "kernel_shape": (3, 3),
        "strides": (1, 1),
        "dilations": (1, 1),
        "pads": (0, 0, 0, 0),
        "group": channels,
    }


def _value(name: str, shape: tuple[int, ...]) -> Value:
    return Value(name, TensorType(shape, FP32))


def _origin(node: Node) -> tuple[str, ...]:
    return node.origin or (node.name,)
