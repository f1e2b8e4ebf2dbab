"""Chains of convolutions with sums behind them, and whether a program computes a graph's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.execute import execute
from ridgeline.machine.program import Program
from ridgeline.ops.evaluate import evaluate
from single_node import activation, constant, node_of, random_stored


def chain(*shapes: tuple[int, int, int, int]) -> Graph:
    """Convolutions one after the other on 1 x 4 x 12 x 12: (outputs, inputs, kernel, stride)."""
    rng = np.random.default_rng(1)
    x = first = activation("x", (1, 4, 12, 12), "uint8", 0.05, 3)
    nodes: list[Node] = []
    for number, (outputs, inputs, kernel, stride) in enumerate(shapes):
        data = rng.integers(-40, 40, (outputs, inputs, kernel, kernel)).astype(np.int8)
        attrs = {
            "kernel_shape": [kernel] * 2,
            "strides": [stride] * 2,
            "dilations": [1, 1],
            "pads": [kernel // 2] * 4,
            "group": 1,
        }
        made = node_of("Conv", [x, constant(f"w{number}", data, 0.01)], ("uint8", 0.3, 5), attrs)
        x = Value(f"y{number}", made.output.type)
        nodes.append(replace(made, name=f"conv{number}", outputs=(x,)))
    return Graph("chain", (first,), (x,), tuple(nodes)).check()


def with_sums(graph: Graph, count: int) -> Graph:
    """The graph's output plus its input, so many times."""
    x, y = graph.inputs[0], graph.outputs[0]
    nodes = list(graph.nodes)
    for number in range(count):
        added = node_of("Add", [x, y], ("uint8", 0.3, 5))
        y = Value(f"total{number}", added.output.type)
        nodes.append(replace(added, name=f"add{number}", outputs=(y,)))
    return Graph("sums", (x,), (y,), tuple(nodes)).check()


def same_bits(graph: Graph, program: Program) -> bool:
    rng = np.random.default_rng(2)
    given = {v.name: random_stored(v, rng) for v in graph.inputs}
    made = execute(program, given, OnnxRuntimeExecutor())
    values = evaluate(graph, given)
    return all(np.array_equal(made[o.name], values[id(o)]) for o in graph.outputs)
