"""Two small networks of the kinds that MLPerf Tiny has, made here with random weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

FLOAT = 1


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []

    def weights(self, *shape: int) -> str:
        name = f"w{len(self.arrays)}"
        scale = float(np.sqrt(2 / np.prod(shape[1:])))
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.arrays.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"v{name}"], name, **attrs))
        return f"v{name}"

    def convolution(self, x: str, given: int, made: int, size: int, stride: int = 1) -> str:
        pads = [size // 2] * 4
        w = self.weights(made, given, size, size)
        return self.add("Relu", self.add("Conv", x, w, strides=[stride] * 2, pads=pads))

    def depthwise(self, x: str, channels: int) -> str:
        w = self.weights(channels, 1, 3, 3)
        return self.add("Relu", self.add("Conv", x, w, group=channels, pads=[1] * 4))

    def dense(self, x: str, given: int, made: int) -> str:
        return self.add("Gemm", x, self.weights(made, given), transB=1)

    def model(self, shape: list[Any], out: str) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info("x", FLOAT, shape)],
            [helper.make_tensor_value_info(out, FLOAT, None)],
            self.arrays,
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def keyword_spotting() -> bytes:
    """Depthwise separable: 49 x 10 features, four blocks of 64 channels."""
    make = _Maker(1)
    x = make.convolution("x", 1, 64, 3, 2)
    for _ in range(4):
        x = make.convolution(make.depthwise(x, 64), 64, 64, 1)
    x = make.add("Flatten", make.add("GlobalAveragePool", x))
    return make.model(["N", 1, 49, 10], make.dense(x, 64, 12))


def anomaly_detection() -> bytes:
    """Dense autoencoder of 640 features."""
    make = _Maker(2)
    x, sides = "x", [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    for given, made in pairwise(sides):
        x = make.add("Relu", make.dense(x, given, made))
    return make.model(["N", 640], make.dense(x, 128, 640))
