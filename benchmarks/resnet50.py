"""ResNet-50 with random weights, as an exporter writes it: the network that the benchmarks time.

He et al. 2015 (arXiv:1512.03385), table 1, with the stride of a stage in its first 3x3 convolution,
as torchvision has it. Nothing is downloaded: speed does not depend on what the weights are.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and inner channels of each stage."""


class _Writer:
    """Nodes and initialisers under way; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(50)
        self.nodes: list[object] = []
        self.initializers: list[object] = []

    def constant(self, name: str, shape: tuple[int, ...], deviation: float) -> str:
        array = self.rng.normal(0, deviation, shape).astype(np.float32)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name, **attributes))
        return f"{name}.out"

    def convolution(
        self, x: str, name: str, channels: tuple[int, int], kernel: int, stride: int, relu: bool
    ) -> str:
        read, made = channels
        deviation = float(np.sqrt(2 / (read * kernel * kernel)))
        w = self.constant(f"{name}.w", (made, read, kernel, kernel), deviation)
        b = self.constant(f"{name}.b", (made,), 0.01)
        y = self.node(
            "Conv",
            [x, w, b],
            name,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )
        return self.node("Relu", [y], f"{name}.relu") if relu else y

    def block(self, x: str, name: str, read: int, inner: int, stride: int) -> str:
        y = self.convolution(x, f"{name}.a", (read, inner), 1, 1, True)
        y = self.convolution(y, f"{name}.b", (inner, inner), 3, stride, True)
        y = self.convolution(y, f"{name}.c", (inner, 4 * inner), 1, 1, False)
        if read != 4 * inner:
            x = self.convolution(x, f"{name}.d", (read, 4 * inner), 1, stride, False)
        return self.node("Relu", [self.node("Add", [y, x], f"{name}.add")], f"{name}.relu")


def resnet50(side: int) -> bytes:
    """The float model for images "image" [N, 3, side, side], to "logits" [N, 1000]."""
    made = _Writer()
    x = made.convolution("image", "stem", (3, 64), 7, 2, True)
    x = made.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    read = 64
    for stage, (blocks, inner) in enumerate(STAGES):
        for number in range(blocks):
            stride = 2 if stage and not number else 1
            x = made.block(x, f"stage{stage + 1}.{number}", read, inner, stride)
            read = 4 * inner
    x = made.node("Flatten", [made.node("GlobalAveragePool", [x], "mean")], "flat")
    w = made.constant("classes.w", (1000, read), 0.02)
    b = made.constant("classes.b", (1000,), 0.01)
    made.nodes.append(helper.make_node("Gemm", [x, w, b], ["logits"], "classes", transB=1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, side, side])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])
    graph = helper.make_graph(made.nodes, "resnet50", [image], [logits], made.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()
