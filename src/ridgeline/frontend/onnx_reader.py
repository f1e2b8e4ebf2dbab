"""From an ONNX file to a Graph: every dimension known, constants and shape arithmetic folded,
operators in the vocabulary of docs/graph.md, quantisation parameters in the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.frontend.evaluate import MAX_CONSTANT_BYTES, evaluate_proto
from ridgeline.frontend.onnx_bodies import (
    CAPTURES,
    branch_in_place,
    captured_names,
    drop_unread_masks,
    with_opsets,
)
from ridgeline.frontend.onnx_file import load_model
from ridgeline.frontend.onnx_functions import inlined
from ridgeline.frontend.onnx_infer import (
    GRAPH_OPSET,
    declared_types,
    in_graph_opset,
    needs_newer_opset,
    output_types,
    written_opset,
)
from ridgeline.frontend.onnx_ops import TABLE
from ridgeline.frontend.onnx_order import in_order, name_absent_outputs, name_of
from ridgeline.frontend.onnx_quant import collect_quants, fitted, quant_of
from ridgeline.frontend.onnx_shapes import bind_shapes, declared_inputs
from ridgeline.frontend.onnx_source import Source, host_node
from ridgeline.frontend.onnx_structure import check_structure
from ridgeline.frontend.onnx_types import Array, attributes, dtype_of_element, to_array
from ridgeline.frontend.onnx_weightless import is_stand_in, is_weight, stands_in
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.ir.types import type_of
from ridgeline.numerics.formats import STRING

_NEVER_FOLDED = frozenset(
    (
        "Bernoulli",
        "DequantizeLinear",
        "If",
        "Loop",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Scan",
    )
)
# Operators whose constants are weights: an infinity there makes every result useless.
_WEIGHTED = frozenset(
    (
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "GRU",
        "Gemm",
        "LSTM",
        "LayerNormalization",
        "MatMul",
        "RNN",
    )
)


def read_onnx(
    source: Path | str | bytes,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    weights: bool = True,
) -> Graph:
    """Read an ONNX model.

    `shapes` gives dimensions by input name, as --shape does; `batch` binds an open first
    dimension, which is 1 otherwise. Without `weights` large constants have shapes and no values,
    external ones may be missing, and nodes keep their opset: to count, not to compute. Raises
    RidgelineError naming the file, node or input.
    """
    model, where = load_model(source, weights)
    return read_model(inlined(model, where), where, shapes, batch, weights)


def read_model(
    model: Any,
    where: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    weights: bool = True,
    outer: Mapping[str, Value] | None = None,
) -> Graph:
    """As `read_onnx`, of a ModelProto without functions of its own.

    `outer` holds values that are made elsewhere, by name; those computed become inputs.
    """
    return _Reader(model, where, weights, outer or {}).read(shapes, batch)


class _Reader:
    """The state of one reading: values by ONNX name, and the nodes made so far."""

    def __init__(self, model: Any, where: str, weights: bool, outer: Mapping[str, Value]) -> None:
        self.graph = model.graph
        self.where = where
        self.weights = weights
        self.opsets = {
            o.domain if o.domain != "ai.onnx" else "": int(o.version) for o in model.opset_import
        }
        self.opset = self.opsets.get("", 1)
        self.outer = [v for v in outer.values() if not v.is_constant]
        self.values: dict[str, Value] = dict(outer)
        self.quants: dict[str, Quant] = {}
        self.nodes: list[Node] = []
        self.node_names: set[str] = set()
        self.finite: set[str] = set()
        self.folded_bytes = 0
        self.declared = declared_types(model.graph)

    def read(self, shapes: Mapping[str, tuple[int, ...]] | None, batch: int | None) -> Graph:
        check_structure(self.graph, self.opsets, self.where)
        declared = declared_inputs(self.graph, self.where)
        bound = bind_shapes(declared, shapes, batch, self.where)
        for tensor in self.graph.initializer:
            where = f"{self.where}, initializer '{tensor.name}'"
            self.values[tensor.name] = self._initializer(tensor, where)
        drop_unread_masks(self.graph)
        ordered = in_order(self.graph, self.where)
        for node in ordered:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                self._read_constant(node)
        constants = {n: v.data for n, v in self.values.items() if v.data is not None}
        self.quants = collect_quants(ordered, constants, self.where)
        for entry in declared:
            dtype = dtype_of_element(entry.element, f"{self.where}, input '{entry.name}'")
            type = self._typed(entry.name, TensorType(bound[entry.name], dtype))
            self._refuse_text(f"input '{entry.name}'", type)
            self.values[entry.name] = Value(entry.name, type)
        inputs = (*self.outer, *(self.values[entry.name] for entry in declared))
        for node in ordered:
            if node.op_type != "Constant":
                self._read_node(node, self.opsets)
        outputs = tuple(self._output(o.name) for o in self.graph.output)
        name = self.graph.name or "model"
        opset = written_opset(ordered, self.values, self.opset)
        return Graph(name, inputs, outputs, tuple(self.nodes), opset).check()

    def _initializer(self, tensor: Any, where: str) -> Value:
        absent = None if self.weights else stands_in(tensor, where)
        return absent or _constant(tensor.name, to_array(tensor, where), where)

    def _output(self, name: str) -> Value:
        if name not in self.values:
            raise RidgelineError(
                f"output '{name}' is made by no node", where=self.where, fix="Export again."
            )
        self._refuse_text(f"output '{name}'", self.values[name].type)
        return self.values[name]

    def _refuse_text(self, what: str, type: TensorType) -> None:
        if type.dtype is STRING:
            raise RidgelineError(
                f"{what} holds text, and only numbers cross into and out of a program",
                where=self.where,
                fix="Export the model without its text processing.",
            )

    def _typed(self, name: str, type: TensorType) -> TensorType:
        """The type with the quantisation that Q and DQ nodes give to the value of this name."""
        quant = self.quants.get(name)
        if quant is None or type.dtype.bits > 32:
            return type
        where = f"{self.where}, value '{name}'"
        return TensorType(type.shape, type.dtype, fitted(quant, type.shape, where))

    def _read_constant(self, node: Any) -> None:
        where = self._where(node)
        name = node.output[0]
        attrs = attributes(node, where)
        if len(attrs) != 1 or "sparse_value" in attrs:
            raise RidgelineError(
                f"a Constant with {sorted(attrs)} is not supported", where=where, fix="Use value."
            )
        key, value = next(iter(attrs.items()))
        array = np.asarray(value, _constant_dtype(key)) if key != "value" else value
        self.values[name] = _constant(name, array, where)

    def _where(self, node: Any) -> str:
        return f"{self.where}, node '{name_of(node)}' ({node.op_type})"

    def _read_node(self, node: Any, opsets: Mapping[str, int]) -> None:
        where = self._where(node)
        name_absent_outputs(node)
        if node.domain == "ai.onnx":
            node.domain = ""
        captured = captured_names(node)
        inputs = {n: self._input(n, where) for n in (*node.input, *captured) if n}
        if node.op_type == "If" and not node.domain and inputs[node.input[0]].is_constant:
            self._read_branch(node, inputs[node.input[0]], opsets)
            return
        for name, value in inputs.items():
            self._check_finite(name, value, node, where)
        if node.op_type in ("Shape", "Size") and not node.domain:
            self._fold_shape(node, where)
            return
        types = output_types(node, inputs, opsets, self.declared, where)
        if self._foldable(node, inputs):
            self._fold(node, inputs, types, opsets, where)
        else:
            self._convert(node, inputs, types, opsets, where)

    def _read_branch(self, node: Any, condition: Value, opsets: Mapping[str, int]) -> None:
        """Read the branch that an If takes in the If's place."""
        assert condition.data is not None
        branch = branch_in_place(node, bool(condition.data.reshape(-1)[0]))
        where = self._where(node)
        for tensor in branch.initializer:
            self.values[tensor.name] = self._initializer(tensor, where)
        for inner in in_order(branch, where):
            if inner.op_type == "Constant":
                self._read_constant(inner)
            else:
                self._read_node(inner, opsets)

    def _input(self, name: str, where: str) -> Value:
        if name not in self.values:
            raise RidgelineError(
                f"input '{name}' is made by no node, initializer or graph input",
                where=where,
                fix="The file is damaged: export the model again.",
            )
        return self.values[name]

    def _check_finite(self, name: str, value: Value, node: Any, where: str) -> None:
        if value.data is None or not value.type.dtype.is_float:
            return
        weighted = node.op_type in _WEIGHTED
        key = f"{name}:{weighted}"
        if key in self.finite or is_stand_in(value.data):
            return
        array: Array = (
            value.data.astype(np.float32) if value.data.dtype.itemsize < 4 else value.data
        )
        bad = ~np.isfinite(array) if weighted else np.isnan(array)
        if bad.any():
            kinds = "NaN" if np.isnan(array).any() else "infinite"
            raise RidgelineError(
                f"initializer '{name}' has {int(bad.sum())} {kinds} of {array.size} values",
                where=where,
                fix="Train or export the model again.",
            )
        self.finite.add(key)

    def _foldable(self, node: Any, inputs: Mapping[str, Value]) -> bool:
        if node.op_type in _NEVER_FOLDED:
            return False
        if not self.weights and any(is_weight(value) for value in inputs.values()):
            return False
        return all(value.is_constant for value in inputs.values())

    def _fold(
        self,
        node: Any,
        inputs: Mapping[str, Value],
        types: list[TensorType],
        opsets: Mapping[str, int],
        where: str,
    ) -> None:
        size_bytes = sum(t.bytes for t in types)
        self.folded_bytes += size_bytes
        if self.folded_bytes > MAX_CONSTANT_BYTES:
            before = self.folded_bytes - size_bytes
            behind = f", after {before:,} bytes of others," if before else ""
            raise RidgelineError(
                f"a constant of {size_bytes:,} bytes{behind} is above the limit of"
                f" {MAX_CONSTANT_BYTES:,}",
                where=where,
                fix="Export the model without it.",
            )
        arrays = {name: v.data for name, v in inputs.items() if v.data is not None}
        for name, array in evaluate_proto(node, arrays, opsets, where).items():
            value = _constant(name, array, where)
            self.values[name] = Value(name, self._typed(name, value.type), value.data)

    def _fold_shape(self, node: Any, where: str) -> None:
        type = self._input(node.input[0], where).type
        name = node.output[0]
        if node.op_type == "Size":
            self.values[name] = Value.constant(name, np.asarray(type.elements, np.int64))
            return
        attrs = attributes(node, where)
        dims = type.shape[attrs.get("start", 0) : attrs.get("end", len(type.shape))]
        self.values[name] = Value.constant(name, np.asarray(dims, np.int64))

    def _convert(
        self,
        node: Any,
        inputs: Mapping[str, Value],
        types: list[TensorType],
        opsets: Mapping[str, int],
        where: str,
    ) -> None:
        names = [name for name in node.output if name]
        outputs = tuple(
            Value(name, self._typed(name, type)) for name, type in zip(names, types, strict=True)
        )
        captured = captured_names(node)
        values = tuple(inputs[name] if name else None for name in (*node.input, *captured))
        known = all(v is None or v.is_constant for v in values[1:])
        if node.op_type == "DequantizeLinear" and not node.domain and known:
            values = (self._dequantised(node, values[0], where), *values[1:])
        opset = opsets.get("", 1)
        attrs = with_opsets(attributes(node, where), opsets)
        attrs |= {CAPTURES: captured} if captured else {}
        name = self._unique(node)
        source = Source(node.op_type, name, values, outputs, attrs, opset, self.where)
        convert = TABLE.get(node.op_type) if not node.domain else None
        made = convert(source) if convert else ()
        if not made and self.weights and needs_newer_opset(node, opset):
            self._convert_newer(node, inputs, types, opset, where)
            return
        self.nodes.extend(made or (host_node(node, source),))
        self.values.update(zip(names, outputs, strict=True))

    def _convert_newer(
        self,
        node: Any,
        inputs: Mapping[str, Value],
        types: list[TensorType],
        opset: int,
        where: str,
    ) -> None:
        graph = in_graph_opset(node, inputs, types, opset, where)
        for tensor in graph.initializer:
            if tensor.name not in self.values:
                self.values[tensor.name] = _constant(tensor.name, to_array(tensor, where), where)
        for inner in graph.node:
            if inner.op_type == "Constant":
                self._read_constant(inner)
            else:
                self._read_node(inner, {**self.opsets, "": GRAPH_OPSET})

    def _dequantised(self, node: Any, value: Value | None, where: str) -> Value:
        """The input of a DequantizeLinear with that node's parameters in its type."""
        assert value is not None
        constants = {n: self.values[n].data for n in node.input[1:] if n}
        quant = fitted(quant_of(node, constants, where), value.type.shape, where)
        type = TensorType(value.type.shape, value.type.dtype, quant)
        if value.type.quant is not None and value.type.quant.equals(quant):
            return value
        if value.data is not None:
            return Value(value.name, type, value.data)
        # The same bits are read with other parameters than they were made with.
        output = Value(f"{node.output[0]}/reread", type)
        name = f"{name_of(node)}/reread"
        self.nodes.append(Node("Identity", name, (value,), (output,), {}, (name_of(node),)))
        return output

    def _unique(self, node: Any) -> str:
        name = name_of(node)
        if name in self.node_names:
            name = f"{name}#{len(self.node_names)}"
        self.node_names.add(name)
        return name


def _constant(name: str, array: Array, where: str) -> Value:
    try:
        return Value(name, type_of(array), array)
    except KeyError as error:
        raise RidgelineError(
            f"values of type {array.dtype} are not supported", where=where, fix="Export as float32."
        ) from error


def _constant_dtype(key: str) -> Any:
    if key.startswith("value_float"):
        return np.float32
    return np.int64 if key.startswith("value_int") else np.object_
