"""One node computed by ONNX Runtime: how constants are folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_types import Array, to_tensor
from ridgeline.frontend.runtime import create_session
from ridgeline.frontend.session_values import run_session
from ridgeline.ir import Graph, Node
from ridgeline.numerics.formats import dtype_of

# A constant above this is refused rather than computed: a file of a few bytes could ask for any.
MAX_CONSTANT_BYTES = 1 << 31


def single_node_model(node: Any, inputs: Mapping[str, Array], opsets: Mapping[str, int]) -> Any:
    """A model of one NodeProto whose inputs are initialisers and whose outputs have no types."""
    graph = helper.make_graph(
        [node],
        "constant",
        [],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        [to_tensor(array, name, dtype_of(array)) for name, array in inputs.items()],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    ir_version = max(4, helper.find_min_ir_version_for(imports, True))
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def evaluate_proto(
    node: Any, inputs: Mapping[str, Array], opsets: Mapping[str, int], where: str
) -> dict[str, Array]:
    """The outputs of one NodeProto on constant inputs, by name.

    ONNX Runtime computes them, or ONNX's reference where ONNX Runtime lacks the kernel. Raises
    RidgelineError naming the node when neither can.
    """
    model = single_node_model(node, inputs, opsets)
    names = [name for name in node.output if name]
    try:
        session = create_session(model.SerializeToString())
        return dict(zip(names, run_session(session, {}, names), strict=True))
    except Exception as runtime_error:
        try:
            results = ReferenceEvaluator(model).run(names, {})
        except Exception as error:
            raise RidgelineError(
                f"{node.op_type} of constants cannot be computed ({_first_line(runtime_error)})",
                where=where,
                fix="Check the node's inputs and attributes.",
            ) from error
        return dict(zip(names, map(np.asarray, results), strict=True))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def evaluate_constant(node: Node, opset: int) -> tuple[Array, ...]:
    """The outputs of a graph node whose inputs are all constants, for `passes.fold`."""
    from ridgeline.frontend.onnx_writer import onnx_bytes

    graph = Graph("constant", (), node.outputs, (node,), opset)
    session = create_session(onnx_bytes(graph))
    return tuple(run_session(session, {}, [o.name for o in session.get_outputs()]))
