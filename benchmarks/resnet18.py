"""ResNet-18 with random weights, as an exporter writes it: the network of ZigZag's own example.

He et al. 2015 (arXiv:1512.03385), table 1. Nothing is downloaded: speed does not depend on what
the weights are.
"""

from __future__ import annotations

from exported import Writer


def resnet18(side: int) -> bytes:
    """The float model for images "image" [N, 3, side, side], to "logits" [N, 1000]."""
    made = Writer()
    x = made.convolution("image", "stem", (3, 64), 7, 2, "Relu")
    x = made.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    read = 64
    for stage in range(4):
        channels = 64 << stage
        x = _block(made, x, f"stage{stage + 1}.0", read, channels, 2 if stage else 1)
        x = _block(made, x, f"stage{stage + 1}.1", channels, channels, 1)
        read = channels
    made.classes(x, read)
    return made.model("resnet18", side)


def _block(made: Writer, x: str, name: str, read: int, channels: int, stride: int) -> str:
    y = made.convolution(x, f"{name}.a", (read, channels), 3, stride, "Relu")
    y = made.convolution(y, f"{name}.b", (channels, channels), 3, 1)
    if read != channels:
        x = made.convolution(x, f"{name}.d", (read, channels), 1, stride)
    return made.node("Relu", [made.node("Add", [y, x], f"{name}.add")], f"{name}.relu")
