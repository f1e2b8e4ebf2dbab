"""Windows of convolutions and pools: kernel, strides, dilations and explicit padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.frontend.onnx_source import Source
from ridgeline.ir import TensorType, Value


@dataclass(frozen=True, slots=True)
class Window:
    """One entry per spatial dimension; `pads` holds all beginnings, then all ends, as in ONNX."""

    kernel_shape: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    def spans(self) -> list[int]:
        """Input elements that one window reaches over, per dimension."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel_shape, self.dilations, strict=True)]


def read_window(source: Source, kernel_shape: tuple[int, ...]) -> Window:
    """The window of a Conv or pool, with auto_pad turned into numbers (ONNX Conv, "auto_pad")."""
    rank = len(kernel_shape)
    strides = tuple(source.attrs.get("strides") or [1] * rank)
    dilations = tuple(source.attrs.get("dilations") or [1] * rank)
    pads = tuple(source.attrs.get("pads") or [0] * 2 * rank)
    mode = source.attrs.get("auto_pad", "NOTSET")
    window = Window(kernel_shape, strides, dilations, pads)
    if not (len(strides) == len(dilations) == rank and len(pads) == 2 * rank):
        raise source.error(
            f"kernel {list(kernel_shape)}, strides {list(strides)}, dilations {list(dilations)} "
            f"and pads {list(pads)} do not fit together"
        )
    if mode in ("NOTSET", ""):
        return window
    spatial = source.input(0).type.shape[2:]
    return Window(kernel_shape, strides, dilations, _auto_pads(window, spatial, mode))


def convolution_attributes(source: Source, weights: Value) -> dict[str, object]:
    """The attributes of a Conv primitive from those of an ONNX convolution."""
    window = read_window(source, weights.type.shape[2:])
    return {
        "kernel_shape": window.kernel_shape,
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads,
        "group": int(source.attrs.get("group", 1)),
    }


def _auto_pads(window: Window, spatial: tuple[int, ...], mode: str) -> tuple[int, ...]:
    if mode == "VALID":
        return (0,) * (2 * len(spatial))
    begins: list[int] = []
    ends: list[int] = []
    for size, stride, span in zip(spatial, window.strides, window.spans(), strict=True):
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return (*begins, *ends)


def with_ceil_mode(source: Source, window: Window) -> Window | None:
    """The same window with end padding that makes the rounded-down size equal the file's.

    `ceil_mode` adds a last window that reaches past the padded end; its size is taken from the
    output's shape. None where the padding would be as long as the kernel, which no operator may
    have: a dilated window can reach so far.
    """
    if not source.attrs.get("ceil_mode"):
        return window
    rank = len(window.kernel_shape)
    sizes, outputs = source.input(0).type.shape[2:], source.outputs[0].type.shape[2:]
    ends: list[int] = []
    for axis in range(rank):
        reach = (outputs[axis] - 1) * window.strides[axis] + window.spans()[axis]
        needed = reach - sizes[axis] - window.pads[axis]
        ends.append(max(window.pads[rank + axis], needed))
    if any(end >= k for end, k in zip(ends, window.kernel_shape, strict=True) if end):
        return None
    pads = window.pads[:rank] + tuple(ends)
    return Window(window.kernel_shape, window.strides, window.dilations, pads)


def without_padding_windows(node: Any, sizes: Sequence[int], type: TensorType) -> TensorType:
    """The type of a pool's output without the windows that begin in the padding at the end.

    ONNX's inference counts them with `ceil_mode`; ONNX (MaxPool, "ceil_mode") and ONNX Runtime
    leave them out. `sizes` are the input's spatial dimensions.
    """
    numbers = {a.name: a.i if a.name == "ceil_mode" else tuple(a.ints) for a in node.attribute}
    if not numbers.get("ceil_mode") or len(type.shape) != len(sizes) + 2:
        return type
    strides = numbers.get("strides") or (1,) * len(sizes)
    pads = numbers.get("pads") or (0,) * len(sizes)
    counts = [
        count - (count > 1 and (count - 1) * stride >= size + begin)
        for count, size, stride, begin in zip(type.shape[2:], sizes, strides, pads, strict=False)
    ]
    return TensorType((*type.shape[:2], *counts), type.dtype, type.quant)
