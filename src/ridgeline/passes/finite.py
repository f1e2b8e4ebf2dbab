"""What folding made of the constants: numbers, as the reader demands of a file's own."""

from __future__ import annotations

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, Value

# An infinity in their weights makes every result useless; elsewhere it may be a mask or a bound.
_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def check_finite(graph: Graph) -> Graph:
    """The same graph. Raises RidgelineError for a constant with NaN, or a product's with infinity.

    The reader has refused such initializers, so folding made them: a scale that overflows its
    weights, a root of a negative number.
    """
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.data is not None and value.type.dtype.is_float:
                _check(node, value)
    return graph


def _check(node: Node, value: Value) -> None:
    assert value.data is not None
    array = value.data if value.data.dtype.itemsize >= 4 else value.data.astype(np.float32)
    nan = np.isnan(array)
    bad = ~np.isfinite(array) if node.op in _PRODUCTS else nan
    if bad.any():
        kinds = "NaN" if nan.any() else "infinite"
        through = f", folded from {', '.join(node.origin)}," if len(node.origin) > 1 else ""
        raise RidgelineError(
            f"its constant '{value.name}'{through} has {int(bad.sum())} {kinds} of {array.size} "
            "values",
            where=f"node '{node.name}' ({node.op})",
            fix="Check the values from which it is computed, or train the model again.",
        )
