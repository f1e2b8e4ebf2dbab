"""The types of an ONNX node's outputs, and nodes brought to the opset that graphs use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import checker, defs, helper, shape_inference, version_converter

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.evaluate import MAX_CONSTANT_BYTES
from ridgeline.frontend.onnx_bodies import bodies, inner_nodes
from ridgeline.frontend.onnx_form import operator_schema
from ridgeline.frontend.onnx_types import (
    SUPPORTED_ELEMENTS,
    dtype_of_element,
    element_of_dtype,
    to_tensor,
    type_proto,
)
from ridgeline.frontend.onnx_windows import without_padding_windows
from ridgeline.frontend.runtime import create_session
from ridgeline.ir import TensorType, Value

# Host nodes are brought to this opset: the first that has int16 and blocked quantisation.
GRAPH_OPSET = 21

_INFERENCE_ERRORS = (
    shape_inference.InferenceError,
    checker.ValidationError,
    RuntimeError,
    ValueError,
)

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_DATA_LIMIT_ELEMENTS = 4096  # shapes, axes and the like; inference needs no larger constant


def output_types(
    node: Any,
    inputs: Mapping[str, Value],
    opsets: Mapping[str, int],
    declared: Mapping[str, TensorType],
    where: str,
) -> list[TensorType]:
    """The type of each named output of a NodeProto.

    ONNX's own inference, given constants; ONNX Runtime's for operators that ONNX does not define
    or leaves open; then what the file declares, which is checked when the program runs. Raises
    RidgelineError for an unknown operator, a misfit, or a size that depends on data.
    """
    names = [name for name in node.output if name]
    schema = operator_schema(node, opsets)
    if schema is None:
        return _runtime_types(node, inputs, opsets, declared, where)
    if any(bodies(node)):
        return _body_types(node, inputs, opsets, declared, where)
    data = {
        name: to_tensor(value.data, name, value.type.dtype)
        for name, value in inputs.items()
        if value.data is not None and value.type.elements <= _DATA_LIMIT_ELEMENTS
    }
    types = {name: type_proto(value.type) for name, value in inputs.items()}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        found: Mapping[str, Any] = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=10
        )
    except _INFERENCE_ERRORS as error:
        raise _misfit(node, inputs, where, str(error)) from error
    resolved = [_resolved(found.get(name), where) for name in names]
    if any(t is None for t in resolved):
        return _runtime_types(node, inputs, opsets, declared, where)
    found_types = [t for t in resolved if t is not None]
    if node.op_type in _POOLS and not node.domain:
        sizes = inputs[node.input[0]].type.shape[2:]
        found_types = [without_padding_windows(node, sizes, t) for t in found_types]
    return [_bounded(t, where) for t in found_types]


def _bounded(type: TensorType, where: str) -> TensorType:
    if type.bytes > MAX_CONSTANT_BYTES * 8:
        raise RidgelineError(
            f"its result {type} takes {type.bytes:,} bytes, above the limit of "
            f"{MAX_CONSTANT_BYTES * 8:,}",
            where=where,
            fix="Use a smaller batch or shape.",
        )
    return type


def _misfit(node: Any, inputs: Mapping[str, Value], where: str, text: str) -> RidgelineError:
    if "NOT_IMPLEMENTED" in text:
        types = ", ".join(str(inputs[n].type) for n in node.input if n)
        return RidgelineError(
            f"ONNX Runtime, which is the host, has no {node.op_type} for ({types})",
            where=where,
            fix="Export the model with another opset, in float32, or without this operator.",
        )
    reason = re.sub(r"^\[\w+\]\s*", "", text.splitlines()[0] if text else "")
    shapes = ", ".join(str(inputs[n].type) for n in node.input if n)
    return RidgelineError(
        f"its inputs ({shapes}) do not fit: {reason}",
        where=where,
        fix="Check --shape, or export the model again.",
    )


def _resolved(proto: Any, where: str) -> TensorType | None:
    """A TensorType, or None when the rank or a dimension is not known."""
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    dims = tuple(int(d.dim_value) for d in tensor.shape.dim)
    return TensorType(dims, dtype_of_element(tensor.elem_type, where))


def declared_types(graph: Any) -> dict[str, TensorType]:
    """The types that the file itself gives to values, where every dimension is a number."""
    found: dict[str, TensorType] = {}
    for value in (*graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type in SUPPORTED_ELEMENTS:
            type = _resolved(value.type, "")
            if type is not None and type.bytes <= MAX_CONSTANT_BYTES:
                found[value.name] = type
    return found


def _body_types(
    node: Any,
    inputs: Mapping[str, Value],
    opsets: Mapping[str, int],
    declared: Mapping[str, TensorType],
    where: str,
) -> list[TensorType]:
    """Types of what control flow makes: ONNX's inference goes through the bodies."""
    names = [name for name in node.output if name]
    model = _node_model(node, inputs, opsets, [None] * len(names))
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except _INFERENCE_ERRORS as error:
        raise _misfit(node, inputs, where, str(error)) from error
    resolved = [_resolved(output.type, where) for output in inferred.graph.output]
    if any(t is None for t in resolved):
        return _runtime_types(node, inputs, opsets, declared, where)
    return [_bounded(t, where) for t in resolved if t is not None]


def _runtime_types(
    node: Any,
    inputs: Mapping[str, Value],
    opsets: Mapping[str, int],
    declared: Mapping[str, TensorType],
    where: str,
) -> list[TensorType]:
    names = [name for name in node.output if name]
    imports = {**opsets, node.domain: opsets.get(node.domain, 1)}
    model = _node_model(node, inputs, imports, [None] * len(names))
    try:
        session = create_session(model.SerializeToString())
    except Exception as error:
        if operator_schema(node, opsets) is None:
            raise _unknown(node, opsets, where) from error
        raise _misfit(node, inputs, where, _runtime_reason(error)) from error
    return [_runtime_type(output, declared, where) for output in session.get_outputs()]


def _runtime_type(output: Any, declared: Mapping[str, TensorType], where: str) -> TensorType:
    if not output.type.startswith("tensor("):
        raise RidgelineError(
            f"its output '{output.name}' is a {output.type}, not a tensor",
            where=where,
            fix="Export the model without sequences, maps and optionals.",
        )
    dtype = dtype_of_element(_element_of_runtime(output.type), where)
    # An unknown rank is reported as [] too, and only control flow that comes here makes a scalar.
    if output.shape and all(isinstance(d, int) for d in output.shape):
        return TensorType(tuple(output.shape), dtype)
    if output.name in declared and declared[output.name].dtype is dtype:
        return declared[output.name]
    raise RidgelineError(
        f"the shape of its output '{output.name}' depends on data",
        where=where,
        fix="Every size must be known when compiling: export the model up to this node.",
    )


def _runtime_reason(error: Exception) -> str:
    return str(error).splitlines()[0][-300:] if str(error) else type(error).__name__


def _element_of_runtime(text: str) -> int:
    """ONNX's element type of ONNX Runtime's "tensor(float16)"; 0 when there is none."""
    inner = text.removeprefix("tensor(").removesuffix(")").upper()
    elements: dict[str, int] = dict(onnx.TensorProto.DataType.items())
    return elements.get(inner, 0)


def _unknown(node: Any, opsets: Mapping[str, int], where: str) -> RidgelineError:
    domain = node.domain or "ai.onnx"
    if node.domain in ("", "ai.onnx"):
        known = {s.name for s in defs.get_all_schemas()}
        version = opsets.get("", 0)
        return RidgelineError(
            f"operator '{node.op_type}' is not in ONNX opset {version}",
            where=where,
            fix=did_you_mean(node.op_type, known)
            if node.op_type not in known
            else "Export the model with another opset.",
        )
    return RidgelineError(
        f"operator '{node.op_type}' of domain '{domain}' is known neither to ONNX nor to "
        "ONNX Runtime",
        where=where,
        fix="Export the model with standard operators.",
    )


def _node_model(
    node: Any,
    inputs: Mapping[str, Value],
    opsets: Mapping[str, int],
    outputs: Sequence[TensorType | None],
) -> Any:
    """A model of one node: constants as initialisers, other inputs typed."""
    names = [name for name in node.output if name]
    graph = helper.make_graph(
        [node],
        "node",
        [
            helper.make_tensor_value_info(n, element_of_dtype(v.type.dtype), v.type.shape)
            for n, v in inputs.items()
            if v.data is None
        ],
        [
            helper.make_empty_tensor_value_info(name)
            if type is None
            else helper.make_tensor_value_info(name, element_of_dtype(type.dtype), type.shape)
            for name, type in zip(names, outputs, strict=True)
        ],
        [to_tensor(v.data, n, v.type.dtype) for n, v in inputs.items() if v.data is not None],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    # Below IR version 4 initialisers had to be inputs too.
    ir_version = max(4, helper.find_min_ir_version_for(imports, True))
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def needs_newer_opset(node: Any, opset: int) -> bool:
    """Whether a default-domain node of `opset` means something else in GRAPH_OPSET."""
    if opset >= GRAPH_OPSET:
        return False
    return any(_has_changed(n, opset) for n in (node, *inner_nodes(node)))


def _has_changed(node: Any, opset: int) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    schema: Any = defs.get_schema(node.op_type, opset, "")
    try:
        newest: Any = defs.get_schema(node.op_type, GRAPH_OPSET, "")
    except defs.SchemaError:
        return True
    return schema.since_version != newest.since_version or newest.deprecated


def written_opset(nodes: Sequence[Any], values: Mapping[str, Value], opset: int) -> int:
    """The opset to write a graph in whose file has `opset`.

    The first from GRAPH_OPSET on that has every operator, where later versions only take more
    types than these values have: ONNX Runtime may lack kernels for the newest versions.
    """
    every = [n for node in nodes for n in (node, *inner_nodes(node))]
    for older in range(GRAPH_OPSET, opset):
        if all(_has_same_form(n, values, opset, older) for n in every):
            return older
    return max(opset, GRAPH_OPSET)


def _has_same_form(node: Any, values: Mapping[str, Value], opset: int, older: int) -> bool:
    """Whether opset `older` has the operator with these inputs, outputs and attributes.

    Of values in bodies no types are known here, and any are taken.
    """
    if node.domain not in ("", "ai.onnx"):
        return True
    try:
        new, old = (defs.get_schema(node.op_type, v, "") for v in (opset, older))
    except defs.SchemaError:
        return False
    if new.since_version == old.since_version:
        return True
    taken = ((node.input, new.inputs, old.inputs), (node.output, new.outputs, old.outputs))
    for names, newer, formals in taken:
        if [p.name for p in newer[: len(names)]] != [p.name for p in formals[: len(names)]]:
            return False
        for name, formal in zip(names, _repeated(formals, len(names)), strict=False):
            if name in values and _type_text(values[name]) not in formal.types:
                return False
    return _has_same_attributes(node, new, old)


def _repeated(formals: Sequence[Any], count: int) -> list[Any]:
    """As many formal parameters as there are names: a variadic one stands for all the rest."""
    return [formals[min(i, len(formals) - 1)] for i in range(count)]


def _type_text(value: Value) -> str:
    element = element_of_dtype(value.type.dtype)
    return f"tensor({onnx.TensorProto.DataType.Name(element).lower()})"


def _has_same_attributes(node: Any, new: Any, old: Any) -> bool:
    """Whether an older version has what the node is given, and means the same by the rest."""
    kinds = [
        {k: (str(a.type), str(a.default_value)) for k, a in schema.attributes.items()}
        for schema in (new, old)
    ]
    return kinds[1].items() <= kinds[0].items() and all(a.name in kinds[1] for a in node.attribute)


def in_graph_opset(
    node: Any, inputs: Mapping[str, Value], outputs: Sequence[TensorType], opset: int, where: str
) -> Any:
    """A GraphProto of GRAPH_OPSET that computes the one node; its own values have new names."""
    model = _node_model(node, inputs, {"": opset}, outputs)
    try:
        graph = version_converter.convert_version(model, GRAPH_OPSET).graph
    except Exception as error:
        raise RidgelineError(
            f"it cannot be brought from opset {opset} to {GRAPH_OPSET} ({_runtime_reason(error)})",
            where=where,
            fix=f"Export the model with opset {GRAPH_OPSET}.",
        ) from error
    kept = {*inputs, *(name for name in node.output if name)}
    prefix = next(name for name in node.output if name)
    for inner in graph.node:
        inner.name = node.name if prefix in inner.output else f"{prefix}/{inner.output[0]}"
        for names in (inner.input, inner.output):
            names[:] = [n if n in kept or not n else f"{prefix}/{n}" for n in names]
    for tensor in graph.initializer:
        tensor.name = tensor.name if tensor.name in kept else f"{prefix}/{tensor.name}"
    return graph
