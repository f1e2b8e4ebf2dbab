"""From a Graph at any stage to a valid ONNX file: quantised nodes become DequantizeLinear, the
operator, its fused clip, QuantizeLinear, the pattern that ONNX Runtime fuses into integer kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import defs, helper

from ridgeline.errors import RidgelineError
from ridgeline.files import write_whole
from ridgeline.frontend.onnx_bodies import CAPTURES, Body, all_names, rename
from ridgeline.frontend.onnx_infer import GRAPH_OPSET, written_opset
from ridgeline.frontend.onnx_source import ONNX_DOMAIN
from ridgeline.frontend.onnx_spelling import spelled
from ridgeline.frontend.onnx_types import Array, element_of_dtype, to_tensor
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.numerics.formats import FP32, INT64, DType, dtype_of
from ridgeline.ops import PRIMITIVES

_BORDERS = ("QuantizeLinear", "DequantizeLinear")


def write_onnx(graph: Graph, path: Path | str) -> None:
    """Write the graph as an ONNX file, whole or not at all.

    Raises RidgelineError when the folder cannot be written.
    """
    write_whole(path, onnx_bytes(graph))


def onnx_bytes(graph: Graph) -> bytes:
    """The graph as a serialised ModelProto, the same bytes for the same graph."""
    return _Writer(graph).model().SerializeToString(deterministic=True)


class _Writer:
    """The state of one writing: names by value, nodes and initialisers made so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[int, str] = {}
        # Values made while writing: kept, since the id of one that is gone may come again.
        self.made: list[Value] = []
        self.taken: set[str] = set()
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.parameters: dict[tuple[int, str], list[str]] = {}
        self.domains: dict[str, int] = {}
        for value in (*graph.inputs, *graph.outputs):
            self.name(value)
        for body in (a for n in graph.nodes for a in n.attrs.values() if isinstance(a, Body)):
            self.taken.update(all_names(body.proto))

    def model(self) -> Any:
        for node in self.graph.nodes:
            self._node(node)
        for value in self.graph.outputs:
            self.name(value)
            if value.is_constant:
                self._initialize(self.name(value), value)
        graph = helper.make_graph(
            self.nodes,
            self.graph.name,
            [self._info(v) for v in self.graph.inputs],
            [self._info(v) for v in self.graph.outputs],
            list(self.initializers.values()),
            value_info=self._value_info(),
        )
        imports = [helper.make_opsetid("", self._opset())]
        imports += [helper.make_opsetid(d, v) for d, v in sorted(self.domains.items())]
        return helper.make_model(
            graph,
            producer_name="ridgeline",
            opset_imports=imports,
            ir_version=helper.find_min_ir_version_for(imports[:1]),
        )

    def _opset(self) -> int:
        """The primitives are written as of opset 21; operators on the host may need a later one,
        up to the graph's.
        """
        nodes = [m for n in self.graph.nodes for m in _function_nodes(n) or (n,)]
        if all(n.op in PRIMITIVES for n in nodes):
            return GRAPH_OPSET
        values = [v for n in nodes for v in (*n.inputs, *n.outputs) if v is not None]
        named = {self.name(v): v for v in values if not v.is_constant}
        return written_opset(self.nodes, named, self.graph.opset)

    def _info(self, value: Value) -> Any:
        element = element_of_dtype(value.type.dtype)
        return helper.make_tensor_value_info(self.name(value), element, value.type.shape)

    def _value_info(self) -> list[Any]:
        border = {id(v) for v in (*self.graph.inputs, *self.graph.outputs)}
        made = [v for n in self.graph.nodes for v in n.outputs if id(v) not in border]
        return [self._info(v) for v in made]

    # Names and constants

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has."""
        name, count = wanted, 1
        while name in self.taken:
            name, count = f"{wanted}_{count}", count + 1
        self.taken.add(name)
        return name

    def name(self, value: Value) -> str:
        """The value's name in the file; a constant becomes an initialiser."""
        known = self.names.get(id(value))
        if known is not None:
            return known
        name = self.names[id(value)] = self.fresh(value.name or "value")
        if value.is_constant:
            self._initialize(name, value)
        return name

    def _initialize(self, name: str, value: Value) -> None:
        if value.data is not None and name not in self.initializers:
            self.initializers[name] = to_tensor(value.data, name, value.type.dtype)

    def constant(self, wanted: str, array: Array) -> str:
        name = self.fresh(wanted)
        self.initializers[name] = to_tensor(array, name, dtype_of(array))
        return name

    def emit(
        self, op: str, name: str, inputs: Sequence[str], output: str, attrs: Mapping[str, Any]
    ) -> str:
        """Add one node of the default domain; returns its output's name."""
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attrs))
        return output

    # Quantisation

    def quantise(self, node_name: str, real: str, value: Value, real_dtype: DType) -> None:
        quant = _quant(value)
        inputs = [real, *self._parameters(value, quant, real_dtype)]
        self.emit("QuantizeLinear", node_name, inputs, self.name(value), _axis(quant))

    def dequantise(self, node_name: str, value: Value, output: str, real_dtype: DType) -> str:
        quant = _quant(value)
        inputs = [self.name(value), *self._parameters(value, quant, real_dtype)]
        return self.emit("DequantizeLinear", node_name, inputs, output, _axis(quant))

    def _parameters(self, value: Value, quant: Quant, real_dtype: DType) -> list[str]:
        key = (id(quant), f"{value.type.dtype.name}:{real_dtype.name}")
        if key not in self.parameters:
            scale = quant.scale.astype(real_dtype.numpy)
            zero = quant.zero_point.astype(value.type.dtype.numpy)
            self.parameters[key] = [
                self.constant(f"{value.name}_scale", scale),
                self.constant(f"{value.name}_zero_point", zero),
            ]
        return self.parameters[key]

    # Nodes

    def _node(self, node: Node) -> None:
        if node.op == "DequantizeLinear":
            output = self.name(node.output)
            self.dequantise(node.name, node.input(0), output, node.output.type.dtype)
        elif node.op == "QuantizeLinear":
            source = node.input(0)
            real = self._real(node, 0, source) if _is_quantised(source) else self.name(source)
            dtype = source.type.dtype if source.type.dtype.is_float else FP32
            self.quantise(node.name, real, node.output, dtype)
        elif node.op not in PRIMITIVES:
            for one in spelled(node, self.graph.opset) or (node,):
                self.made += (v for v in (*one.inputs, *one.outputs) if v is not None)
                self._host(one)
        elif _is_quantised(node.output) and not _bits_only(node):
            self._quantised(node)
        else:
            inputs = [self.name(v) if v is not None else "" for v in node.inputs]
            self._primitive(node, inputs, self.name(node.output))

    def _real(self, node: Node, index: int, value: Value) -> str:
        output = self.fresh(f"{value.name}_dequantized")
        return self.dequantise(f"{node.name}/dequantize{index}", value, output, FP32)

    def _quantised(self, node: Node) -> None:
        """Each operand gets a DequantizeLinear of its own, as ONNX Runtime's fusion expects."""
        if node.op == "MatMul" and len(node.inputs) > 2 and len(node.input(0).type.shape) != 2:
            self._quantised_rows(node)
            return
        given = node.inputs[:1] if node.op == "Lookup" else node.inputs
        inputs = [
            "" if v is None else self._real(node, i, v) if _is_quantised(v) else self.name(v)
            for i, v in enumerate(given)
        ]
        real = self.fresh(f"{node.output.name}_real")
        self._primitive(node, inputs, real)
        self.quantise(f"{node.name}/quantize", real, node.output, FP32)

    def _quantised_rows(self, node: Node) -> None:
        """MatMul with bias on more than two dimensions: reshaped to rows, since Gemm has two."""
        x, output = node.input(0), node.output
        rows = x.type.elements // x.type.shape[-1]
        flat = Value(f"{x.name}_rows", _shaped(x, (rows, x.type.shape[-1])))
        result = Value(f"{output.name}_rows", _shaped(output, (rows, output.type.shape[-1])))
        self.made += [flat, result]
        self._reshape(f"{node.name}/rows", self.name(x), flat.type.shape, self.name(flat))
        inner = Node("MatMul", node.name, (flat, *node.inputs[1:]), (result,), node.attrs)
        self._quantised(inner)
        name = f"{node.name}/shape"
        self._reshape(name, self.name(result), output.type.shape, self.name(output))

    def _primitive(self, node: Node, inputs: list[str], output: str) -> None:
        """The operator on real values, and its fused clip."""
        clip = node.attrs.get("clip")
        result = output if clip is None else self.fresh(f"{output}_unclipped")
        write = _WRITERS.get(node.op)
        if write is None:
            self.emit(node.op, node.name, inputs, result, _plain(node.attrs))
        else:
            write(self, node, inputs, result)
        if clip is not None:
            dtype = node.output.type.dtype
            self.clip(
                f"{node.name}/clip", result, clip, output, FP32 if dtype.is_integer else dtype
            )

    def clip(
        self,
        name: str,
        value: str,
        bounds: tuple[float | None, float | None],
        output: str,
        dtype: DType,
    ) -> None:
        low, high = bounds
        if low == 0 and high is None:
            self.emit("Relu", name, [value], output, {})
            return
        limits = [
            "" if b is None else self.constant(f"{output}_{kind}", np.asarray(b, dtype.numpy))
            for kind, b in (("min", low), ("max", high))
        ]
        while limits and not limits[-1]:
            limits.pop()
        self.emit("Clip" if limits else "Identity", name, [value, *limits], output, {})

    def _reshape(self, name: str, value: str, shape: Sequence[int], output: str) -> None:
        dims = self.constant(f"{output}_shape", np.asarray(shape, INT64.numpy))
        attrs = {"allowzero": 1} if 0 in shape else {}
        self.emit("Reshape", name, [value, dims], output, attrs)

    def _host(self, node: Node) -> None:
        domain, _, op = node.op.removeprefix(ONNX_DOMAIN).rpartition("::")
        names = [self.name(v) if v is not None else "" for v in node.inputs]
        captures: tuple[str, ...] = node.attrs.get(CAPTURES, ())
        inputs = names[: len(names) - len(captures)]
        renamed = dict(zip(captures, names[len(inputs) :], strict=True))
        proto = helper.make_node(
            op,
            inputs,
            [self.name(v) for v in node.outputs],
            name=node.name,
            domain=domain or None,
        )
        schema = _schema(op, self.graph.opset, domain)
        if domain:
            version = schema.since_version if schema else 1
            self.domains[domain] = max(version, self.domains.get(domain, 1))
        for key, value in node.attrs.items():
            if key == CAPTURES:
                continue
            kind = schema.attributes[key].type if schema and key in schema.attributes else None
            plain = _attribute(key, value, renamed)
            proto.attribute.append(helper.make_attribute(key, plain, attr_type=kind))
        self.nodes.append(proto)

    # Primitives that ONNX spells otherwise

    def write_matmul(self, node: Node, inputs: list[str], output: str) -> None:
        if len(inputs) < 3 or not inputs[2]:
            self.emit("MatMul", node.name, inputs[:2], output, {})
        elif len(node.input(0).type.shape) == 2 and len(node.input(1).type.shape) == 2:
            self.emit("Gemm", node.name, inputs, output, {})
        else:
            product = self.fresh(f"{output}_product")
            self.emit("MatMul", node.name, inputs[:2], product, {})
            self.emit("Add", f"{node.name}/bias", [product, inputs[2]], output, {})

    def write_clip(self, node: Node, inputs: list[str], output: str) -> None:
        dtype = node.input(0).type.dtype
        bounds = (node.attrs.get("min"), node.attrs.get("max"))
        self.clip(node.name, inputs[0], bounds, output, FP32 if dtype.is_integer else dtype)

    def write_function(self, node: Node, inputs: list[str], output: str) -> None:
        """What a Lookup or a Move stands for, over names of its own each time."""
        function: Graph = node.attrs["function"]
        inner = [v for n in function.nodes for v in n.outputs]
        known = {id(v): self.names.pop(id(v), None) for v in (*inner, *function.inputs)}
        self.names[id(function.inputs[0])] = inputs[0]
        self.names[id(function.outputs[0])] = output
        for one in function.nodes:
            name = one.name if one.name == node.name else f"{node.name}/{one.name}"
            self._node(replace(one, name=name))
        for key, name in known.items():
            del self.names[key]
            if name is not None:
                self.names[key] = name

    def write_reshape(self, node: Node, inputs: list[str], output: str) -> None:
        self._reshape(node.name, inputs[0], node.output.type.shape, output)


_WRITERS: dict[str, Callable[[_Writer, Node, list[str], str], None]] = {
    "Clip": _Writer.write_clip,
    "Lookup": _Writer.write_function,
    "MatMul": _Writer.write_matmul,
    "Move": _Writer.write_function,
    "Reshape": _Writer.write_reshape,
}


def _function_nodes(node: Node) -> tuple[Node, ...]:
    return node.attrs["function"].nodes if "function" in node.attrs else ()


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in attrs.items() if k != "clip"}


def _attribute(key: str, value: Any, renamed: Mapping[str, str]) -> Any:
    """What make_attribute takes; bodies read the captured values under their names here."""
    if isinstance(value, Body):
        return rename(value.proto, renamed)
    return to_tensor(value, key, dtype_of(value)) if isinstance(value, np.ndarray) else value


def _is_quantised(value: Value) -> bool:
    return value.type.quant is not None and value.type.dtype.is_integer


def _bits_only(node: Node) -> bool:
    """A move of integers that float32 cannot hold: it keeps their bits, without DQ and Q."""
    wide = node.output.type.dtype.bits > 16
    return node.op in ("Reshape", "Transpose", "Concat") and wide


def _shaped(value: Value, shape: tuple[int, ...]) -> TensorType:
    return TensorType(shape, value.type.dtype, value.type.quant)


def _quant(value: Value) -> Quant:
    if value.type.quant is None:
        raise RidgelineError(
            f"'{value.name}' ({value.type}) has no quantisation to write",
            where=f"value '{value.name}'",
            fix="A pass has lost it.",
        )
    return value.type.quant


def _axis(quant: Quant) -> dict[str, int]:
    if quant.axis is None:
        return {}
    return {"axis": quant.axis} | ({"block_size": quant.block} if quant.block else {})


def _schema(op: str, opset: int, domain: str) -> Any:
    """The schema of a default-domain operator at `opset`, or another domain's newest, or None."""
    try:
        return defs.get_schema(op, domain) if domain else defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None
