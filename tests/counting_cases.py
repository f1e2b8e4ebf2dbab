"""Small graphs on which public counters fail, made here, with their MACs and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]
FLOAT, INT8, UINT8, INT64 = (
    TensorProto.FLOAT,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT64,
)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Dims]],
    outputs: Mapping[str, tuple[int, Dims | None]],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "case",
        [helper.make_tensor_value_info(n, t, d) for n, (t, d) in inputs.items()],
        [helper.make_tensor_value_info(n, t, d) for n, (t, d) in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return made


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attrs: Any) -> Any:
    return helper.make_node(op, inputs, outputs, **attrs)


def one(
    op: str,
    inputs: Mapping[str, tuple[int, Dims]],
    constants: Mapping[str, Any] | None = None,
    order: Sequence[str] = (),
    opset: int = 17,
    **attrs: Any,
) -> bytes:
    names = order or [*inputs, *(constants or {})]
    made = node(op, names, **attrs)
    return model([made], inputs, {"y": (FLOAT, None)}, constants, opset)


def weights(*dims: int, dtype: Any = np.float32) -> Any:
    return np.ones(dims, dtype)


def _branch(name: str) -> Any:
    inner = helper.make_node("MatMul", ["x", "w"], [f"{name}_y"])
    return helper.make_graph(
        [inner], name, [], [helper.make_tensor_value_info(f"{name}_y", FLOAT, [4, 8])]
    )


SCALE, ZERO8, ZEROU8 = np.float32(0.1), np.int8(0), np.uint8(0)
QUANTISATION = {"xs": SCALE, "xz": ZEROU8, "ws": SCALE, "wz": ZERO8}

CASES: dict[str, tuple[bytes, int, int]] = {
    "grouped convolution": (
        one(
            "Conv",
            {"x": (FLOAT, [1, 16, 8, 8])},
            {"w": weights(32, 4, 3, 3)},
            group=4,
            pads=[1, 1, 1, 1],
        ),
        32 * 64 * 4 * 9,
        1152,
    ),
    "padding by auto_pad": (
        one(
            "Conv",
            {"x": (FLOAT, [1, 3, 15, 15])},
            {"w": weights(8, 3, 3, 3)},
            auto_pad="SAME_UPPER",
            strides=[2, 2],
        ),
        8 * 64 * 27,
        216,
    ),
    "transposed weights with a bias": (
        one("Gemm", {"x": (FLOAT, [4, 16])}, {"w": weights(8, 16), "b": weights(8)}, transB=1),
        512,
        136,
    ),
    "product that broadcasts": (
        one("MatMul", {"a": (FLOAT, [2, 1, 32, 64]), "b": (FLOAT, [5, 64, 16])}),
        2 * 5 * 32 * 64 * 16,
        0,
    ),
    "product of vectors": (
        one("MatMul", {"a": (FLOAT, [64]), "b": (FLOAT, [64])}),
        64,
        0,
    ),
    "einsum of queries and keys": (
        one(
            "Einsum",
            {"a": (FLOAT, [2, 3, 8, 16]), "b": (FLOAT, [2, 3, 8, 16])},
            equation="bhqd,bhkd->bhqk",
        ),
        6144,
        0,
    ),
    "einsum without a sum": (
        one("Einsum", {"a": (FLOAT, [8]), "b": (FLOAT, [16])}, equation="i,j->ij"),
        0,
        0,
    ),
    "einsum of three": (
        one(
            "Einsum",
            {"a": (FLOAT, [4, 8]), "b": (FLOAT, [8, 16]), "c": (FLOAT, [16, 2])},
            equation="ij,jk,kl->il",
        ),
        4 * 8 * 16 + 4 * 16 * 2,
        0,
    ),
    "einsum over an ellipsis": (
        one(
            "Einsum", {"a": (FLOAT, [2, 3, 8, 16]), "b": (FLOAT, [16, 5])}, equation="...i,ij->...j"
        ),
        2 * 3 * 8 * 16 * 5,
        0,
    ),
    "quantised convolution": (
        one(
            "QLinearConv",
            {"x": (UINT8, [1, 8, 8, 8])},
            {**QUANTISATION, "w": weights(16, 8, 3, 3, dtype=np.int8)},
            ["x", "xs", "xz", "w", "ws", "wz", "xs", "xz"],
        ),
        16 * 36 * 72,
        1152,
    ),
    "quantise and dequantise": (
        model(
            [
                node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
                node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
                node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
                node("Conv", ["xd", "wd"]),
            ],
            {"x": (FLOAT, [1, 8, 8, 8])},
            {"y": (FLOAT, None)},
            {**QUANTISATION, "w": weights(16, 8, 3, 3, dtype=np.int8)},
        ),
        16 * 36 * 72,
        1152,
    ),
    "dynamic quantisation": (
        model(
            [
                node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
                node("MatMulInteger", ["q", "w", "z"]),
            ],
            {"x": (FLOAT, [4, 16])},
            {"y": (TensorProto.INT32, None)},
            {"w": weights(16, 8, dtype=np.int8)},
        ),
        512,
        128,
    ),
    "branches that data choose": (
        model(
            [node("If", ["c"], then_branch=_branch("a"), else_branch=_branch("b"))],
            {"c": (TensorProto.BOOL, []), "x": (FLOAT, [4, 16])},
            {"y": (FLOAT, [4, 8])},
            {"w": weights(16, 8)},
        ),
        512,
        128,
    ),
    "open batch": (
        one("Gemm", {"x": (FLOAT, ["N", 16])}, {"w": weights(16, 8)}),
        128,
        128,
    ),
    "weights in a Constant": (
        model(
            [
                node("Constant", [], ["w"], value=numpy_helper.from_array(weights(16, 8))),
                node("MatMul", ["x", "w"]),
            ],
            {"x": (FLOAT, [4, 16])},
            {"y": (FLOAT, None)},
        ),
        512,
        128,
    ),
    "embedding": (
        one("Gather", {"i": (INT64, [1, 16])}, {"w": weights(1000, 64)}, ["w", "i"]),
        0,
        64000,
    ),
    "transposed convolution": (
        one(
            "ConvTranspose",
            {"x": (FLOAT, [1, 16, 8, 8])},
            {"w": weights(16, 32, 4, 4)},
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        ),
        524288,
        8192,
    ),
    "long short-term memory": (
        one(
            "LSTM",
            {"x": (FLOAT, [100, 1, 64])},
            {"w": weights(1, 256, 64), "r": weights(1, 256, 64), "b": weights(1, 512)},
            hidden_size=64,
        ),
        3276800,
        33280,
    ),
    "gated recurrent unit, both directions": (
        one(
            "GRU",
            {"x": (FLOAT, [100, 1, 64])},
            {"w": weights(2, 192, 64), "r": weights(2, 192, 64)},
            hidden_size=64,
            direction="bidirectional",
        ),
        2 * 2457600,
        2 * 192 * 128,
    ),
    "nothing to multiply": (
        one("MatMul", {"x": (FLOAT, [4, 0])}, {"w": weights(0, 8)}),
        0,
        0,
    ),
    "weights of four bits": (
        one(
            "MatMulNBits",
            {"x": (FLOAT, [3, 64])},
            {"w": weights(32, 2, 16, dtype=np.uint8), "s": weights(64)},
            domain="com.microsoft",
            K=64,
            N=32,
            bits=4,
            block_size=32,
        ),
        3 * 64 * 32,
        2048,
    ),
}
