"""Random small float models, as exporters write them, in ONNX; every choice comes from one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper, numpy_helper, shape_inference


class FloatModelMaker:
    """Grows a model of images [N, C, H, W] node by node."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def constant(self, *shape: int, positive: bool = False) -> str:
        name = f"c{len(self.arrays)}"
        array = self.rng.standard_normal(shape)
        array = np.abs(array) + 0.5 if positive else array
        self.arrays[name] = array.astype(np.float32)
        return name

    def integers(self, *values: int) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(values, np.int64)
        return name

    def add(self, op: str, inputs: list[str], **attrs: Any) -> str:
        output = f"v{len(self.nodes)}"
        node = helper.make_node(op, inputs, [output], f"{op}{len(self.nodes)}", **attrs)
        given = [
            helper.make_tensor_value_info(n, 1, self.shapes[n]) for n in inputs if n in self.shapes
        ]
        graph = helper.make_graph(
            [node],
            "g",
            given,
            [helper.make_empty_tensor_value_info(output)],
            [numpy_helper.from_array(self.arrays[n], n) for n in inputs if n in self.arrays],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        dims = inferred.graph.output[0].type.tensor_type.shape.dim
        self.shapes[output] = tuple(d.dim_value for d in dims)
        self.nodes.append(node)
        return output

    # What exporters write

    def convolution(self, x: str) -> str:
        channels, *sizes = self.shapes[x][1:]
        kernel = [self.number(1, min(3, s)) for s in sizes]
        outputs = self.number(1, 5)
        if self.rng.random() < 0.3:
            pads = [0, 0, *(self.number(0, 1) for _ in range(2))] * 2
            x = self.add("Pad", [x, self.integers(*pads)])
        inputs = [x, self.constant(outputs, channels, *kernel)]
        if self.rng.random() < 0.5:
            inputs.append(self.constant(outputs))
        strides = [self.number(1, 2) for _ in range(2)]
        return self.add("Conv", inputs, strides=strides, pads=[self.number(0, 1) for _ in range(4)])

    def transposed(self, x: str) -> str:
        channels, outputs = self.shapes[x][1], self.number(1, 4)
        kernel = [self.number(1, 3) for _ in range(2)]
        weights = self.constant(channels, outputs, *kernel)
        return self.add("ConvTranspose", [x, weights], strides=[self.number(1, 2)] * 2)

    def normalization(self, x: str) -> str:
        channels = self.shapes[x][1]
        parameters = [self.constant(channels) for _ in range(3)]
        variance = self.constant(channels, positive=True)
        return self.add("BatchNormalization", [x, *parameters, variance])

    def scale(self, x: str) -> str:
        channels = self.shapes[x][1]
        op = str(self.rng.choice(["Mul", "Add", "Sub", "Div"]))
        operand = self.constant(1, channels, 1, 1, positive=True)
        swapped = op != "Div" and self.rng.random() < 0.3
        return self.add(op, [operand, x] if swapped else [x, operand])

    def activation(self, x: str) -> str:
        ops = ("Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "Max", "Tanh")
        op = str(self.rng.choice(ops))
        if op == "Clip":
            return self.add(op, [x, self._scalar(0), self._scalar(6)])
        return self.add(op, [x, self._scalar(-0.5)] if op == "Max" else [x])

    def _scalar(self, value: float) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(value, np.float32)
        return name

    def pool(self, x: str) -> str:
        kernel = [min(2, s) for s in self.shapes[x][2:]]
        op = str(self.rng.choice(["MaxPool", "AveragePool"]))
        return self.add(op, [x], kernel_shape=kernel, strides=kernel, ceil_mode=self.number(0, 1))

    def residual(self, x: str) -> str:
        channels = self.shapes[x][1]
        branch = self.add("Conv", [x, self.constant(channels, channels, 1, 1)])
        op = str(self.rng.choice(["Add", "Mul", "Sum", "Concat", "Mean"]))
        return self.add(op, [x, branch], **({"axis": 1} if op == "Concat" else {}))

    def turn(self, x: str) -> str:
        turned = self.add("Transpose", [x], perm=[0, 2, 3, 1])
        return self.add("Transpose", [self.activation(turned)], perm=[0, 3, 1, 2])

    def head(self, x: str) -> str:
        if self.rng.random() < 0.5:
            x = self.add("ReduceMean", [x], axes=[2, 3], keepdims=self.number(0, 1))
        x = self.add("Flatten", [x])
        features, outputs = self.shapes[x][1], self.number(1, 5)
        inputs = [x, self.constant(outputs, features), self.constant(outputs)]
        x = self.add("Gemm", inputs, transB=1)
        return self.add("Softmax", [x]) if self.rng.random() < 0.5 else x

    def steps(self) -> tuple[Callable[[str], str], ...]:
        return (
            self.convolution,
            self.transposed,
            self.normalization,
            self.scale,
            self.activation,
            self.pool,
            self.residual,
            self.turn,
        )


def random_float_model(seed: int) -> bytes:
    """A model with the input "x" and one or two outputs, of opset 17."""
    maker = FloatModelMaker(seed)
    shape = (maker.number(1, 2), maker.number(1, 4), maker.number(3, 7), maker.number(3, 7))
    maker.shapes["x"] = shape
    x = maker.convolution("x")
    outputs = [x] if maker.rng.random() < 0.2 else []
    steps = maker.steps()
    for _ in range(maker.number(2, 8)):
        x = steps[maker.number(0, len(steps) - 1)](x)
    outputs.append(maker.head(x))
    graph = helper.make_graph(
        maker.nodes,
        f"random{seed}",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info(n, 1, maker.shapes[n]) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in maker.arrays.items()],
    )
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
