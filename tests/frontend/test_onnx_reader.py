from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.frontend.onnx_reader import read_onnx
from ridgeline.frontend.runtime import run_model
from ridgeline.ir import Graph
from ridgeline.numerics.formats import FP16, INT8


def _model(text: str, opset: int = 17, **arrays: Any) -> bytes:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model.SerializeToString()


def _ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def _agrees(model: bytes, graph: Graph, **inputs: Any) -> None:
    expected = run_model(model, inputs)
    found = GraphRunner(graph).run(inputs)
    for value, array in zip(graph.outputs, found, strict=True):
        np.testing.assert_allclose(array, expected[value.name], rtol=1e-5, atol=1e-6)


def test_shape_arithmetic_folds() -> None:
    model = _model(
        "(float[N, 4, 6] x) => (float[N, 24] y) <int64 zero = {0}, int64[1] rest = {-1}> {"
        " s = Shape(x) n = Gather(s, zero) axes = Constant<value_ints = [0]>() "
        " first = Unsqueeze(n, axes) dims = Concat<axis = 0>(first, rest) y = Reshape(x, dims) }"
    )
    graph = read_onnx(model, batch=3)
    assert _ops(graph) == ["Reshape"]
    assert graph.nodes[0].attrs == {"shape": (3, 24)}
    _agrees(model, graph, x=np.ones((3, 4, 6), np.float32))


def test_zero_and_minus_one_in_a_reshape() -> None:
    model = _model("(float[2, 3, 4] x) => (float[2, 12] y) <int64[2] s={0, -1}> {y = Reshape(x,s)}")
    assert read_onnx(model).nodes[0].attrs["shape"] == (2, 12)


def test_weights_as_constant_nodes_and_as_inputs() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    text = "(float[1, 3] x, float[2] b) => (float[1, 2] y) <float[2] b = {1, 2}>"
    model = _model(text + "{ w = Identity(v) p = MatMul(x, w) y = Add(p, b) }", v=weights)
    graph = read_onnx(model)
    assert [v.name for v in graph.inputs] == ["x"]
    assert graph.nodes[0].input(1).is_constant


def test_an_unsorted_file() -> None:
    text = "(float[2] x) => (float[2] y) { y = Neg(z) z = Relu(x) }"
    assert _ops(read_onnx(_model(text))) == ["Clip", "Neg"]


def test_a_cycle() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
        "{ z = Add(x, y) y = Relu(z) }"
    )
    with pytest.raises(RidgelineError, match="is part of a cycle"):
        read_onnx(model.SerializeToString())


def test_local_functions_are_inlined() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
        " g (float[2] x) => (float[2] y) { y = local.twice(x) }"
        '<domain: "local", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'
    )
    assert _ops(read_onnx(model.SerializeToString())) == ["Add"]


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_weights_that_are_not_finite(value: float, kind: str) -> None:
    weights = np.ones((3, 2), np.float32)
    weights[1, 1] = value
    model = _model("(float[1, 3] x) => (float[1, 2] y) { y = MatMul(x, w) }", w=weights)
    text = rf"node 'y' \(MatMul\): initializer 'w' has 1 {kind} of 6 values. Train or export"
    with pytest.raises(RidgelineError, match=text):
        read_onnx(model)


def test_an_infinite_mask_is_no_weight() -> None:
    mask = np.array([0, -np.inf], np.float32)
    model = _model("(float[2] x) => (float[2] y) { y = Add(x, m) }", m=mask)
    assert _ops(read_onnx(model)) == ["Add"]


def test_an_operator_that_is_not_in_onnx() -> None:
    with pytest.raises(RidgelineError, match=r"node 'y' \(Relo\).*Did you mean 'Relu'"):
        read_onnx(_model("(float[2] x) => (float[2] y) { y = Relo(x) }"))


def test_an_operator_of_an_unknown_domain() -> None:
    node = helper.make_node("Warp", ["x"], ["y"], name="warp1", domain="acme.ai")
    info = [helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme.ai", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with pytest.raises(RidgelineError, match=r"'warp1'.*'Warp' of domain 'acme.ai' is known"):
        read_onnx(model.SerializeToString())


def test_an_operator_that_only_onnx_runtime_knows_stays_on_the_host() -> None:
    node = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.5)
    info = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    read = read_onnx(model)
    assert _ops(read) == ["com.microsoft::QuickGelu"]
    assert read.outputs[0].type.shape == (2, 3)
    _agrees(model, read, x=np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3))


def test_a_shape_that_depends_on_data() -> None:
    with pytest.raises(RidgelineError, match=r"\(NonZero\): the shape of its output 'y' depends"):
        read_onnx(_model("(float[4] x) => (int64[1, K] y) { y = NonZero(x) }"))


def test_inputs_that_do_not_fit_name_the_node_and_the_types() -> None:
    weights = np.ones((4, 2), np.float32)
    model = _model("(float[1, 3] x) => (float[1, 2] y) { y = MatMul(x, w) }", w=weights)
    text = r"node 'y' \(MatMul\): its inputs \(fp32\[1,3\], fp32\[4,2\]\) do not fit: Incompat"
    with pytest.raises(RidgelineError, match=text):
        read_onnx(model)


def test_a_constant_too_large_is_refused_before_it_is_made() -> None:
    text = "(float[1] x) => (float[1] y) <int64[2] s = {200000, 200000}> "
    model = _model(text + "{ big = ConstantOfShape(s) m = ReduceMax(big) y = Add(x, m) }")
    with pytest.raises(RidgelineError, match=r"ConstantOfShape.*above the limit of"):
        read_onnx(model)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21])
def test_old_and_new_opsets(opset: int) -> None:
    generator = np.random.default_rng(0)
    model = _model(
        "(float[N, 3, 8, 8] x) => (float[N, 4, 4] y) {"
        " c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b) "
        " n = BatchNormalization(c, scale, shift, mean, variance) r = Relu(n) "
        " p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(r) "
        " m = ReduceMax<axes=[3], keepdims=0>(p) y = Softmax<axis=2>(m) }"
        if opset < 18
        else "(float[N, 3, 8, 8] x) => (float[N, 4, 4] y) <int64[1] axes = {3}> {"
        " c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b) "
        " n = BatchNormalization(c, scale, shift, mean, variance) r = Relu(n) "
        " p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(r) "
        " m = ReduceMax<keepdims=0>(p, axes) y = Softmax<axis=2>(m) }",
        opset,
        w=generator.standard_normal((4, 3, 3, 3)).astype(np.float32),
        b=generator.standard_normal(4).astype(np.float32),
        scale=np.ones(4, np.float32),
        shift=np.zeros(4, np.float32),
        mean=generator.standard_normal(4).astype(np.float32),
        variance=np.full(4, 2, np.float32),
    )
    graph = read_onnx(model, batch=2)
    assert graph.opset == 21
    x = generator.standard_normal((2, 3, 8, 8)).astype(np.float32)
    _agrees(model, graph, x=x)


def test_absent_outputs_keep_their_place() -> None:
    generator = np.random.default_rng(0)
    model = _model(
        "(float[3, 1, 2] x) => (float[1, 1, 4] h) { , h = RNN<hidden_size=4>(x, w, r) }",
        w=generator.standard_normal((1, 4, 2)).astype(np.float32),
        r=generator.standard_normal((1, 4, 4)).astype(np.float32),
    )
    parsed = onnx.load_from_string(model)
    if len(parsed.graph.node[0].output) == 1:
        parsed.graph.node[0].output[:] = ["", "h"]
    graph = read_onnx(parsed.SerializeToString())
    x = generator.standard_normal((3, 1, 2)).astype(np.float32)
    _agrees(parsed.SerializeToString(), graph, x=x)


def test_half_precision_stays_half() -> None:
    weights = np.ones((3, 2), np.float16)
    graph = read_onnx(
        _model("(float16[1, 3] x) => (float16[1, 2] y) {y = MatMul(x, w)}", w=weights)
    )
    assert graph.outputs[0].type.dtype is FP16
    assert graph.nodes[0].input(1).type.dtype is FP16


def test_quantisation_moves_into_the_types() -> None:
    model = _model(
        "(int8[1, 2, 3] x) => (float[1, 6] y) <float s = {0.5}, int8 z = {-3}, int64[2] d = {1, 6}>"
        "{ t = Transpose<perm=[0, 2, 1]>(x) r = Reshape(t, d) y = DequantizeLinear(r, s, z) }"
    )
    graph = read_onnx(model)
    assert _ops(graph) == ["Transpose", "Reshape", "DequantizeLinear"]
    for value in (graph.inputs[0], *(n.input(0) for n in graph.nodes)):
        assert value.type.dtype is INT8
        assert str(value.type.quant) == "quant(0.5, -3)"


def test_bits_read_with_other_parameters_than_they_were_made_with() -> None:
    model = _model(
        "(float[4] x) => (float[4] y) <float s = {0.5}, float t = {0.25}, uint8 z = {3}>"
        "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z) }"
    )
    graph = read_onnx(model)
    assert _ops(graph) == ["QuantizeLinear", "Identity", "DequantizeLinear"]
    _agrees(model, graph, x=np.linspace(-1, 1, 4, dtype=np.float32))


def test_a_scale_that_the_model_computes_leaves_the_node_to_the_host() -> None:
    model = _model(
        "(float[4] x, float s) => (float[4] y) { q = QuantizeLinear(x, s) "
        " y = DequantizeLinear(q, s) }"
    )
    graph = read_onnx(model)
    assert _ops(graph) == ["ai.onnx::QuantizeLinear", "ai.onnx::DequantizeLinear"]
    _agrees(model, graph, x=np.linspace(0, 3, 4, dtype=np.float32), s=np.asarray(0.3, np.float32))


def test_a_shape_that_the_file_declares() -> None:
    model = _model("(float[6] x, int64[2] s) => (float[2, 3] y) { z = Reshape(x, s) y = Neg(z) }")
    with pytest.raises(RidgelineError, match="the shape of its output 'z' depends on data"):
        read_onnx(model)
    parsed = onnx.load_from_string(model)
    parsed.graph.value_info.append(helper.make_tensor_value_info("z", 1, [2, 3]))
    assert read_onnx(parsed.SerializeToString()).outputs[0].type.shape == (2, 3)


@pytest.mark.parametrize("scale", ["0", "-1"])
def test_a_scale_that_is_not_positive(scale: str) -> None:
    model = _model(
        f"(float[4] x) => (uint8[4] y) <float s = {{{scale}}}> {{ y = QuantizeLinear(x, s) }}"
    )
    with pytest.raises(RidgelineError, match=re.escape("which is not positive and finite")):
        read_onnx(model)


def test_an_output_that_no_node_makes() -> None:
    model = onnx.load_from_string(_model("(float[4] x) => (float[4] y) { y = Relu(x) }"))
    model.graph.output[0].name = "z"
    with pytest.raises(RidgelineError, match="output 'z' is made by no node"):
        read_onnx(model.SerializeToString())
