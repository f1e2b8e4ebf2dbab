"""Every opset from 7 to the newest that ONNX knows: read, quantised, compiled and executed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import defs, numpy_helper

from ridgeline import api
from ridgeline.frontend.onnx_infer import GRAPH_OPSET
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.ir import Graph

NEWEST = defs.onnx_opset_version()
IMAGES = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)


def _text(opset: int) -> str:
    """One network as its operators were spelled in an opset."""
    swish = "h = Swish(n)" if opset >= 24 else "sg = Sigmoid(n) h = Mul(n, sg)"
    if opset >= 11:
        pad = "i = Pad(h, pads)"
        clip = "k = Clip(j, low, high)"
    else:
        pad = "i = Pad<pads = [0, 0, 1, 0, 0, 0, 0, 1]>(h)"
        clip = "k = Clip<min = -1.5, max = 1.0>(j)"
    cut = "s = Slice(k, starts, ends, along)"
    if opset < 10:
        cut = "s = Slice<starts = [0, 1], ends = [9, 9], axes = [2, 3]>(k)"
    mean = "m = ReduceMean<keepdims = 0>(t, along)"
    if opset < 18:
        mean = "m = ReduceMean<axes = [2, 3], keepdims = 0>(t)"
    wide = "u = Unsqueeze(m, along) v = Squeeze(u, along)"
    if opset < 13:
        wide = "u = Unsqueeze<axes = [2, 3]>(m) v = Squeeze<axes = [2, 3]>(u)"
    return f"""{{
        c = Conv<pads = [1, 1, 1, 1]>(x, w1) n = BatchNormalization(c, one, zero, zero, one)
        {swish} {pad} p = MaxPool<kernel_shape = [2, 2]>(i)
        d = Conv<pads = [1, 1, 1, 1]>(p, w2) f = Add(d, p) j = Tanh(f) {clip} {cut}
        e = Elu(s) q = Concat<axis = 1>(e, s) t = LeakyRelu<alpha = 0.1>(q)
        {mean} {wide} y = Gemm(v, dense, bias)
    }}"""


def _model(opset: int) -> bytes:
    signature = "(float[N, 3, 8, 8] x) => (float[N, 5] y)"
    version = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    model = onnx.parser.parse_model(f"{version} g {signature} {_text(opset)}")
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "w2": rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32),
        "dense": rng.normal(0, 0.3, (16, 5)).astype(np.float32),
        "bias": rng.normal(0, 0.3, 5).astype(np.float32),
        "one": np.ones(8, np.float32),
        "zero": np.zeros(8, np.float32),
        "low": np.float32(-1.5),
        "high": np.float32(1),
        "pads": np.array([0, 0, 1, 0, 0, 0, 0, 1]),
        "starts": np.array([0, 1]),
        "ends": np.array([9, 9]),
        "along": np.array([2, 3]),
    }
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n in used
    )
    return model.SerializeToString()


@cache
def _executed(model: bytes) -> tuple[Graph, Any, Any]:
    """(the quantised graph, the program, its outputs)."""
    graph = api.quantize(api.read_onnx(model, batch=len(IMAGES)), {"x": IMAGES})
    return graph, *_ran(onnx_bytes(graph))


@cache
def _ran(quantised: bytes) -> tuple[Any, Any]:
    """Opsets of which the same file comes are compiled once."""
    program = api.compile(api.read_onnx(quantised), api.load_machine("tiny-16"))
    return program, api.execute(program, {"x": IMAGES})["y"]


def test_the_network_computes_what_onnx_runtime_computes_in_float() -> None:
    session = onnxruntime.InferenceSession(_model(17), providers=["CPUExecutionProvider"])
    (real,) = session.run(None, {"x": IMAGES})
    noise = np.square(real - _executed(_model(17))[2]).mean() / np.square(real).mean()
    assert noise < 0.01  # 20 dB


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_every_opset_gives_the_same_program(opset: int) -> None:
    graph, program, made = _executed(_model(opset))
    known, program_known, made_known = _executed(_model(17))
    assert made.tobytes() == made_known.tobytes()
    assert [n.op for n in graph.nodes] == [n.op for n in known.nodes]
    assert sum(n.op == "Lookup" for n in graph.nodes) >= 3
    places = [[layer.placed for layer in p.layers] for p in (program, program_known)]
    assert places[0] == places[1]
    assert places[0].count("host") == 2  # QuantizeLinear and DequantizeLinear


NEWER = {
    # What only newer opsets have keeps the graph's opset low, and costs others nothing.
    "Swish": ("y = Swish(t)", 24),
    "RMSNormalization": ("y = RMSNormalization(t, s)", 23),
    "a body": (
        """z = ReduceMean<keepdims = 0>(t) b = Greater(z, h)
        y = If(b) <then_branch = yes () => (float[1, 8, 8, 8] r) { r = Neg(t) },
                   else_branch = no () => (float[1, 8, 8, 8] r2) { r2 = Abs(t) }>""",
        GRAPH_OPSET,
    ),
    "an attribute": ("y = SpaceToDepth<blocksize = 2>(t)", GRAPH_OPSET),
    "a new attribute": ('y = SpaceToDepth<blocksize = 2, mode = "CRD">(t)', 28),
}


@pytest.mark.parametrize(
    ("name", "opset"),
    [(n, o) for n, (_, since) in NEWER.items() for o in (24, NEWEST) if o >= since],
)
def test_an_operator_of_a_newer_opset_leaves_others_their_tables(name: str, opset: int) -> None:
    ending, needed = NEWER[name]
    text = (
        f"{{ c = Conv<pads = [1, 1, 1, 1]>(x, w) k = Celu(c) d = Conv(k, v) t = Mish(d) {ending} }}"
    )
    version = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    model = onnx.parser.parse_model(f"{version} g (float[1, 3, 8, 8] x) => (float[] y) {text}")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(0, 0.3, (8, 3, 3, 3)),
        "v": rng.normal(0, 0.3, (8, 8, 1, 1)),
        "s": np.ones(8),
        "h": np.asarray(0.5),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()
    )
    graph = api.read_onnx(model.SerializeToString())
    assert graph.opset == needed
    quantised = api.quantize(graph, {"x": IMAGES})
    assert sum(n.op == "Lookup" for n in quantised.nodes) >= 1
    program = api.compile(quantised, api.load_machine("tiny-16"))
    (made,) = api.execute(program, {"x": IMAGES[:1]}).values()
    assert np.isfinite(made).all()
