"""Tables of functions of one 8-bit value, as ONNX Runtime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Node, TensorType, Value

ENTRIES = 256


def tabulate(function: Graph, x: TensorType, y: TensorType) -> npt.NDArray[Any]:
    """What ONNX Runtime stores for each stored byte: DequantizeLinear, `function`, QuantizeLinear.

    `x` and `y` are 8-bit types with one scale each. Entry i belongs to byte i, for int8 as two's
    complement. ONNX Runtime sees the very pattern that a QDQ file has, so that it may use its own
    tables (QLinearSigmoid, QLinearLeakyRelu). Raises RidgelineError when it lacks an operator.
    """
    source = Value("x", TensorType((ENTRIES,), x.dtype, x.quant))
    result = Value("y", TensorType((ENTRIES,), y.dtype, y.quant))
    node = Node("Lookup", "table", (source,), (result,), {"function": function})
    graph = Graph("table", (source,), (result,), (node,), function.opset).check()
    stored = np.arange(ENTRIES, dtype=np.uint8).view(x.dtype.numpy)
    (table,) = GraphRunner(graph).run({"x": stored})
    return np.ascontiguousarray(table.reshape(-1)[:ENTRIES])
