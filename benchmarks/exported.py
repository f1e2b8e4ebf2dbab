"""Networks with random weights, written as an exporter would: nothing is downloaded."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper


class Writer:
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
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        stride: int,
        activation: str = "",
        group: int = 1,
    ) -> str:
        """`channels` read and made; `activation` "Relu", "Relu6" or none."""
        read, made = channels
        deviation = float(np.sqrt(2 / (read // group * kernel * kernel)))
        w = self.constant(f"{name}.w", (made, read // group, kernel, kernel), deviation)
        b = self.constant(f"{name}.b", (made,), 0.01)
        y = self.node(
            "Conv",
            [x, w, b],
            name,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=group,
        )
        if activation == "Relu6":
            return self.node("Clip", [y, *self._bounds()], f"{name}.relu6")
        return self.node(activation, [y], f"{name}.relu") if activation else y

    def _bounds(self) -> list[str]:
        if not any(i.name == "six" for i in self.initializers):  # type: ignore[attr-defined]
            for name, value in (("zero", 0.0), ("six", 6.0)):
                self.initializers.append(numpy_helper.from_array(np.float32(value), name))
        return ["zero", "six"]

    def classes(self, x: str, read: int) -> None:
        """Mean over the image, then 1000 logits."""
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x], "mean")], "flat")
        w = self.constant("classes.w", (1000, read), 0.02)
        b = self.constant("classes.b", (1000,), 0.01)
        self.nodes.append(helper.make_node("Gemm", [x, w, b], ["logits"], "classes", transB=1))

    def model(self, name: str, side: int) -> bytes:
        """The float model for images "image" [N, 3, side, side], to "logits" [N, 1000]."""
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, side, side])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])
        graph = helper.make_graph(self.nodes, name, [image], [logits], self.initializers)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        checker.check_model(model)
        return model.SerializeToString()
