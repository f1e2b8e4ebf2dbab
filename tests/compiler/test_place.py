"""Placement: the reason for every fallback in words, free reshapes, segments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compile_cases import graph_of, small_machine
from numeric_cases import Chooser, binary, convolution, matrix_product, single
from ridgeline.compiler import compile
from ridgeline.compiler.place import place
from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.execute import execute
from ridgeline.machine.instructions import Load
from ridgeline.ops.evaluate import evaluate
from single_node import activation, node_of, random_stored


def reason_of(node: Node, *settings: str) -> str | None:
    graph = graph_of(node)
    return place(graph, small_machine("weight-stationary", *settings)).reasons[id(node)]


def pool(window: int) -> Node:
    x = activation("x", (1, 2, 300, 1), "uint8", 0.1)
    attrs = {"kernel_shape": [window, 1], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    return node_of("MaxPool", [x], ("uint8", 0.1, 0), attrs)


def mean() -> Node:
    x = activation("x", (1, 20, 9, 9), "uint8", 0.1)
    return node_of("GlobalAveragePool", [x], ("uint8", 0.1, 0))


NARROW = "array.macs_per_pe_per_cycle={int8=1}"
REASONS: dict[str, tuple[Node, tuple[str, ...], str]] = {
    "softmax": (
        single("Softmax", "uint8", 1, axis=1),
        (),
        "Softmax is in|accelerator has no Softmax",
    ),
    "no add": (
        binary("Add", "same", ("uint8",) * 3, 1),
        ('vector.operations=["requantize"]',),
        "the vector unit of tiny-8 has no 'add'",
    ),
    "mixed": (
        binary("Add", "same", ("uint8", "int8", "uint8"), 1),
        (),
        "operands are uint8 and int8",
    ),
    "int16 add": (binary("Add", "same", ("int16",) * 3, 1), (), "zero point|Add of int16"),
    "no int16": (convolution("plain", "int16", "s8", 1), (NARROW,), "takes int8 activations only"),
    "narrow sums": (
        replace(convolution("plain", "int16", "s8", 1)),
        ("array.accumulator_bits=32",),
        "zero point|48-bit accumulators",
    ),
    "attention": (
        matrix_product("attention", "uint8", "s8", 1),
        (),
        "both operands are activations",
    ),
    "volume": (convolution("volume", "uint8", "s8", 1), (), "3 spatial dimensions"),
    "large image": (
        mean(),
        ("unified_buffer.bytes=1024",),
        "an image of 1640 bytes does not fit the unified buffer",
    ),
    "tall window": (pool(260), (), "a kernel or dilation of 260 does not fit"),
}


@pytest.mark.parametrize("name", REASONS)
def test_reason(name: str) -> None:
    node, settings, texts = REASONS[name]
    reason = reason_of(node, *settings)
    assert reason is not None
    assert any(text in reason for text in texts.split("|")), reason


def chain(*nodes: Node) -> Graph:
    inputs = tuple(v for v in nodes[0].inputs if v is not None and v.data is None)
    return Graph("chain", inputs, nodes[-1].outputs, nodes).check()


def renamed(node: Node, name: str) -> Node:
    return replace(node, name=name, outputs=(Value(name, node.output.type),))


def assert_runs(graph: Graph, *settings: str) -> Any:
    program = compile(graph, small_machine("weight-stationary", *settings))
    rng = np.random.default_rng(0)
    given = {v.name: random_stored(v, rng) for v in graph.inputs}
    made = execute(program, given, OnnxRuntimeExecutor())
    values = evaluate(graph, given)
    for value in graph.outputs:
        np.testing.assert_array_equal(made[value.name], values[id(value)])
    return program


def test_flattened_image_into_a_dense_layer_moves_nothing() -> None:
    chooser = Chooser(4)
    conv = renamed(convolution("plain", "uint8", "s8", 7), "conv")
    flat = activation("flat", (1, 512), "uint8", 1.0)
    flat = Value("flat", replace(flat.type, quant=conv.output.type.quant))
    reshape = Node("Reshape", "flatten", (conv.output,), (flat,), {"shape": (1, 512)})
    weights = chooser.weights((512, 5), "s8", 1)
    dense = renamed(node_of("MatMul", [flat, weights], chooser.output("uint8", 51200)), "dense")
    program = assert_runs(chain(conv, reshape, dense))
    assert [layer.placed for layer in program.layers] == ["array", "move", "array"]


def test_flattened_image_that_the_user_gets_is_put_in_order_by_loads() -> None:
    conv = renamed(convolution("plain", "uint8", "s8", 7), "conv")
    flat = Value("flat", replace(conv.output.type, shape=(1, 512)))
    reshape = Node("Reshape", "flatten", (conv.output,), (flat,), {"shape": (1, 512)})
    program = assert_runs(chain(conv, reshape))
    assert [layer.placed for layer in program.layers] == ["array", "move"]
    assert program.layers[1].reason == ""


def test_transpose_to_channels_last_and_a_product_moves_nothing() -> None:
    chooser = Chooser(5)
    conv = renamed(convolution("plain", "uint8", "s8", 7), "conv")
    moved = Value("moved", replace(conv.output.type, shape=(1, 8, 8, 8)))
    transpose = Node("Transpose", "turn", (conv.output,), (moved,), {"perm": [0, 2, 3, 1]})
    weights = chooser.weights((8, 5), "s8", 1)
    dense = renamed(node_of("MatMul", [moved, weights], chooser.output("uint8", 800)), "dense")
    program = assert_runs(chain(conv, transpose, dense))
    assert [layer.placed for layer in program.layers] == ["array", "move", "array"]


def test_transpose_of_rows_is_made_by_loads() -> None:
    conv = renamed(convolution("strided", "uint8", "s8", 7), "conv")
    n, c, h, w = conv.output.type.shape
    moved = Value("moved", replace(conv.output.type, shape=(n, c, w, h)))
    transpose = Node("Transpose", "turn", (conv.output,), (moved,), {"perm": [0, 1, 3, 2]})
    program = assert_runs(chain(conv, transpose))
    assert program.layers[1].placed == "move"
    loads = [i for i in program.instructions if isinstance(i, Load) and i.layer == 1]
    assert loads


def test_host_operators_between_device_layers_make_segments() -> None:
    first = renamed(convolution("plain", "uint8", "s8", 7), "first")
    soft = node_of("Softmax", [first.output], ("uint8", 1 / 256, 0), {"axis": 1})
    soft = renamed(soft, "soft")
    last = renamed(single("Clip", "uint8", 3, min=0.0, max=0.5), "last")
    last = replace(last, inputs=(soft.output,), outputs=(Value("last", replace(soft.output.type)),))
    program = assert_runs(chain(first, soft, last))
    assert [type(s).__name__ for s in program.segments] == [
        "DeviceSegment", "HostSegment", "DeviceSegment",
    ]  # fmt: skip


def test_without_a_host_link_everything_must_run_on_the_device() -> None:
    with pytest.raises(RidgelineError, match=r"node 'softmax' \(Softmax\): inputs and outputs can"):
        compile(graph_of(single("Softmax", "uint8", 1, axis=1)), small_machine(), host_link=False)


def test_a_layer_that_fits_no_way_runs_on_the_host_and_says_why() -> None:
    node = convolution("pointwise", "uint8", "s8", 7)
    program = assert_runs(graph_of(node), "unified_buffer.bytes=16")
    assert [type(s).__name__ for s in program.segments] == ["HostSegment"]
    (layer,) = program.layers
    assert layer.reason.startswith("needs ")
    assert "bytes of unified buffer even in its smallest tiles; there are 16" in layer.reason


def test_without_a_host_link_a_layer_that_fits_no_way_is_refused_with_its_needs() -> None:
    node = convolution("pointwise", "uint8", "s8", 7)
    machine = small_machine("weight-stationary", "unified_buffer.bytes=16")
    with pytest.raises(RidgelineError) as caught:
        compile(graph_of(node), machine, host_link=False)
    text = str(caught.value)
    assert "layer 'conv' (Conv) needs" in text
    assert "bytes of unified buffer even in its smallest tiles; there are 16" in text
    assert "--set unified_buffer.bytes=" in text


def test_too_little_device_memory_is_refused() -> None:
    node = convolution("pointwise", "uint8", "s8", 7)
    with pytest.raises(RidgelineError, match="bytes of device memory and there are 256"):
        compile(graph_of(node), small_machine("weight-stationary", "device_memory.bytes=256"))


def test_what_nobody_reads_is_not_compiled() -> None:
    first = renamed(convolution("plain", "uint8", "s8", 7), "first")
    soft = renamed(node_of("Softmax", [first.output], ("uint8", 1 / 256, 0), {"axis": 1}), "soft")
    graph = Graph("dead", (first.input(0),), (first.output,), (first, soft)).check()
    program = assert_runs(graph)
    assert [layer.name for layer in program.layers] == ["first"]
