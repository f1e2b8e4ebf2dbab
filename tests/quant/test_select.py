from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.select import Sharing, select_nodes

WEIGHTS = {
    "w": np.ones((4, 4, 1, 1), np.float32),
    "m": np.ones((4, 4), np.float32),
}


def _graph(body: str, inputs: str = "float[1, 4, 4, 4] x", outputs: str = "float[] y") -> Graph:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs})'
        f" <float six = {{6}}, float one = {{1}}> {{ {body} }}"
    )
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(a, n) for n, a in WEIGHTS.items() if n in used
    )
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return prepare(read_onnx(model.SerializeToString()))


def _ops(graph: Graph, keep: tuple[str, ...] = ()) -> list[str]:
    return [n.op for n in select_nodes(graph, keep)]


def test_products_and_what_touches_them() -> None:
    graph = _graph(
        "t = Transpose<perm=[0, 1, 3, 2]>(x) c = Conv(t, w) a = Add(c, x) s = Sigmoid(a)"
        " e = Exp(s) f = Mul(e, e) g = Tanh(f) y = Transpose(g)"
    )
    assert _ops(graph) == ["Transpose", "Conv"]


BETWEEN = {
    "between products": ("c = Conv(x, w) a = Add(c, x) y = Conv(a, w)", ["Conv", "Add", "Conv"]),
    "before the output": ("c = Conv(x, w) y = Add(c, x)", ["Conv", "Add"]),
    "through a move": (
        "c = Conv(x, w) a = Add(c, x) p = MaxPool<kernel_shape=[1, 1]>(a) y = Conv(p, w)",
        ["Conv", "Add", "MaxPool", "Conv"],
    ),
    "read in float": ("c = Conv(x, w) a = Add(c, x) s = Softmax(a) y = Conv(s, w)", ["Conv"] * 2),
    "read in float after a move": (
        "c = Conv(x, w) a = Add(c, x) t = Transpose(a) s = Softmax(t) y = Conv(s, w)",
        ["Conv"] * 2,
    ),
    "made in float": ("c = Conv(x, w) s = Softmax(c) a = Add(c, s) y = Conv(a, w)", ["Conv"] * 2),
    "a normalisation": (
        "c = Conv(x, w) q = Mul(c, c) v = ReduceMean<axes=[1]>(q) r = Sqrt(v) d = Div(c, r)"
        " y = Conv(d, w)",
        ["Conv"] * 2,
    ),
    "an attention mask": (
        "c = MatMul(x, m) f = Softmax(x) k = Mul(f, f) a = Add(c, k) s = Softmax(a)"
        " y = MatMul(s, m)",
        ["MatMul"] * 2,
    ),
}


@pytest.mark.parametrize(("body", "ops"), BETWEEN.values(), ids=BETWEEN)
def test_element_by_element_operators_only_between_integers(body: str, ops: list[str]) -> None:
    assert _ops(_graph(body)) == ops


def test_without_products_every_operator_is_taken() -> None:
    assert _ops(_graph("a = Add(x, x) y = GlobalAveragePool(a)")) == ["Add", "GlobalAveragePool"]


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = Conv(x, v)", "float[1, 4, 4, 4] x, float[4, 4, 1, 1] v"),
        ("y = Conv(x, w, v)", "float[1, 4, 4, 4] x, float[4] v"),
        ("y = Gemm(x, v, b)", "float[4, 4] x, float[4, 4] v, float[4] b"),
        ("y = Add(x, x)", "int32[4] x"),
    ],
)
def test_what_has_no_integer_meaning_stays(body: str, inputs: str) -> None:
    assert _ops(_graph(body, inputs)) == []


def test_keep_float_by_name_and_by_operator() -> None:
    graph = _graph("c = Conv(x, w) d = Conv(c, w) y = Add(d, x)")
    assert _ops(graph, ("c",)) == ["Conv", "Add"]
    assert _ops(graph, ("Conv",)) == ["Add"]
    with pytest.raises(RidgelineError, match=r"keep_float names 'Cnov'.*Did you mean 'Conv'"):
        select_nodes(graph, ("Cnov",))


def _sharing(graph: Graph, **ranges: tuple[float, float]) -> tuple[Sharing, dict[str, int]]:
    values = {v.name: v for n in graph.nodes for v in n.outputs} | {v.name: v for v in graph.inputs}
    sharing = Sharing(select_nodes(graph, ()), {id(values[name]): r for name, r in ranges.items()})
    return sharing, {name: sharing.root(v) for name, v in values.items()}


def test_moves_keep_their_input() -> None:
    graph = _graph("c = Conv(x, w) p = MaxPool<kernel_shape=[2, 2]>(c) y = Flatten(p)")
    _, root = _sharing(graph, x=(0, 1), c=(-1, 1))
    assert root["c"] == root["p"] == root["y"] != root["x"]


CONCAT = "a = Conv(x, w) b = Conv(x, w) r = {} y = Concat<axis=1>(r, b)"


def test_concat_shares_what_fits() -> None:
    graph = _graph(CONCAT.format("MaxPool<kernel_shape=[1, 1]>(a)"))
    sharing, root = _sharing(graph, x=(0, 1), a=(-1, 3), b=(-2, 1), y=(-2, 3))
    assert root["a"] == root["r"] == root["b"] == root["y"]
    joined = sharing.of(graph.outputs[0])
    assert (joined.low, joined.high) == (-2, 3)


def test_concat_does_not_take_a_relu_from_its_zero_point() -> None:
    graph = _graph(CONCAT.format("Relu(a)"))
    _, root = _sharing(graph, x=(0, 1), r=(0, 3), b=(-2, 1), y=(-2, 3))
    assert root["r"] != root["y"] == root["b"]


def test_concat_does_not_coarsen_a_small_input() -> None:
    graph = _graph(CONCAT.format("MaxPool<kernel_shape=[1, 1]>(a)"))
    _, root = _sharing(graph, x=(0, 1), a=(-0.1, 0.1), b=(-9, 9), y=(-9, 9))
    assert root["a"] != root["y"] == root["b"]
