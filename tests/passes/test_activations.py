"""Activations as exporters spell them: PyTorch, Keras by tf2onnx, JAX, Paddle, and by hand."""

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
from ridgeline.ops.evaluate import evaluate
from ridgeline.passes.activations import name_activations
from ridgeline.passes.pipeline import prepare
from ridgeline.quant.quantize import quantize
from ridgeline.quant.recipe import Recipe

SHAPE = (2, 6, 5, 3)

# name of the spelling: (operator, nodes from x to y)
SPELLINGS: dict[str, tuple[str, str]] = {
    "silu, torch": ("Swish", "s = Sigmoid(x) y = Mul(x, s)"),
    "silu, turned": ("Swish", "s = Sigmoid(x) y = Mul(s, x)"),
    "silu, exponential": (
        "Swish",
        "m = Neg(x) e = Exp(m) d = Add(e, one) y = Div(x, d)",
    ),
    "silu, reciprocal": (
        "Swish",
        "m = Mul(x, minus) e = Exp(m) d = Add(one, e) r = Reciprocal(d) y = Mul(r, x)",
    ),
    "quick gelu": ("Swish", "a = Mul(x, quick) s = Sigmoid(a) y = Mul(x, s)"),
    "gelu, torch": (
        "Gelu",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    ),
    "gelu, half first": (
        "Gelu",
        "h = Mul(half, x) d = Mul(inverse, x) e = Erf(d) a = Add(one, e) y = Mul(a, h)",
    ),
    "gelu, tf2onnx": (
        "Gelu",
        "d = Mul(x, inverse) e = Erf(d) a = Add(e, one) h = Mul(a, half) y = Mul(x, h)",
    ),
    "gelu by tanh, torch": (
        "Gelu",
        "p = Pow(x, three) c = Mul(p, cubic) a = Add(x, c) m = Mul(a, pi) t = Tanh(m)"
        " b = Add(t, one) h = Mul(x, half) y = Mul(h, b)",
    ),
    "gelu by tanh, jax": (
        "Gelu",
        "c = Mul(x, cubic) d = Mul(x, c) p = Mul(x, d) a = Add(x, p) m = Mul(pi, a) t = Tanh(m)"
        " b = Add(one, t) h = Mul(b, half) y = Mul(x, h)",
    ),
    "gelu by tanh, factored": (
        "Gelu",
        "q = Mul(x, x) c = Mul(q, cubic) f = Add(c, one) g = Mul(f, x) m = Mul(g, pi) t = Tanh(m)"
        " b = Add(t, one) h = Mul(half, b) y = Mul(h, x)",
    ),
    "hard-swish, torch": (
        "HardSwish",
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    ),
    "hard-swish, paddle": (
        "HardSwish",
        "a = Add(three, x) c = Clip(a, zero, six) m = Mul(c, x) y = Mul(m, third)",
    ),
    "hard-swish, Relu and Min": (
        "HardSwish",
        "a = Add(x, three) r = Relu(a) c = Min(r, six) d = Div(c, six) y = Mul(d, x)",
    ),
    "hard-swish, HardSigmoid": (
        "HardSwish",
        "h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, h)",
    ),
    "hard-sigmoid, torch": (
        "HardSigmoid",
        "a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)",
    ),
    "hard-sigmoid, keras": (
        "HardSigmoid",
        "m = Mul(x, fifth) a = Add(m, half) l = Max(a, zero) y = Min(one, l)",
    ),
    "mish, torch": ("Mish", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
    "mish, logarithm": (
        "Mish",
        "e = Exp(x) a = Add(one, e) l = Log(a) t = Tanh(l) y = Mul(t, x)",
    ),
    "leaky, Max": ("LeakyRelu", "m = Mul(x, slope) y = Max(m, x)"),
    "leaky, two Relu": (
        "LeakyRelu",
        "p = Relu(x) m = Neg(x) n = Relu(m) s = Mul(n, slope) y = Sub(p, s)",
    ),
    "leaky, absolute": (
        "LeakyRelu",
        "p = Relu(x) a = Abs(x) d = Sub(x, a) h = Mul(d, half) s = Mul(slope, h) y = Add(s, p)",
    ),
    "leaky, Where": ("LeakyRelu", "b = Greater(x, zero) m = Mul(slope, x) y = Where(b, x, m)"),
    "prelu, two Relu": (
        "PRelu",
        "p = Relu(x) m = Neg(x) n = Relu(m) o = Neg(n) s = Mul(channels, o) y = Add(p, s)",
    ),
    "prelu, Max and Min": (
        "PRelu",
        "p = Max(x, zero) n = Min(zero, x) s = Mul(n, channels) y = Add(s, p)",
    ),
    "prelu, mxnet": (
        "PRelu",
        "p = Relu(x) a = Abs(x) d = Sub(x, a) s = Mul(channels, d) h = Mul(s, half) y = Add(p, h)",
    ),
    "relu6, Min and Max": ("Clip", "m = Min(x, six) y = Max(zero, m)"),
    "relu6, Relu and Min": ("Clip", "r = Relu(x) y = Min(six, r)"),
    "relu, absolute": ("Clip", "a = Abs(x) s = Add(a, x) y = Mul(s, half)"),
    "sigmoid, exponential": ("Sigmoid", "m = Neg(x) e = Exp(m) a = Add(e, one) y = Reciprocal(a)"),
    "tanh, sigmoid": (
        "Tanh",
        "d = Mul(x, two) s = Sigmoid(d) t = Mul(s, two) y = Sub(t, one)",
    ),
    "elu, Where": (
        "Elu",
        "b = Less(x, zero) n = Min(x, zero) e = Exp(n) f = Sub(e, one) y = Where(b, f, x)",
    ),
}
NUMBERS = {
    "zero": 0.0,
    "third": 1 / 6,
    "fifth": 0.2,
    "slope": 0.25,
    "half": 0.5,
    "inverse": 2**-0.5,
    "pi": (2 / np.pi) ** 0.5,
    "one": 1.0,
    "minus": -1.0,
    "root": 2**0.5,
    "quick": 1.702,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "cubic": 0.044715,
}
# The same functions but for one number, and one of two tensors: these stay as they are.
OTHERS = {
    "silu of more": "s = Sigmoid(x) a = Add(s, slope) y = Mul(x, a)",
    "gelu of another root": "d = Div(x, two) e = Erf(d) a = Add(e, one) m = Mul(x, a)"
    " y = Mul(m, half)",
    "gelu of another cube": "p = Pow(x, three) c = Mul(p, fifth) a = Add(x, c) m = Mul(a, pi)"
    " t = Tanh(m) b = Add(t, one) h = Mul(x, half) y = Mul(h, b)",
    "hard-swish of 5": "a = Add(x, three) c = Clip(a, zero, five) m = Mul(x, c) y = Div(m, six)",
    "a bend far out": "s = Sigmoid(x) m = Min(x, far) y = Mul(m, s)",
    "mish of another number": "s = Softplus(x) t = Tanh(s) u = Mul(t, almost) y = Mul(x, u)",
    "two tensors": "w = Transpose<perm = [0, 1, 2, 3]>(z) s = Sigmoid(w) y = Mul(x, s)",
}


def model(nodes: str, constants: tuple[int, ...] = (), inputs: str = "") -> bytes:
    """The nodes over x, with every number as a constant of these dimensions."""
    dims = ", ".join(map(str, SHAPE))
    parsed = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g (float[{dims}] x{inputs})'
        f" => (float[{dims}] y) {{ {nodes} }}"
    )
    numbers = {**NUMBERS, "five": 5.0, "far": 9000.0, "almost": 1.0002}
    for name, number in numbers.items():
        array = np.full(constants, number, np.float32)
        parsed.graph.initializer.append(numpy_helper.from_array(array, name))
    slopes = np.array([0.1, -0.3, 0.25, 1.5, 0.0, 0.7], np.float32).reshape(6, 1, 1)
    parsed.graph.initializer.append(numpy_helper.from_array(slopes, "channels"))
    return parsed.SerializeToString()


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def x(low: float = -8, high: float = 8) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, SHAPE).astype(np.float32)


@pytest.mark.parametrize("constants", [(), (1,), (1, 1, 1, 1)], ids=["scalar", "[1]", "[1,1,1,1]"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_node_that_computes_the_same(spelling: str, constants: tuple[int, ...]) -> None:
    op, nodes = SPELLINGS[spelling]
    # Clip takes its bounds as scalars only.
    file = model(nodes, () if "Clip(" in nodes else constants)
    graph = prepare(read_onnx(file))
    assert operators(graph) == [op]
    for scale in (1.0, 30.0):
        expected = run_model(file, {"x": scale * x()})["y"]
        (found,) = GraphRunner(graph).run({"x": scale * x()})
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spelling", OTHERS)
def test_what_computes_something_else_stays(spelling: str) -> None:
    inputs = ", float[2, 6, 5, 3] z" if "(z)" in OTHERS[spelling] else ""
    graph = read_onnx(model(OTHERS[spelling], inputs=inputs))
    found = {*operators(name_activations(graph))}
    assert found.isdisjoint(
        {"Swish", "Gelu", "HardSwish", "Mish", "LeakyRelu", "HardSigmoid"} - {*operators(graph)}
    )


def test_what_is_read_elsewhere_stays() -> None:
    """The sigmoid is an output of the model too."""
    dims = ", ".join(map(str, SHAPE))
    parsed = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 20]> g (float[{dims}] x)'
        f" => (float[{dims}] y, float[{dims}] s) {{ s = Sigmoid(x) y = Mul(x, s) }}"
    )
    graph = prepare(read_onnx(parsed.SerializeToString()))
    assert operators(graph) == ["Sigmoid", "Mul"]


def test_the_part_inside_a_longer_chain_is_found() -> None:
    graph = prepare(read_onnx(model("a = Mul(x, slope) s = Sigmoid(a) m = Mul(a, s) y = Erf(m)")))
    assert operators(graph) == ["Mul", "Swish", "Erf"]


def test_a_bound_far_out_is_no_part_of_it() -> None:
    graph = prepare(read_onnx(model("s = Sigmoid(x) m = Mul(x, s) y = Min(m, far)")))
    assert operators(graph) == ["Swish", "Clip"]


@pytest.mark.parametrize("spelling", ["silu, torch", "quick gelu"])
def test_swish_is_spelled_out_for_opsets_without_it(spelling: str) -> None:
    graph = prepare(read_onnx(model(SPELLINGS[spelling][1])))
    file = onnx_bytes(graph)
    onnx.checker.check_model(onnx.load_from_string(file), full_check=True)
    written = [n.op_type for n in onnx.load_from_string(file).graph.node]
    assert written == (["Mul"] if spelling == "quick gelu" else []) + ["Sigmoid", "Mul"]
    assert operators(prepare(read_onnx(file))) == ["Swish"]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_int8_is_one_vector_operation_with_onnx_runtimes_bits(spelling: str, dtype: str) -> None:
    op, nodes = SPELLINGS[spelling]
    graph = quantize(read_onnx(model(nodes)), {"x": x(-6, 5)}, Recipe(activations=dtype))
    inner = operators(graph)[1:-1]
    assert inner == [op if op in ("PRelu", "Clip") else "Lookup"]
    made = evaluate(graph, {"x": x(-6, 5)})[id(graph.outputs[0])]
    assert np.array_equal(made, run_model(onnx_bytes(graph), {"x": x(-6, 5)})["y"])
