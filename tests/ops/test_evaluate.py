from __future__ import annotations

import re

import numpy as np
import pytest

from numeric_cases import CONVOLUTIONS
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.numerics.formats import FP32, UINT8
from ridgeline.numerics.quantize import dequantize, quantize
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.evaluate import evaluate
from single_node import activation, constant, node_of


def real(name, *shape):
    return Value(name, TensorType(shape, FP32))


def mixed_graph():
    """Float input -> Q -> Conv -> DQ -> Tanh (on the host) -> output."""
    shape, weights, extra = CONVOLUTIONS["plain"]
    rng = np.random.default_rng(0)
    x, stored = real("x", *shape), activation("q", shape, "uint8", 0.05, 120)
    w = constant("w", rng.integers(-128, 128, weights).astype(np.int8), 0.02)
    conv = node_of(
        "Conv", [stored, w], ("uint8", 0.2, 128), {"kernel_shape": [3, 3], "group": 1} | extra
    )
    wide, result = real("wide", *conv.output.type.shape), real("t", *conv.output.type.shape)
    nodes = (
        Node("QuantizeLinear", "quantize", (x,), (stored,)),
        conv,
        Node("DequantizeLinear", "dequantize", (conv.output,), (wide,)),
        Node("Tanh", "tanh", (wide,), (result,)),
    )
    return Graph("mixed", (x,), (result,), nodes).check()


def test_mixed_graph_with_a_host():
    graph = mixed_graph()
    x = np.random.default_rng(1).normal(size=graph.inputs[0].type.shape).astype(np.float32)

    def host(node, inputs):
        assert node.op == "Tanh"
        return [np.tanh(inputs[0])]

    values = evaluate(graph, {"x": x}, host)
    quantizer, conv, dequantizer, _ = graph.nodes
    stored = quantize(x, quantizer.output.type.quant, UINT8)
    np.testing.assert_array_equal(values[id(quantizer.output)], stored)
    (expected,) = PRIMITIVES["Conv"].integer_meaning(conv, [stored, conv.input(1).data])
    np.testing.assert_array_equal(values[id(conv.output)], expected)
    wide = dequantize(expected, conv.output.type.quant)
    np.testing.assert_array_equal(values[id(dequantizer.output)], wide)
    np.testing.assert_array_equal(values[id(graph.outputs[0])], np.tanh(wide))


def test_an_operator_without_a_host():
    graph = mixed_graph()
    message = "node 'tanh' (Tanh): operator Tanh is not one of Ridgeline's and no host was given"
    with pytest.raises(RidgelineError, match=re.escape(message)):
        evaluate(graph, {"x": np.zeros(graph.inputs[0].type.shape, np.float32)})


def test_missing_and_misfit_inputs():
    graph = mixed_graph()
    with pytest.raises(RidgelineError, match="graph 'mixed': no data for input 'x'"):
        evaluate(graph, {})
    message = "graph 'mixed': input 'x' is fp32[1,3,8,8], the data float64[1, 3, 8, 8]"
    with pytest.raises(RidgelineError, match=re.escape(message)):
        evaluate(graph, {"x": np.zeros((1, 3, 8, 8))})


def test_a_quantised_input_needs_a_quantised_output():
    x = activation("x", (2, 3), "uint8", 0.1)
    graph = Graph("g", (x,), (real("y", 2, 3),), ())
    node = Node("Clip", "relu", (x,), (graph.outputs[0],), {"min": 0.0, "max": None})
    graph = Graph("g", (x,), graph.outputs, (node,)).check()
    message = (
        "node 'relu' (Clip): its input is uint8[2,3] quant(0.100000001, 0) and its output fp32"
    )
    with pytest.raises(RidgelineError, match=re.escape(message)):
        evaluate(graph, {"x": np.zeros((2, 3), np.uint8)})


def test_integers_without_quantisation_are_ordinary_numbers():
    data = np.arange(6, dtype=np.int64)
    x = Value.constant("x", data)
    y = Value("y", TensorType((2, 3), x.type.dtype))
    graph = Graph("g", (), (y,), (Node("Reshape", "r", (x,), (y,), {"shape": (2, 3)}),))
    np.testing.assert_array_equal(evaluate(graph, {})[id(y)], data.reshape(2, 3))


def test_requantisation_by_a_quantize_node():
    x = activation("x", (256,), "uint8", 0.1, 3)
    y = Value("y", TensorType((256,), UINT8, Quant.per_tensor(0.3, 100)))
    graph = Graph("g", (x,), (y,), (Node("QuantizeLinear", "q", (x,), (y,)),))
    stored = np.arange(256, dtype=np.uint8)
    expected = quantize(dequantize(stored, x.type.quant), y.type.quant, UINT8)
    np.testing.assert_array_equal(evaluate(graph, {"x": stored})[id(y)], expected)
