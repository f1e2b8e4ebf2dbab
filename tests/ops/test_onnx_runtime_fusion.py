"""Which QDQ groups ONNX Runtime computes in integers, which in float: see docs/numerics.md."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from numeric_cases import SINGLES, binary, convolution, matrix_product, pool, single
from single_node import (
    EXACT,
    activation,
    constant,
    meaning,
    node_of,
    qdq_model,
    run_onnx_runtime,
    session,
    stored_inputs,
)

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="ONNX Runtime's x86 graph"
)


def inner_operators(node, config=EXACT):
    """The optimised graph's operators but for the quantisation at its borders."""
    _, operators = session(qdq_model(node), config)
    borders = ("QuantizeLinear", "DequantizeLinear", "Transpose")
    return [o for o in operators if o not in borders]


def build(name, dtype):
    if name == "Conv":
        return convolution("plain", dtype, "s8", 1)
    if name in ("dense", "product", "attention"):
        return matrix_product(name, dtype, "s8", 0)
    if name in ("Add", "Mul"):
        return binary(name, "same", (dtype,) * 3, 1)
    if name.endswith("Pool"):
        attrs = {"count_include_pad": 0} if name == "AveragePool" else {}
        return pool(name, "plane", dtype, 1, **attrs)
    op, attrs = SINGLES[name]
    return single(op, dtype, 1, **attrs)


FUSED = {
    "Conv": "QLinearConv",
    "product": "QLinearMatMul",
    "attention": "QLinearMatMul",
    "dense": "QGemm",
    "Add": "QLinearAdd",
    "Mul": "QLinearMul",
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
    "concat": "QLinearConcat",
    "softmax": "QLinearSoftmax",
    # Not fused: float between DQ and Q.
    "MaxPool": "MaxPool",
    "relu": "Relu",
    "relu6": "Clip",
    "reshape": "Reshape",
}
INT16 = {
    "Conv": "Conv",
    "attention": "MatMul",
    "product": "MatMulNBits",
    "dense": "MatMulNBits",
    "Add": "Add",
    "Mul": "Mul",
    "AveragePool": "AveragePool",
    "GlobalAveragePool": "GlobalAveragePool",
    "concat": "Concat",
    "softmax": "Softmax",
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", FUSED)
def test_eight_bits(name, dtype):
    assert inner_operators(build(name, dtype)) == [FUSED[name]]


@pytest.mark.parametrize("name", INT16)
def test_int16_stays_float(name):
    assert inner_operators(build(name, "int16")) == [INT16[name]]


@pytest.mark.parametrize(("op", "attrs"), [
    ("MaxPool", {"kernel_shape": [2, 2]}),
    ("Reshape", {"shape": (2, 256)}),
    ("Transpose", {"perm": [0, 2, 3, 1]}),
])  # fmt: skip
def test_movement_between_equal_quantisations_takes_stored_integers(op, attrs):
    node = node_of(op, [activation("x", (2, 4, 8, 8), "uint8", 0.1, 7)], ("uint8", 0.1, 7), attrs)
    _, operators = session(qdq_model(node))
    assert operators == ["QuantizeLinear", op, "DequantizeLinear"]


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_an_int8_constant_operand_of_small_values_keeps_the_node_in_float(op):
    rng = np.random.default_rng(0)
    data = rng.integers(-60, 60, (4, 1, 1)).astype(np.int8)
    inputs = [activation("x", (2, 4, 8, 8), "int8", 0.05, 3), constant("c", data, 0.1, 7)]
    node = node_of(op, inputs, ("int8", 0.2, 5))
    assert inner_operators(node) == [op]
    stored = stored_inputs(node)
    theirs, _ = run_onnx_runtime(node, stored)
    difference = meaning(node, stored).astype(int) - theirs
    assert np.abs(difference).max() <= 1


def test_int16_times_constant_weights_loses_the_activations_low_bits_by_default():
    """MatMulNBits quantises int16 activations to 8 bits unless its accuracy level is lowered."""
    rng = np.random.default_rng(0)
    weights = constant("w", rng.integers(-128, 128, (512, 16)).astype(np.int8), 0.01)
    x = activation("x", (20, 512), "int16", 0.001)
    node = node_of("MatMul", [x, weights], ("int16", 0.02, 0))
    stored = stored_inputs(node)
    ours = meaning(node, stored).astype(int)
    default, _ = run_onnx_runtime(node, stored, {})
    level_0, _ = run_onnx_runtime(node, stored, {"session.qdq_matmulnbits_accuracy_level": "0"})
    assert np.abs(ours - default).max() > 20
    assert np.abs(ours - level_0).max() <= 1


def test_int8_saturation_without_the_precision_setting_is_the_only_difference():
    """On AVX2 without VNNI the default u8×s8 kernel saturates; reduced-range weights cannot."""
    rng = np.random.default_rng(0)
    for low, high, config in ((-64, 64, {}), (-128, 128, EXACT)):
        weights = constant("w", rng.integers(low, high, (256, 16)).astype(np.int8), 0.01)
        x = activation("x", (20, 256), "uint8", 0.05, 100)
        node = node_of("MatMul", [x, weights], ("uint8", 1.0, 128))
        stored = stored_inputs(node)
        theirs, _ = run_onnx_runtime(node, stored, config)
        np.testing.assert_array_equal(meaning(node, stored), theirs)
