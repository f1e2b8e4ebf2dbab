"""Normalisations as exporters spell them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.passes.pipeline import prepare

SHAPE = (3, 5, 16)
_DEVIATION = "m = ReduceMean<keepdims = 1>(x, last) d = Sub(x, m)"

# name: (operators, nodes from x to y)
SPELLINGS: dict[str, tuple[list[str], str]] = {
    "layer, torch": (
        ["LayerNormalization"],
        f"{_DEVIATION} q = Pow(d, two) v = ReduceMean<keepdims = 1>(q, last) a = Add(v, epsilon)"
        " r = Sqrt(a) n = Div(d, r) s = Mul(n, scale) y = Add(s, shift)",
    ),
    "layer, torch 1.5, two Subs": (
        ["LayerNormalization"],
        f"{_DEVIATION} e = Sub(x, m) q = Pow(e, two) v = ReduceMean<keepdims = 1>(q, last)"
        " a = Add(epsilon, v) r = Sqrt(a) n = Div(d, r) s = Mul(scale, n) y = Add(shift, s)",
    ),
    "layer, tf2onnx": (
        ["LayerNormalization"],
        f"{_DEVIATION} q = Mul(d, d) v = ReduceMean<keepdims = 1>(q, last) a = Add(v, epsilon)"
        " r = Sqrt(a) i = Reciprocal(r) g = Mul(i, scale) s = Mul(x, g) t = Mul(m, g)"
        " u = Sub(shift, t) y = Add(s, u)",
    ),
    "layer, root as a power": (
        ["LayerNormalization"],
        f"{_DEVIATION} q = Mul(d, d) v = ReduceMean<keepdims = 1>(q, last) a = Add(v, epsilon)"
        " r = Pow(a, root) n = Mul(r, d) s = Mul(n, scale) y = Add(s, shift)",
    ),
    "layer, mean of squares": (
        ["LayerNormalization"],
        "t = ReduceSum<keepdims = 1>(x, last) m = Mul(t, share) q = Mul(x, x)"
        " u = ReduceSum<keepdims = 1>(q, last) w = Mul(u, share) p = Mul(m, m) v = Sub(w, p)"
        " c = Max(v, zero) a = Add(c, epsilon) r = Sqrt(a) i = Reciprocal(r) g = Mul(i, scale)"
        " d = Sub(x, m) n = Mul(d, g) y = Add(n, shift)",
    ),
    "layer without scale": (
        ["LayerNormalization"],
        f"{_DEVIATION} q = Mul(d, d) v = ReduceMean<keepdims = 1>(q, last) a = Add(v, epsilon)"
        " r = Sqrt(a) y = Div(d, r)",
    ),
    "layer over two axes": (
        ["LayerNormalization"],
        "m = ReduceMean<keepdims = 1>(x, tail) d = Sub(x, m) q = Mul(d, d)"
        " v = ReduceMean<keepdims = 1>(q, tail) a = Add(v, epsilon) r = Sqrt(a) n = Div(d, r)"
        " y = Mul(n, scale)",
    ),
    "layer over channels": (
        ["Transpose", "LayerNormalization", "Transpose"],
        "m = ReduceMean<keepdims = 1>(x, middle) d = Sub(x, m) q = Mul(d, d)"
        " v = ReduceMean<keepdims = 1>(q, middle) a = Add(v, epsilon) r = Sqrt(a) n = Div(d, r)"
        " s = Mul(n, five) y = Add(s, five)",
    ),
    # The same as a scale of sqrt(15 / 16) and another epsilon.
    "layer, divided by one less": (
        ["LayerNormalization"],
        f"{_DEVIATION} q = Mul(d, d) t = ReduceSum<keepdims = 1>(q, last) v = Mul(t, unbiased)"
        " a = Add(v, epsilon) r = Sqrt(a) y = Div(d, r)",
    ),
    "root mean square, torch": (
        ["RMSNormalization"],
        "q = Pow(x, two) v = ReduceMean<keepdims = 1>(q, last) a = Add(v, epsilon) r = Sqrt(a)"
        " i = Div(one, r) n = Mul(x, i) y = Mul(n, scale)",
    ),
    "root mean square, turned": (
        ["RMSNormalization"],
        "q = Mul(x, x) v = ReduceMean<keepdims = 1>(q, last) a = Add(epsilon, v) r = Sqrt(a)"
        " n = Div(x, r) y = Mul(scale, n)",
    ),
    "softmax, torch": (
        ["Softmax"],
        "m = ReduceMax<keepdims = 1>(x, last) d = Sub(x, m) e = Exp(d)"
        " t = ReduceSum<keepdims = 1>(e, last) y = Div(e, t)",
    ),
    "softmax without maximum": (
        ["Softmax"],
        "e = Exp(x) t = ReduceSum<keepdims = 1>(e, last) i = Reciprocal(t) y = Mul(i, e)",
    ),
    "softmax over channels": (
        ["Softmax"],
        "m = ReduceMax<keepdims = 1>(x, middle) d = Sub(x, m) e = Exp(d)"
        " t = ReduceSum<keepdims = 1>(e, middle) y = Div(e, t)",
    ),
    "softmax over two axes": (
        ["Reshape", "Softmax", "Reshape"],
        "m = ReduceMax<keepdims = 1>(x, tail) d = Sub(x, m) e = Exp(d)"
        " t = ReduceSum<keepdims = 1>(e, tail) y = Div(e, t)",
    ),
}
OTHERS = {
    "epsilon beside the root": f"{_DEVIATION} q = Mul(d, d) v = ReduceMean<keepdims = 1>(q, last)"
    " r = Sqrt(v) a = Add(r, one) y = Div(d, a)",
    "mean deviation": f"{_DEVIATION} q = Abs(d) v = ReduceMean<keepdims = 1>(q, last)"
    " a = Add(v, epsilon) y = Div(d, a)",
    "length": "q = Mul(x, x) v = ReduceSum<keepdims = 1>(q, last) r = Sqrt(v) a = Add(r, epsilon)"
    " y = Div(x, a)",
    "softmax at another temperature": "h = Mul(x, two) e = Exp(h)"
    " t = ReduceSum<keepdims = 1>(e, last) f = Exp(x) y = Div(f, t)",
}
NUMBERS = {
    "zero": 0.0,
    "one": 1.0,
    "two": 2.0,
    "root": -0.5,
    "epsilon": 1e-5,
    "share": 1 / 16,
    "unbiased": 1 / 15,
}
AXES = {"last": [-1], "tail": [1, 2], "middle": [1]}


def model(nodes: str, constants: tuple[int, ...] = ()) -> bytes:
    dims = ", ".join(map(str, SHAPE))
    parsed = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g (float[{dims}] x) => (float[{dims}] y)'
        f" {{ {nodes} }}"
    )
    random = np.random.default_rng(3)
    tail = SHAPE[1:] if "tail" in nodes else SHAPE[2:]
    arrays: dict[str, np.ndarray] = {
        "scale": random.uniform(-2, 2, tail).astype(np.float32),
        "shift": random.normal(0, 1, tail).astype(np.float32),
        "five": random.uniform(0.5, 2, (5, 1)).astype(np.float32),
    }
    arrays |= {n: np.full(constants, v, np.float32) for n, v in NUMBERS.items()}
    arrays |= {n: np.asarray(v, np.int64) for n, v in AXES.items()}
    parsed.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return parsed.SerializeToString()


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("constants", [(), (1,)], ids=["scalar", "[1]"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_node_that_computes_the_same(spelling: str, constants: tuple[int, ...]) -> None:
    wanted, nodes = SPELLINGS[spelling]
    file = model(nodes, constants)
    graph = prepare(read_onnx(file))
    assert operators(graph) == wanted
    random = np.random.default_rng(0)
    for spread, mean in ((1.0, 0.0), (0.02, 0.01), (5.0, -3.0)):
        x = random.normal(mean, spread, SHAPE).astype(np.float32)
        expected = run_model(file, {"x": x})["y"]
        (found,) = GraphRunner(graph).run({"x": x})
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("spelling", OTHERS)
def test_what_computes_something_else_stays(spelling: str) -> None:
    found = operators(prepare(read_onnx(model(OTHERS[spelling]))))
    assert {"LayerNormalization", "RMSNormalization", "Softmax"}.isdisjoint(found)


def test_scale_shift_and_epsilon_are_the_files_own() -> None:
    file = model(SPELLINGS["layer, torch"][1])
    (node,) = prepare(read_onnx(file)).nodes
    given = {
        t.name: numpy_helper.to_array(t) for t in onnx.load_from_string(file).graph.initializer
    }
    assert np.array_equal(node.input(1).data, given["scale"])  # type: ignore[arg-type]
    assert np.array_equal(node.input(2).data, given["shift"])  # type: ignore[arg-type]
    assert node.attrs == {"epsilon": float(np.float32(1e-5)), "axis": 2}


def test_root_mean_square_is_spelled_out_for_opsets_without_it() -> None:
    graph = prepare(read_onnx(model(SPELLINGS["root mean square, torch"][1])))
    file = onnx_bytes(graph)
    onnx.checker.check_model(onnx.load_from_string(file), full_check=True)
    assert "RMSNormalization" not in [n.op_type for n in onnx.load_from_string(file).graph.node]
    again = prepare(read_onnx(file))
    assert operators(again) == ["RMSNormalization"]
    for first, second in zip(graph.nodes[0].inputs[1:], again.nodes[0].inputs[1:], strict=True):
        assert np.array_equal(first.data, second.data)  # type: ignore[union-attr]
