"""ResNet-50 with random weights, as an exporter writes it: the network that the benchmarks time.

He et al. 2015 (arXiv:1512.03385), table 1, with the stride of a stage in its first 3x3 convolution,
as torchvision has it. Nothing is downloaded: speed does not depend on what the weights are.
"""

from __future__ import annotations

from exported import Writer

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and inner channels of each stage."""


def resnet50(side: int) -> bytes:
    """The float model for images "image" [N, 3, side, side], to "logits" [N, 1000]."""
    made = Writer()
    x = made.convolution("image", "stem", (3, 64), 7, 2, "Relu")
    x = made.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    read = 64
    for stage, (blocks, inner) in enumerate(STAGES):
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            x = _block(made, x, f"stage{stage + 1}.{number}", read, inner, stride)
            read = 4 * inner
    made.classes(x, read)
    return made.model("resnet50", side)


def _block(made: Writer, x: str, name: str, read: int, inner: int, stride: int) -> str:
    y = made.convolution(x, f"{name}.a", (read, inner), 1, 1, "Relu")
    y = made.convolution(y, f"{name}.b", (inner, inner), 3, stride, "Relu")
    y = made.convolution(y, f"{name}.c", (inner, 4 * inner), 1, 1)
    if read != 4 * inner:
        x = made.convolution(x, f"{name}.d", (read, 4 * inner), 1, stride)
    return made.node("Relu", [made.node("Add", [y, x], f"{name}.add")], f"{name}.relu")
