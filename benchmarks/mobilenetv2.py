"""MobileNetV2 with random weights, as an exporter writes it.

Sandler et al. 2018 (arXiv:1801.04381), table 2, as torchvision has it. Nothing is downloaded:
neither speed nor schedules depend on what the weights are.
"""

from __future__ import annotations

from exported import Writer

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels made, blocks, and stride of the first block."""


def mobilenetv2(side: int) -> bytes:
    """The float model for images "image" [N, 3, side, side], to "logits" [N, 1000]."""
    made = Writer()
    x = made.convolution("image", "stem", (3, 32), 3, 2, "Relu6")
    read = 32
    for stage, (expansion, channels, blocks, first_stride) in enumerate(STAGES):
        for number in range(blocks):
            stride = 1 if number else first_stride
            name = f"stage{stage + 1}.{number}"
            x = _block(made, x, name, (read, channels), expansion, stride)
            read = channels
    x = made.convolution(x, "last", (read, 1280), 1, 1, "Relu6")
    made.classes(x, 1280)
    return made.model("mobilenetv2", side)


def _block(
    made: Writer, x: str, name: str, channels: tuple[int, int], expansion: int, stride: int
) -> str:
    read, out = channels
    inner, y = read * expansion, x
    if expansion > 1:
        y = made.convolution(x, f"{name}.expand", (read, inner), 1, 1, "Relu6")
    y = made.convolution(y, f"{name}.depth", (inner, inner), 3, stride, "Relu6", group=inner)
    y = made.convolution(y, f"{name}.project", (inner, out), 1, 1)
    return made.node("Add", [y, x], f"{name}.add") if stride == 1 and read == out else y
