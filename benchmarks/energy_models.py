"""Networks whose power is published, as ONNX files with random weights: only shapes count."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(slots=True)
class Network:
    """An ONNX graph while it grows; names are numbered in order."""

    shape: tuple[int, ...]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """Normal weights whose outputs have the size of their inputs, as He et al. 2015."""
        fan_in = int(np.prod(shape[1:]))
        values = self.random.standard_normal(shape) * np.sqrt(2 / fan_in)
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def convolution(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1,
        pad: int | None = None, group: int = 1, relu: bool = True,
    ) -> str:  # fmt: skip
        into, out = channels
        around = kernel // 2 if pad is None else pad
        weight = self.weight(out, into // group, kernel, kernel)
        x = self.add(
            "Conv", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[around] * 4, group=group,
        )  # fmt: skip
        return self.add("Relu", x) if relu else x

    def pool(self, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        return self.add(
            "MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def finish(self, result: str) -> bytes:
        entry = helper.make_tensor_value_info("input", TensorProto.FLOAT, self.shape)
        leave = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [entry], [leave], self.weights)
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        return onnx.shape_inference.infer_shapes(model).SerializeToString()


def mlp0() -> bytes:
    """Jouppi et al. 2017, table 1: 5 dense layers, 20 M weights, batch 200: 2000 x 2000 each."""
    made = Network((200, 2000))
    x = "input"
    for _ in range(5):
        x = made.add("Relu", made.add("Gemm", x, made.weight(2000, 2000), transB=1))
    return made.finish(x)


def cnn0() -> bytes:
    """The same table: 16 convolutions, 8 M weights, batch 8, 2888 multiplications for each weight.

    2888 / 8 = 19 x 19 pixels, and 16 layers of 3 x 3 x 236 x 236 have 8.0 M weights.
    """
    made = Network((8, 236, 19, 19))
    x = "input"
    for _ in range(16):
        x = made.convolution(x, (236, 236), 3)
    return made.finish(x)


@dataclass(frozen=True, slots=True)
class Convolution:
    """One layer of AlexNet: a group has `into` channels for each pixel and `out` results."""

    kernel: int
    into: int
    out: int
    pixels: int
    groups: int

    @property
    def macs(self) -> int:
        return self.groups * self.pixels * self.kernel**2 * self.into * self.out


ALEXNET = (
    Convolution(11, 3, 96, 55 * 55, 1),
    Convolution(5, 48, 128, 27 * 27, 2),
    Convolution(3, 256, 384, 13 * 13, 1),
    Convolution(3, 192, 192, 13 * 13, 2),
    Convolution(3, 192, 128, 13 * 13, 2),
)
"""Krizhevsky et al. 2012: 666 million multiplications an image."""


def resnet50() -> bytes:
    """He et al. 2016 at 224 x 224, the stride in the 3 x 3 convolution; normalisation folded."""
    made = Network((1, 3, 224, 224))
    x = made.pool(made.convolution("input", (3, 64), 7, 2), 3, 2, pad=1)
    into = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = made.convolution(x, (into, inner), 1)
            y = made.convolution(y, (inner, inner), 3, stride)
            y = made.convolution(y, (inner, 4 * inner), 1, relu=False)
            if not block:
                x = made.convolution(x, (into, 4 * inner), 1, stride, relu=False)
            x = made.add("Relu", made.add("Add", x, y))
            into = 4 * inner
    x = made.add("Flatten", made.add("GlobalAveragePool", x))
    return made.finish(made.add("Gemm", x, made.weight(1000, into), transB=1))
