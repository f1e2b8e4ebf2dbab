"""One quantised node made twice: as Ridgeline's `Node` and as a QDQ model for ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ridgeline.ir import Node, Quant, TensorType, Value
from ridgeline.numerics.formats import FORMATS
from ridgeline.numerics.quantize import dequantize
from ridgeline.ops import PRIMITIVES

Array = npt.NDArray[Any]
ELEMENT = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
}
# Exact u8×s8 products without VNNI too: weights become uint8, whose kernel cannot saturate.
EXACT = {"session.x64quantprecision": "1"}
# int8 activations stay int8: by default ONNX Runtime on x86 makes them uint8 where it can, and
# leaves in float what it cannot. The two settings exclude each other.
SIGNED = {"session.qdqisint8allowed": "1"}


def exact_settings(node: Node) -> Mapping[str, str]:
    """The session settings under which ONNX Runtime computes the node exactly in integers."""
    values = [v for v in (*node.inputs, node.output) if v is not None]
    formats = {v.type.dtype.name for v in values}
    return SIGNED if "int8" in formats and "uint8" not in formats and _signed(node) else EXACT


def _signed(node: Node) -> bool:
    return all(v.type.dtype.name == "int8" for v in node.inputs if v is not None and v.data is None)


def activation(name: str, shape: Sequence[int], dtype: str, scale: float, zero: int = 0) -> Value:
    return Value(name, TensorType(tuple(shape), FORMATS[dtype], Quant.per_tensor(scale, zero)))


def constant(name: str, data: Array, scale: Any, zero: Any = 0, axis: int | None = None) -> Value:
    scales = np.asarray(scale, np.float32)
    zeros = np.broadcast_to(np.asarray(zero, np.int32), scales.shape).copy()
    kind = TensorType(data.shape, FORMATS[data.dtype.name], Quant(scales, zeros, axis))
    return Value(name, kind, data)


def bias_for(x: Value, w: Value, data: Array) -> Value:
    """An int32 bias with the scale that ONNX Runtime expects: float32(sx * sw)."""
    assert x.type.quant is not None
    assert w.type.quant is not None
    scales = x.type.quant.scale * w.type.quant.scale
    return constant("bias", data.astype(np.int32), scales, 0, 0 if scales.ndim else None)


def node_of(
    op: str,
    inputs: Sequence[Value],
    output: tuple[str, float, int],
    attrs: Mapping[str, Any] | None = None,
) -> Node:
    """A node whose output shape is inferred and stored as (format, scale, zero point)."""
    (kind,) = PRIMITIVES[op].infer(tuple(v.type for v in inputs), attrs or {})
    dtype, scale, zero = output
    kind = replace(kind, dtype=FORMATS[dtype], quant=Quant.per_tensor(scale, zero))
    return Node(op, op.lower(), tuple(inputs), (Value("y", kind),), attrs or {})


def random_stored(value: Value, rng: np.random.Generator) -> Array:
    low, high = value.type.dtype.low, value.type.dtype.high
    return rng.integers(low, high + 1, value.type.shape).astype(value.type.dtype.numpy)


def stored_inputs(node: Node, seed: int = 0) -> list[Array]:
    """Random stored integers for each activation, the data of each constant."""
    rng = np.random.default_rng(seed)
    return [
        random_stored(v, rng) if v.data is None else v.data for v in node.inputs if v is not None
    ]


def meaning(node: Node, stored: Sequence[Array]) -> Array:
    (result,) = PRIMITIVES[node.op].integer_meaning(node, stored)
    assert result.shape == node.output.type.shape
    assert result.dtype == node.output.type.dtype.numpy
    return result


def qdq_model(node: Node) -> onnx.ModelProto:
    """Float inputs, Q and DQ around every value, float output: the model as `write_onnx` has it."""
    build = _Builder()
    reals = [build.real_input(v) for v in node.inputs if v is not None]
    real = build.operator(node, reals)
    stored = build.add("QuantizeLinear", [real, *build.parameters(node.output)], {})
    real = build.add("DequantizeLinear", [stored, *build.parameters(node.output)], {})
    output = helper.make_tensor_value_info(real, TensorProto.FLOAT, None)
    graph = helper.make_graph(build.nodes, "g", build.inputs, [output], build.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, op: str, inputs: list[str], attrs: Mapping[str, Any]) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attrs))
        return output

    def data(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def parameters(self, value: Value) -> list[str]:
        quant = value.type.quant
        assert quant is not None
        zero = quant.zero_point.astype(value.type.dtype.numpy)
        return [self.data(quant.scale), self.data(zero)]

    def real_input(self, value: Value) -> str:
        assert value.type.quant is not None
        if value.data is not None:
            stored = self.data(value.data)
        else:
            shape = value.type.shape
            self.inputs.append(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
            stored = self.add("QuantizeLinear", [value.name, *self.parameters(value)], {})
        axis = value.type.quant.axis
        attrs = {} if axis is None else {"axis": axis}
        return self.add("DequantizeLinear", [stored, *self.parameters(value)], attrs)

    def operator(self, node: Node, reals: list[str]) -> str:
        attrs = {k: v for k, v in node.attrs.items() if k not in ("clip", "min", "max", "shape")}
        op = node.op
        if op == "Clip":
            return self.clip(reals[0], node.attrs.get("min"), node.attrs.get("max"))
        if op == "MatMul" and len(reals) == 3:
            op = "Gemm"
        if op == "Reshape":
            reals = [*reals, self.data(np.asarray(node.attrs["shape"], np.int64))]
        result = self.add(op, reals, attrs)
        if "clip" in node.attrs:
            result = self.clip(result, *node.attrs["clip"])
        return result

    def clip(self, real: str, low: float | None, high: float | None) -> str:
        if low == 0 and high is None:
            return self.add("Relu", [real], {})
        limits = ["" if v is None else self.data(np.float32(v)) for v in (low, high)]
        return self.add("Clip", [real, *limits], {})


def session(
    model: onnx.ModelProto, config: Mapping[str, str] | None = None
) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """A session with default optimisations, and the operators of its optimised graph."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    for key, value in (EXACT if config is None else config).items():
        options.add_session_config_entry(key, value)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "optimised.onnx"
        options.optimized_model_filepath = str(path)
        made = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return made, [n.op_type for n in onnx.load(path).graph.node]


def run_onnx_runtime(
    node: Node, stored: Sequence[Array], config: Mapping[str, str] | None = None
) -> tuple[Array, list[str]]:
    """(stored output, operators of the optimised graph without Transpose)."""
    made, operators = session(qdq_model(node), exact_settings(node) if config is None else config)
    feeds = {
        v.name: dequantize(s, v.type.quant)
        for v, s in zip(node.inputs, stored, strict=True)
        if v is not None and v.data is None and v.type.quant is not None
    }
    (real,) = made.run(None, feeds)
    quant = node.output.type.quant
    assert quant is not None
    result = np.rint(np.asarray(real, np.float64) / quant.scale) + quant.zero_point
    inner = [o for o in operators if o != "Transpose"]
    return result.astype(node.output.type.dtype.numpy), inner


def differences(node: Node, seed: int = 0) -> tuple[Array, list[str]]:
    """Ours minus ONNX Runtime's stored outputs for random inputs, and its operators."""
    stored = stored_inputs(node, seed)
    theirs, operators = run_onnx_runtime(node, stored)
    return meaning(node, stored).astype(np.int64) - theirs.astype(np.int64), operators
