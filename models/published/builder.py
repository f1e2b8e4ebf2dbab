"""An ONNX model written node by node from trained weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Dims = Sequence[int | str]


class Builder:
    """Collects nodes and constants. `weights` are the checkpoint's tensors by name."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, Array] = {}

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """A tensor of the checkpoint as an initialiser."""
        array = self.weights[name]
        return self.constant(name, array.T if transposed else array)

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        found = np.asarray(array)
        self._constants[name] = np.ascontiguousarray(found).reshape(found.shape)
        return name

    def node(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator called `name`, and name its one output."""
        output = f"{name}_out"
        self._nodes.append(helper.make_node(op, inputs, [output], name, **attributes))
        return output

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Dims]],
        outputs: Mapping[str, tuple[str, Dims]],
        opset: int = 17,
    ) -> onnx.ModelProto:
        """`inputs` as element type and shape, `outputs` (float32) as the value and its shape."""
        for output, (value, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [output], f"{output}_name"))
        graph = helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info(n, t, dims) for n, (t, dims) in inputs.items()],
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, dims)
                for n, (_, dims) in outputs.items()
            ],
            [numpy_helper.from_array(array, n) for n, array in self._constants.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        made.ir_version = 8
        onnx.checker.check_model(made, full_check=True)
        return made
