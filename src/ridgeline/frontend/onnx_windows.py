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
    if not (len(strides) == len(dilations) == rank and len(pads) == 2 * rank):
        raise source.error(
            f"kernel {list(kernel_shape)}, strides {list(strides)}, dilations {list(dilations)} "
            f"and pads {list(pads)} do not fit together"
        )
    window = Window(kernel_shape, strides, dilations, pads)
    spatial = source.input(0).type.shape[2:]
    if mode not in ("NOTSET", ""):
        pads = _auto_pads(window, spatial, mode)
        window = Window(kernel_shape, strides, dilations, pads)
    padded = [n + pads[i] + pads[rank + i] for i, n in enumerate(spatial)]
    if any(span > size for span, size in zip(window.spans(), padded, strict=True)):
        raise source.error(
            f"a window reaches over {window.spans()} elements, but the padded input has {padded}",
            "Check --shape: the input is too small for this model.",
        )
    return window


def read_pool_window(source: Source) -> Window:
    """The window of a pool, whose padding must be shorter than its kernel."""
    window = read_window(source, tuple(source.attrs["kernel_shape"]))
    mode = source.attrs.get("auto_pad", "NOTSET")
    if mode.startswith("SAME") and any(d != 1 for d in window.dilations):
        raise source.error(
            f"ONNX and ONNX Runtime pad a dilated pool with auto_pad {mode} differently",
            "Export the model with its padding as numbers (pads).",
        )
    if _pads_too_far(window):
        raise source.error(
            f"pads {list(window.pads)} are not all smaller than the kernel "
            f"{list(window.kernel_shape)}, and so some windows would hold padding only"
        )
    return window


def _pads_too_far(window: Window) -> bool:
    kernels = window.kernel_shape * 2
    return any(pad >= k for pad, k in zip(window.pads, kernels, strict=True) if pad)


def convolution_attributes(source: Source, weights: Value) -> dict[str, object]:
    """The attributes of a Conv primitive from those of an ONNX convolution."""
    _check_channels(source, weights)
    window = read_window(source, weights.type.shape[2:])
    return {
        "kernel_shape": window.kernel_shape,
        "strides": window.strides,
        "dilations": window.dilations,
        "pads": window.pads,
        "group": int(source.attrs.get("group", 1)),
    }


def _check_channels(source: Source, weights: Value) -> None:
    group = int(source.attrs.get("group", 1))
    channels, shape = source.input(0).type.shape[1], weights.type.shape
    told = f"weights {weights.type} with group {group} and an input of {channels} channels"
    if 0 in shape or channels == 0:
        raise source.error(f"{told}: a convolution of nothing", "Export the model without it.")
    if group < 1:
        raise source.error(f"group is {group}, and must be 1 or more")
    if shape[1] * group != channels or shape[0] % group:
        raise source.error(
            f"{told} do not fit: the weights take {shape[1]} x {group} = {shape[1] * group} "
            f"channels and give {shape[0]}, which group must divide"
        )


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
    pads = window.pads[:rank] + tuple(ends)
    padded = Window(window.kernel_shape, window.strides, window.dilations, pads)
    return None if _pads_too_far(padded) else padded


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
