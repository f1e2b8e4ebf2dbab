from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes, write_onnx
from ridgeline.frontend.runtime import cpu_matches, create_session
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.numerics.formats import FP32, INT8, INT16, INT32, UINT8, DType
from ridgeline.ops.evaluate import evaluate

matching_cpu = pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU")


def _tensor(name: str, shape: tuple[int, ...], dtype: DType, scale: float, zero: int = 0) -> Value:
    return Value(name, TensorType(shape, dtype, Quant.per_tensor(scale, zero)))


def _weights(name: str, array: Any, dtype: DType, scale: Any, axis: int | None = None) -> Value:
    scales = np.asarray(scale, np.float32)
    quant = Quant(scales, np.zeros(scales.shape, np.int32), axis)
    return Value(name, TensorType(array.shape, dtype, quant), array.astype(dtype.numpy))


def _between_float(node: Node) -> Graph:
    """The node with float inputs and outputs: QuantizeLinear before, DequantizeLinear after."""
    inputs: list[Value] = []
    nodes: list[Node] = []
    for value in dict.fromkeys(v for v in node.inputs if v is not None and not v.is_constant):
        real = Value(f"{value.name}_in", TensorType(value.type.shape, FP32))
        inputs.append(real)
        nodes.append(Node("QuantizeLinear", f"q_{value.name}", (real,), (value,)))
    out = Value("y", TensorType(node.output.type.shape, FP32))
    nodes += [node, Node("DequantizeLinear", "dq", node.outputs, (out,))]
    return Graph("one", tuple(inputs), (out,), tuple(nodes)).check()


WINDOW = {"kernel_shape": (3, 3), "strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1)}
POOL = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0)}


def _product(op: str, dtype: DType, per_channel: bool) -> Node:
    generator = np.random.default_rng(0)
    x_shape = {"Conv": (2, 4, 6, 6), "MatMul rows": (2, 3, 6)}.get(op, (5, 6))
    w_shape = (7, 4, 3, 3) if op == "Conv" else (6, 7)
    x = _tensor("x", x_shape, dtype, 0.02, dtype.low + 100)
    scale = np.linspace(0.01, 0.03, 7) if per_channel else np.asarray(0.01)
    axis = (0 if op == "Conv" else 1) if per_channel else None
    w = _weights("w", generator.integers(-127, 128, w_shape), INT8, scale, axis)
    bias_scale = np.float32(0.02) * scale.astype(np.float32)
    bias_axis = 0 if per_channel else None
    b = _weights("b", generator.integers(-999, 999, 7), INT32, bias_scale, bias_axis)
    if op == "Conv":
        out = _tensor("o", (2, 7, 6, 6), dtype, 0.05, dtype.low)
        return Node(op, "node", (x, w, b), (out,), {**WINDOW, "group": 1, "clip": (0.0, None)})
    out = _tensor("o", (*x_shape[:-1], 7), dtype, 0.05, dtype.low + 120)
    return Node("MatMul", "node", (x, w) if op == "MatMul" else (x, w, b), (out,))


def _node(op: str, dtype: DType, per_channel: bool) -> Node:
    if op == "Conv" or op.startswith("MatMul"):
        return _product(op, dtype, per_channel)
    low = dtype.low
    x = _tensor("x", (2, 4, 6, 6), dtype, 0.02, low + 100)
    z = _tensor("z", (2, 4, 6, 6), dtype, 0.03, low + 50)
    same = x.type.quant
    inputs, out_shape, quant, attrs = {
        "Add": ((x, z), x.type.shape, Quant.per_tensor(0.05, low), {"clip": (0.0, None)}),
        "Mul": ((x, z), x.type.shape, Quant.per_tensor(0.05, low), {"clip": (0.0, None)}),
        "AveragePool": (
            (x,),
            (2, 4, 3, 3),
            Quant.per_tensor(0.03, low + 70),
            {**POOL, "count_include_pad": 0},
        ),
        "GlobalAveragePool": ((x,), (2, 4, 1, 1), Quant.per_tensor(0.03, low + 70), {}),
        "MaxPool": ((x,), (2, 4, 3, 3), same, {**POOL, "dilations": (1, 1)}),
        "Reshape": ((x,), (2, 144), same, {"shape": (2, 144)}),
        "Transpose": ((x,), (2, 6, 6, 4), same, {"perm": (0, 2, 3, 1)}),
        "Concat": ((x, z), (2, 8, 6, 6), Quant.per_tensor(0.05, low + 60), {"axis": 1}),
    }[op]
    return Node(op, "node", inputs, (Value("o", TensorType(out_shape, dtype, quant)),), attrs)


KERNELS = {
    "Conv": "QLinearConv",
    "MatMul": "QLinearMatMul",
    "MatMul bias": "QGemm",
    "MatMul rows": "QGemm",
    "Add": "QLinearAdd",
    "Mul": "QLinearMul",
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "MaxPool": "MaxPool",
    "Reshape": "Reshape",
    "Transpose": "Transpose",
    "Concat": "QLinearConcat",
}


@matching_cpu
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [UINT8, INT8], ids=str)
@pytest.mark.parametrize("op", KERNELS)
def test_quantised_nodes_fuse_and_agree(
    op: str, dtype: DType, per_channel: bool, tmp_path: Path
) -> None:
    graph = _between_float(_node(op, dtype, per_channel))
    data = onnx_bytes(graph)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    optimised = tmp_path / "optimised.onnx"
    session = create_session(data, str(optimised))
    kernels = Counter(n.op_type for n in onnx.load(optimised).graph.node)
    assert kernels[KERNELS[op]] == 1, kernels
    assert kernels["DequantizeLinear"] == 1
    assert kernels["Relu"] == 0
    generator = np.random.default_rng(1)
    inputs = {
        v.name: generator.uniform(-4, 4, v.type.shape).astype(np.float32) for v in graph.inputs
    }
    (found,) = session.run(None, inputs)
    meaning = evaluate(graph, inputs)[id(graph.outputs[0])]
    np.testing.assert_array_equal(found, meaning)


@pytest.mark.parametrize("op", ["Add", "AveragePool", "MaxPool", "Concat", "Conv", "MatMul"])
def test_int16_activations_are_legal_and_run_in_float(op: str) -> None:
    node = _node(op, INT16, True)
    quant = Quant.per_tensor(0.001)
    inputs, outputs = (
        tuple(
            v
            if v is None or v.is_constant
            else Value(v.name, TensorType(v.type.shape, INT16, quant))
            for v in values
        )
        for values in (node.inputs, node.outputs)
    )
    kept = tuple(v for v in outputs if v is not None)
    graph = _between_float(Node(node.op, "node", inputs[:2], kept, node.attrs))
    data = onnx_bytes(graph)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    generator = np.random.default_rng(1)
    feed = {v.name: generator.uniform(-4, 4, v.type.shape).astype(np.float32) for v in graph.inputs}
    (found,) = create_session(data).run(None, feed)
    meaning = evaluate(graph, feed)[id(graph.outputs[0])]
    np.testing.assert_allclose(found, meaning, atol=0.00101)


def test_the_same_graph_gives_the_same_bytes() -> None:
    graph = _between_float(_node("Conv", UINT8, True))
    assert onnx_bytes(graph) == onnx_bytes(graph)


def test_what_is_written_reads_back() -> None:
    graph = _between_float(_node("Conv", UINT8, True))
    again = read_onnx(onnx_bytes(graph))
    assert [v.name for v in again.inputs] == ["x_in"]
    assert [v.name for v in again.outputs] == ["y"]


def test_a_value_seen_twice_by_name_gets_two_names() -> None:
    x = Value("x", TensorType((2,), FP32))
    first, second = (Value("same", TensorType((2,), FP32)) for _ in range(2))
    y = Value("y", TensorType((2,), FP32))
    nodes = (
        Node("Clip", "a", (x,), (first,), {"min": 0.0}),
        Node("Clip", "b", (x,), (second,), {"max": 1.0}),
        Node("Add", "c", (first, second), (y,)),
    )
    model = onnx.load_from_string(onnx_bytes(Graph("g", (x,), (y,), nodes).check()))
    onnx.checker.check_model(model, full_check=True)


def test_products_of_more_than_two_dimensions_that_share_an_input_get_names_of_their_own() -> None:
    """Each is written as a product of rows, whose values live only while it is written."""
    first = _product("MatMul rows", UINT8, True)
    x = first.input(0)
    nodes = [first] + [
        Node("MatMul", f"again{i}", first.inputs, (Value(f"y{i}", first.output.type),))
        for i in range(4)
    ]
    real = Value("x_in", TensorType(x.type.shape, FP32))
    outputs = [Value(f"real{i}", TensorType(first.output.type.shape, FP32)) for i in range(5)]
    ends = [
        Node("DequantizeLinear", f"dq{i}", n.outputs, (o,))
        for i, (n, o) in enumerate(zip(nodes, outputs, strict=True))
    ]
    begin = Node("QuantizeLinear", "q", (real,), (x,))
    graph = Graph("g", (real,), tuple(outputs), (begin, *nodes, *ends)).check()
    model = onnx.load_from_string(onnx_bytes(graph))
    onnx.checker.check_model(model, full_check=True)


def test_write_onnx_leaves_one_whole_file(tmp_path: Path) -> None:
    graph = _between_float(_node("Add", UINT8, False))
    write_onnx(graph, tmp_path / "m.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_bytes() == onnx_bytes(graph)


def test_write_onnx_into_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    graph = _between_float(_node("Add", UINT8, False))
    with pytest.raises(RidgelineError, match=r"m\.onnx: cannot be written"):
        write_onnx(graph, tmp_path / "no" / "m.onnx")


def test_write_onnx_onto_a_folder_leaves_nothing(tmp_path: Path) -> None:
    graph = _between_float(_node("Add", UINT8, False))
    (tmp_path / "m.onnx").mkdir()
    with pytest.raises(RidgelineError, match="cannot be written"):
        write_onnx(graph, tmp_path / "m.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
