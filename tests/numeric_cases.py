"""The quantised nodes on which Ridgeline's bits equal ONNX Runtime's, live and in golden files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ridgeline.ir import Node, Value
from single_node import activation, bias_for, constant, node_of

# Simple ratios between scales make exact ties common, where rounding rules differ most.
TIED_SCALES = (0.0125, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3)
FORMATS_8 = ("uint8", "int8")

# name: (input shape, weight shape, attributes)
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 3, 8, 8), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((2, 4, 9, 8), (6, 4, 3, 2), {"strides": [2, 1], "pads": [1, 2, 0, 1]}),
    "dilated": ((2, 4, 9, 8), (6, 4, 3, 3), {"dilations": [1, 2], "pads": [0, 2, 2, 1]}),
    "grouped": ((2, 6, 5, 5), (4, 3, 3, 3), {"group": 2}),
    "depthwise": ((2, 6, 9, 8), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "doubled": ((1, 4, 7, 7), (8, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    "pointwise": ((3, 16, 4, 4), (8, 16, 1, 1), {}),
    "pointwise-strided": ((2, 8, 6, 6), (5, 8, 1, 1), {"strides": [2, 2]}),
    "line": ((2, 4, 19), (6, 4, 3), {"strides": [2], "pads": [1, 0]}),
    "volume": ((1, 2, 5, 4, 5), (3, 2, 2, 2, 2), {"pads": [1, 0, 0, 0, 1, 0]}),
}
GROUPED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "threes": ((1, 9, 5, 5), (12, 3, 2, 2), {"group": 3}),
    "fives": ((2, 20, 4, 4), (8, 5, 2, 1), {"group": 4}),
    "tripled": ((1, 6, 5, 5), (18, 1, 2, 3), {"group": 6}),
    "one-each": ((1, 14, 6, 6), (14, 1, 3, 3), {"group": 14}),
    "two-each": ((1, 10, 3, 4), (20, 2, 1, 1), {"group": 5}),
    "deep": ((1, 18, 3, 4), (6, 9, 1, 2), {"group": 2}),
}
"""Groups that begin and end anywhere in a tile of a small array; beside ONNX Runtime in `ops`."""
WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plane": ((2, 4, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "line": ((2, 4, 28), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "volume": ((1, 3, 6, 5, 4), {"kernel_shape": [3, 2, 2], "strides": [1, 2, 1]}),
    "whole": ((2, 24, 7, 7), {"kernel_shape": [7, 7]}),
}
BROADCASTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "same": ((2, 4, 8, 8), (2, 4, 8, 8)),
    "channel": ((2, 4, 8, 8), (1, 4, 1, 1)),
    "channel-first": ((4, 1, 1), (2, 4, 8, 8)),
    "row": ((7,), (30, 7)),
    "crossed": ((8, 1, 5), (8, 9, 1)),
    "one": ((1,), (30, 7)),
    "one-second": ((30, 7), ()),
    "ones": ((1,), (1,)),
    "column": ((40, 1), (1,)),
}


class Chooser:
    """Random quantisations and weights of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tied = bool(self.rng.integers(2))

    def scale(self) -> float:
        if self.tied:
            return float(self.rng.choice(TIED_SCALES))
        return float(np.exp(self.rng.uniform(np.log(0.003), np.log(0.3))))

    def zero(self, dtype: str) -> int:
        low = {"uint8": 0, "int8": -128, "int16": -128}[dtype]
        return int(self.rng.integers(low, low + 256))

    def value(self, shape: tuple[int, ...], dtype: str, name: str = "x") -> Value:
        narrow = 256 if dtype == "int16" else 1
        return activation(name, shape, dtype, self.scale() / narrow, self.zero(dtype))

    def output(self, dtype: str, reduction: float = 1) -> tuple[str, float, int]:
        """A quantisation wide enough for sums of `reduction` products."""
        wide = float(2 ** round(np.log2(max(reduction, 1)) / 2))
        narrow = 256 if dtype == "int16" else 1
        return dtype, self.scale() * wide / narrow, self.zero(dtype)

    def weights(self, shape: tuple[int, ...], kind: str, axis: int) -> Value:
        """`kind` is s8, u8 or s8-channels (one scale for each index of `axis`)."""
        low, dtype = (0, "uint8") if kind == "u8" else (-128, "int8")
        data = self.rng.integers(low, low + 256, shape).astype(dtype)
        zero = int(self.rng.integers(100, 156)) if kind == "u8" else 0
        if kind == "s8-channels":
            scales = [self.scale() for _ in range(shape[axis])]
            return constant("w", data, scales, zero, axis)
        return constant("w", data, self.scale(), zero)


def convolution(name: str, dtype: str, kind: str, seed: int) -> Node:
    shape, weights, extra = (CONVOLUTIONS | GROUPED)[name]
    chooser = Chooser(seed)
    rank = len(shape) - 2
    attrs = {
        "kernel_shape": list(weights[2:]),
        "strides": [1] * rank,
        "dilations": [1] * rank,
        "pads": [0] * (2 * rank),
        "group": 1,
    }
    x, w = chooser.value(shape, dtype), chooser.weights(weights, kind, 0)
    inputs = [x, w]
    if seed % 3:
        inputs.append(bias_for(x, w, chooser.rng.integers(-3000, 3000, weights[0])))
    reduction = float(np.prod(weights[1:])) * 100
    return node_of("Conv", inputs, chooser.output(dtype, reduction), attrs | extra)


def matrix_product(name: str, dtype: str, kind: str, seed: int) -> Node:
    """`name` is dense (with bias), product, batched, or attention (both operands activations)."""
    chooser = Chooser(seed)
    k = 40 + 600 * (seed % 2)
    if name == "attention":
        a, b = chooser.value((2, 5, k), dtype), chooser.value((2, k, 6), dtype, "b")
        return node_of("MatMul", [a, b], chooser.output(dtype, k * 100))
    a = chooser.value({"batched": (2, 3, 5, k)}.get(name, (9, k)), dtype)
    b = chooser.weights((k, 7), kind, 1)
    inputs = [a, b]
    if name == "dense":
        inputs.append(bias_for(a, b, chooser.rng.integers(-3000, 3000, 7)))
    return node_of("MatMul", inputs, chooser.output(dtype, k * 100))


def binary(op: str, shapes: str, formats: tuple[str, str, str], seed: int) -> Node:
    chooser = Chooser(seed)
    first, second = BROADCASTS[shapes]
    a, b = chooser.value(first, formats[0], "a"), chooser.value(second, formats[1], "b")
    return node_of(op, [a, b], chooser.output(formats[2]))


def pool(op: str, window: str, dtype: str, seed: int, **attrs: Any) -> Node:
    shape, extra = WINDOWS[window]
    chooser = Chooser(seed)
    x = chooser.value(shape, dtype)
    if op == "GlobalAveragePool":
        return node_of(op, [x], chooser.output(dtype))
    return node_of(op, [x], chooser.output(dtype), extra | attrs)


def single(op: str, dtype: str, seed: int, **attrs: Any) -> Node:
    """An operator of one 2×4×6×8 tensor (two for Concat)."""
    chooser = Chooser(seed)
    inputs = [chooser.value((2, 4, 6, 8), dtype)]
    if op == "Concat":
        inputs.append(chooser.value((2, 3, 6, 8), dtype, "b"))
    output = chooser.output(dtype)
    if op == "Softmax":
        low = {"uint8": 0, "int8": -128, "int16": 0}[dtype]
        output = (dtype, float(np.float32(1 / (256 if dtype != "int16" else 32768))), low)
    return node_of(op, inputs, output, attrs)


SINGLES: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("Clip", {"min": 0.0, "max": None}),
    "relu6": ("Clip", {"min": 0.0, "max": 6.0}),
    "clip": ("Clip", {"min": -1.0, "max": 1.0}),
    "reshape": ("Reshape", {"shape": (2, 192)}),
    "transpose": ("Transpose", {"perm": [0, 2, 3, 1]}),
    "concat": ("Concat", {"axis": 1}),
    "softmax": ("Softmax", {"axis": 1}),
    "softmax-last": ("Softmax", {"axis": 3}),
}
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "MaxPool": ("MaxPool", {}),
    "AveragePool": ("AveragePool", {"count_include_pad": 0}),
    "AveragePool-padded": ("AveragePool", {"count_include_pad": 1}),
    "GlobalAveragePool": ("GlobalAveragePool", {}),
}


def golden_cases() -> Iterator[tuple[str, Node]]:
    """One node of every kind for each 8-bit format: (name, node)."""
    for dtype in FORMATS_8:
        for name in CONVOLUTIONS:
            for kind in ("s8", "u8", "s8-channels"):
                yield f"conv {name} {dtype} {kind}", convolution(name, dtype, kind, 7)
        for name in ("dense", "product", "batched", "attention"):
            for kind in ("s8", "u8", "s8-channels"):
                yield f"matmul {name} {dtype} {kind}", matrix_product(name, dtype, kind, 8)
        for op in ("Add", "Mul"):
            for shapes in BROADCASTS:
                case = binary(op, shapes, (dtype, dtype, dtype), 9)
                yield f"{op} {shapes} {dtype}", case
        for name, (op, attrs) in POOLS.items():
            for window in WINDOWS:
                yield f"{name} {window} {dtype}", pool(op, window, dtype, 10, **attrs)
        for name, (op, attrs) in SINGLES.items():
            yield f"{name} {dtype}", single(op, dtype, 11, **attrs)
