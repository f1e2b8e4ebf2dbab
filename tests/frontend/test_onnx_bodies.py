from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Value
from ridgeline.passes.pipeline import prepare

IF = (
    "(bool c, float[2, 3] x) => (float[2] y) <float[3] w = {1, 2, 3}> {"
    " z = Mul(x, w) y = If(c) <"
    "then_branch = a () => (float[2] p) { p = ReduceSum<axes = [1], keepdims = 0>(z) },"
    "else_branch = b () => (float[2] q) { n = Neg(z) q = ReduceMax<axes=[1],keepdims=0>(n) }> }"
)
LOOP = (
    "(float[2] x, float[2] s) => (float[2] y, float[4, 2] steps) <int64 n = {4}> {"
    " t = Constant<value = bool {1}>() y, steps = Loop(n, t, x) <"
    "body = b (int64 i, bool g, float[2] v) => (bool h, float[2] u, float[2] out)"
    " { h = Identity(g) u = Add(v, s) out = Neg(u) }> }"
)
SCAN = (
    "(float[2] x, float[5, 2] rows) => (float[2] y, float[5, 2] sums) {"
    " y, sums = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] r) =>"
    " (float[2] c, float[2] d) { c = Add(a, r) d = Identity(c) }>(x, rows) }"
)
NESTED = (
    "(bool c, float[2] x) => (float[2] y) { z = Exp(x) y = If(c) <"
    "then_branch = a () => (float[2] p) { p = If(c) <"
    "then_branch = d () => (float[2] r) { r = Neg(z) },"
    "else_branch = e () => (float[2] s) { s = Identity(z) }> },"
    "else_branch = b () => (float[2] q) { q = Add(z, x) }> }"
)


def _model(text: str, opset: int = 17) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    return model.SerializeToString()


def _inputs(graph: Any, condition: bool) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {
        v.name: generator.standard_normal(v.type.shape).astype(np.float32)
        if v.type.shape
        else np.asarray(condition)
        for v in graph.inputs
    }


@pytest.mark.parametrize(("text", "opset"), [(IF, 11), (LOOP, 17), (SCAN, 17), (NESTED, 13)])
@pytest.mark.parametrize("condition", [True, False])
def test_control_flow_stays_whole_on_the_host(text: str, opset: int, condition: bool) -> None:
    model = _model(text, opset)
    graph = prepare(read_onnx(model))
    inputs = _inputs(graph, condition)
    expected = run_model(model, inputs)
    for value, found in zip(graph.outputs, GraphRunner(graph).run(inputs), strict=True):
        np.testing.assert_allclose(found, expected[value.name], rtol=1e-6)


def test_captured_values_are_inputs() -> None:
    node = read_onnx(_model(IF, 11)).nodes[-1]
    assert [v.name for v in node.inputs if v] == ["c", "z"]
    assert str(node.attrs["then_branch"]).startswith("graph(")


def test_a_captured_value_may_be_renamed() -> None:
    graph = read_onnx(_model(IF, 11))
    product, branch = graph.nodes
    renamed = Value("elsewhere", product.output.type)
    nodes = (
        replace(product, outputs=(renamed,)),
        replace(branch, inputs=(branch.input(0), renamed)),
    )
    changed = replace(graph, nodes=nodes)
    inputs = _inputs(graph, True)
    for a, b in zip(GraphRunner(graph).run(inputs), GraphRunner(changed).run(inputs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("condition", [0, 1])
def test_a_known_condition_reads_its_branch(condition: int) -> None:
    constant = f"{{ k = Constant<value = bool {{{condition}}}>() "
    text = IF.replace("bool c, ", "").replace("{ z", constant + "z", 1).replace("If(c)", "If(k)")
    model = _model(text.replace(" {{", " {"), 11)
    graph = prepare(read_onnx(model))
    # A sum is the mean of a window times its size.
    ops = {n.op for n in graph.nodes}
    assert ("GlobalAveragePool" in ops, "MaxPool" in ops) == (bool(condition), not condition)
    inputs = _inputs(graph, True)
    found = GraphRunner(graph).run(inputs)[0]
    np.testing.assert_allclose(found, run_model(model, inputs)["y"], rtol=1e-6)


def test_branches_of_different_shapes_are_refused() -> None:
    text = (
        "(bool c, float[2] x) => (float[N] y) { y = If(c) <"
        "then_branch = a () => (float[2] p) { p = Neg(x) },"
        "else_branch = b () => (float[4] q) { q = Concat<axis = 0>(x, x) }> }"
    )
    with pytest.raises(RidgelineError, match=r"\(If\): the shape of its output 'y' depends on"):
        read_onnx(_model(text))


def test_sequences_are_refused() -> None:
    text = (
        "(float[4] x) => (float[8] y) {"
        " s = SequenceConstruct(x, x) y = ConcatFromSequence<axis=0>(s) }"
    )
    with pytest.raises(RidgelineError, match=r"\(SequenceConstruct\).*without sequences"):
        read_onnx(_model(text))
