"""Random quantised networks: chains with branches, residuals, pools, concats and dense heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from numeric_cases import Chooser
from ridgeline.ir import Graph, Node, TensorType, Value
from single_node import bias_for, node_of


class NetworkMaker:
    """Grows a graph node by node; every choice comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.chooser = Chooser(seed)
        self.rng = self.chooser.rng
        self.dtype = str(self.rng.choice(["uint8", "int8"]))
        self.nodes: list[Node] = []

    def add(self, op: str, inputs: list[Value], reduction: float, attrs: dict[str, Any]) -> Value:
        made = node_of(op, inputs, self.chooser.output(self.dtype, reduction), attrs)
        name = f"n{len(self.nodes)}_{op.lower()}"
        output = Value(name, made.output.type)
        self.nodes.append(Node(op, name, made.inputs, (output,), attrs))
        return output

    def convolution(self, x: Value) -> Value:
        channels, height, width = x.type.shape[1:]
        kernel = [int(self.rng.integers(1, min(4, s + 1))) for s in (height, width)]
        depthwise = self.rng.random() < 0.3
        group = channels if depthwise else self._group(channels)
        outputs = channels if depthwise else group * int(self.rng.integers(1, 4))
        kind = str(self.rng.choice(["s8", "u8", "s8-channels"]))
        w = self.chooser.weights((outputs, channels // group, *kernel), kind, 0)
        w = Value(f"w{len(self.nodes)}", w.type, w.data)
        attrs = {
            "kernel_shape": kernel,
            "strides": [int(self.rng.integers(1, 3)) for _ in range(2)],
            "dilations": [1, 1],
            "pads": [int(self.rng.integers(0, k)) for k in (*kernel, *kernel)],
            "group": group,
        }
        if self.rng.random() < 0.3:
            attrs["clip"] = (0.0, None if self.rng.random() < 0.5 else 6.0)
        inputs = [x, w]
        if self.rng.random() < 0.7:
            inputs.append(bias_for(x, w, self.rng.integers(-3000, 3000, outputs)))
        reduction = float(np.prod(w.type.shape[1:])) * 100
        return self.add("Conv", inputs, reduction, attrs)

    def _group(self, channels: int) -> int:
        return int(self.rng.choice([g for g in range(1, channels + 1) if channels % g == 0]))

    def step(self, x: Value) -> Value:
        choice = self.rng.random()
        height, width = x.type.shape[2:]
        if choice < 0.45:
            return self.convolution(x)
        if choice < 0.6 and min(height, width) >= 2:
            op = str(self.rng.choice(["MaxPool", "AveragePool"]))
            attrs = {
                "kernel_shape": [2, 2],
                "strides": [int(s) for s in self.rng.integers(1, 3, 2)],
                "pads": [0, 0, int(self.rng.integers(0, 2)), 0],
            }
            attrs |= {"dilations": [1, 1]} if op == "MaxPool" else {"count_include_pad": 0}
            return self.add(op, [x], 1, attrs)
        branch = self.convolution(x)
        if branch.type.shape == x.type.shape:
            return self.add(str(self.rng.choice(["Add", "Mul"])), [x, branch], 1, {})
        if branch.type.shape[2:] == x.type.shape[2:]:
            return self.add("Concat", [x, branch], 1, {"axis": 1})
        return branch

    def varied_step(self, x: Value) -> Value:
        """A table, slopes by channel, a rearrangement, or real numbers of two tensors."""
        choice = self.rng.random()
        if choice < 0.2:
            return self.table(x)
        if choice < 0.35:
            slopes = self.rng.normal(0, 1, (x.type.shape[1], 1, 1)).astype(np.float32)
            slope = Value.constant(f"slope{len(self.nodes)}", slopes)
            return self.add("PRelu", [x, slope], 1, {})
        if choice < 0.7:
            return self.move(x)
        pooled = self.add("GlobalAveragePool", [x], 1, {})
        other = pooled if self.rng.random() < 0.5 else self.table(x)
        return self.add(str(self.rng.choice(["Sub", "Max", "Min", "Mul"])), [x, other], 1, {})

    def table(self, x: Value) -> Value:
        """A Lookup of any table; its function is never asked for."""
        data = self.rng.integers(0, 256, 256, np.uint8).view(self.dtype)
        table = Value.constant(f"table{len(self.nodes)}", data)
        return self.add("Lookup", [x, table], 1, {"function": Graph("any", (), (), ())})

    def move(self, x: Value) -> Value:
        """A Move of x that keeps its quantisation: padded, cut, enlarged, turned or shuffled."""
        numbers = np.arange(x.type.elements).reshape(x.type.shape)
        if self.rng.random() < 0.5:
            numbers = numbers.repeat(2, 2) if self.rng.random() < 0.5 else numbers.swapaxes(2, 3)
        if self.rng.random() < 0.4:
            pads = [(0, 0), *(tuple(self.rng.integers(0, 3, 2)) for _ in range(3))]
            numbers = np.pad(numbers, pads, constant_values=-1)
        if self.rng.random() < 0.4:
            numbers = numbers[:, :: int(self.rng.choice([1, -1])), int(self.rng.integers(0, 2)) :]
        if self.rng.random() < 0.3:
            numbers = numbers[:, self.rng.permutation(numbers.shape[1])]
        attrs = {"index": numbers, "fill": 0.4, "function": Graph("any", (), (), ())}
        name = f"n{len(self.nodes)}_move"
        output = Value(name, TensorType(numbers.shape, x.type.dtype, x.type.quant))
        self.nodes.append(Node("Move", name, (x,), (output,), attrs))
        return output

    def head(self, x: Value) -> Value:
        if self.rng.random() < 0.5:
            x = self.add("GlobalAveragePool", [x], 1, {})
        shape = (x.type.shape[0], int(np.prod(x.type.shape[1:])))
        flat = Value(f"flat{len(self.nodes)}", type(x.type)(shape, x.type.dtype, x.type.quant))
        self.nodes.append(Node("Reshape", flat.name, (x,), (flat,), {"shape": shape}))
        w = self.chooser.weights((shape[1], int(self.rng.integers(1, 12))), "s8-channels", 1)
        return self.add("MatMul", [flat, w], shape[1] * 100, {})


def random_network(seed: int, *, varied: bool = False) -> Graph:
    """A quantised graph with one or two outputs; `varied` has more kinds of nodes."""
    maker = NetworkMaker(seed)
    rng = maker.rng
    shape = tuple(
        int(v) for v in (rng.integers(1, 4), rng.integers(1, 11), *rng.integers(3, 12, 2))
    )
    x = maker.chooser.value(shape, maker.dtype, "image")
    first = x
    for _ in range(int(rng.integers(1, 7))):
        x = maker.varied_step(x) if varied and rng.random() < 0.6 else maker.step(x)
    outputs = [x]
    if rng.random() < 0.6:
        outputs.append(maker.head(x))
    return Graph(f"net{seed}", (first,), tuple(outputs), tuple(maker.nodes)).check()
