"""What every value of a graph should be: by the integers' meaning, by ONNX Runtime, from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Node, Value
from ridgeline.ops.evaluate import evaluate

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Reference = Mapping[int, Array]
"""Arrays in their storage format, by id(value)."""


def by_meaning(graph: Graph, inputs: Arrays) -> Reference:
    """Every quantised value as `ops` defines it; what `ops` lacks ONNX Runtime computes.

    Without real values: on the host ONNX Runtime may round those of several nodes together.
    """

    def host(node: Node, arrays: Any) -> list[Array]:
        read = [v for v in dict.fromkeys(node.inputs) if v is not None and not v.is_constant]
        alone = Graph("host", tuple(read), node.outputs, (node,), graph.opset)
        given = {v.name: a for v, a in zip(node.inputs, arrays, strict=True) if v in read}
        return GraphRunner(alone).run(given)

    every = evaluate(graph, inputs, host)
    made = [v for n in graph.nodes for v in n.outputs if v.type.quant is not None]
    return {id(v): every[id(v)] for v in made}


def by_onnx_runtime(graph: Graph, inputs: Arrays) -> Reference:
    """Every value as ONNX Runtime computes it in the file that `quantize` writes."""
    made = [v for n in graph.nodes for v in n.outputs]
    wanted = [v for v in made if v.type.quant is not None or v in graph.outputs]
    return {id(v): a for v, a in zip(wanted, GraphRunner(graph, wanted).run(inputs), strict=True)}


def from_arrays(graph: Graph, arrays: Arrays, where: str) -> Reference:
    """Values by the names that the graph gives them. Raises RidgelineError when none is there."""
    named: dict[str, Value] = {v.name: v for n in graph.nodes for v in n.outputs}
    found: dict[int, Array] = {}
    for name, array in arrays.items():
        value = named.get(name)
        if value is None:
            continue
        if array.shape != value.type.shape or array.dtype != value.type.dtype.numpy:
            raise RidgelineError(
                f"array '{name}' is {array.dtype}{list(array.shape)}, the value {value.type}",
                where=where,
                fix="Write the stored integers of each layer, as --dump does",
            )
        found[id(value)] = np.asarray(array)
    if not found:
        raise RidgelineError(
            "none of its arrays has the name of a value in the model",
            where=where,
            fix=did_you_mean(next(iter(arrays), ""), named),
        )
    return found
