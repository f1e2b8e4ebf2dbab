"""Every primitive's integer meaning against ONNX Runtime, live, with no difference allowed."""

from __future__ import annotations

import platform
from itertools import product

import numpy as np
import pytest

from numeric_cases import (
    BROADCASTS,
    CONVOLUTIONS,
    FORMATS_8,
    POOLS,
    SINGLES,
    WINDOWS,
    binary,
    convolution,
    matrix_product,
    pool,
    single,
)
from single_node import (
    activation,
    constant,
    differences,
    meaning,
    node_of,
    run_onnx_runtime,
)

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="ONNX Runtime's x86 bits"
)

WEIGHTS = ("s8", "u8", "s8-channels")
SEEDS = range(6)


def assert_equal(node, fused):
    difference, operators = differences(node, seed=5)
    assert fused in operators, operators
    assert not difference.any(), f"{np.count_nonzero(difference)} of {difference.size} differ"


@pytest.mark.parametrize(("dtype", "weights"), list(product(FORMATS_8, WEIGHTS)))
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name, dtype, weights):
    for seed in SEEDS:
        assert_equal(convolution(name, dtype, weights, seed), "QLinearConv")


@pytest.mark.parametrize(("dtype", "weights"), list(product(FORMATS_8, WEIGHTS)))
@pytest.mark.parametrize("name", ["dense", "product", "batched", "attention"])
def test_matrix_product(name, dtype, weights):
    fused = "QGemm" if name == "dense" else "QLinearMatMul"
    for seed in SEEDS:
        assert_equal(matrix_product(name, dtype, weights, seed), fused)


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("formats", list(product(FORMATS_8, repeat=3)))
def test_binary_formats(op, formats):
    for seed in range(12):
        node = binary(op, "same", formats, seed)
        if len(set(formats)) == 1:
            assert_equal(node, f"QLinear{op}")
        else:
            assert_mixed(node, f"QLinear{op}")


def assert_mixed(node, fused):
    """uint8 and int8 in one node: ONNX Runtime adds 128 to the int8 ones, zero point too.

    The zero point lies inside the rounding, so that a tie may then round the other way.
    """
    difference, operators = differences(node, seed=5)
    assert fused in operators, operators
    assert np.abs(difference).max(initial=0) <= 1
    assert np.count_nonzero(difference) <= 0.05 * difference.size


@pytest.mark.parametrize(("op", "dtype"), list(product(["Add", "Mul"], FORMATS_8)))
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_binary_broadcast(shapes, op, dtype):
    for seed in range(12):
        assert_equal(binary(op, shapes, (dtype, dtype, dtype), seed), f"QLinear{op}")


# Scales and zero points for which thousands of the 65,536 pairs change with the order of the
# operands, or with a multiplication and an addition in place of a fused multiply-add.
SENSITIVE = [
    ((0.2, 0.05, 0.3), (33, 117, 32)),
    ((0.35, 0.2, 0.3), (118, 156, 73)),
    ((0.05, 0.9, 0.3), (235, 126, 74)),
    ((0.6, 0.15, 0.9), (181, 146, 59)),
    ((0.025, 0.05, 0.15), (248, 7, 171)),
    ((0.2, 0.9, 0.6), (67, 95, 212)),
]
EVERY = np.arange(256)
PAIRS = {
    "same": (np.repeat(EVERY, 256).reshape(256, 256), np.tile(EVERY, (256, 1))),
    "first repeated": (EVERY.reshape(256, 1), EVERY.reshape(1, 256)),
    "second repeated": (EVERY.reshape(1, 256), EVERY.reshape(256, 1)),
}


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("dtype", FORMATS_8)
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_every_pair_of_stored_integers(op, dtype, pairs):
    low = 0 if dtype == "uint8" else -128
    stored = [(a + low).astype(dtype) for a in PAIRS[pairs]]
    for scales, zeros in SENSITIVE:
        inputs = [
            activation(f"x{i}", stored[i].shape, dtype, scales[i], zeros[i] + low) for i in (0, 1)
        ]
        node = node_of(op, inputs, (dtype, scales[2], zeros[2] + low))
        theirs, operators = run_onnx_runtime(node, stored)
        assert f"QLinear{op}" in operators
        np.testing.assert_array_equal(meaning(node, stored), theirs)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_binary_with_a_uint8_constant(op):
    rng = np.random.default_rng(2)
    for dtype in FORMATS_8:
        data = rng.integers(0, 256, (4, 1, 1)).astype(np.uint8)
        inputs = [activation("x", (2, 4, 8, 8), dtype, 0.05, 3), constant("c", data, 0.1, 77)]
        check = assert_equal if dtype == "uint8" else assert_mixed
        check(node_of(op, inputs, (dtype, 0.2, 5)), f"QLinear{op}")


@pytest.mark.parametrize(("window", "dtype"), list(product(WINDOWS, FORMATS_8)))
@pytest.mark.parametrize("name", POOLS)
def test_pooling(name, window, dtype):
    op, attrs = POOLS[name]
    fused = op if op == "MaxPool" else f"QLinear{op}"
    for seed in SEEDS:
        assert_equal(pool(op, window, dtype, seed, **attrs), fused)


@pytest.mark.parametrize("dtype", FORMATS_8)
def test_average_of_the_whole_image_on_ties(dtype):
    """Its integer sums and a window's float32 sums part company where averages are ties."""
    for source, target in ((0.3, 0.2), (0.15, 0.2), (0.05, 0.1), (0.025, 0.05)):
        for pads in ([0, 0, 0, 0], [0, 0, 1, 0]):
            x = activation("x", (4, 64, 3, 3), dtype, source, 7)
            attrs = {"kernel_shape": [3, 3], "pads": pads, "count_include_pad": 1}
            node = node_of("AveragePool", [x], (dtype, target, 20), attrs)
            assert_equal(node, "QLinearAveragePool")


@pytest.mark.parametrize("dtype", FORMATS_8)
@pytest.mark.parametrize("name", SINGLES)
def test_one_tensor(name, dtype):
    op, attrs = SINGLES[name]
    for seed in SEEDS:
        difference, _ = differences(single(op, dtype, seed, **attrs), seed=5)
        assert not difference.any()


@pytest.mark.parametrize("dtype", FORMATS_8)
@pytest.mark.parametrize("shapes", BROADCASTS)
@pytest.mark.parametrize("op", ["Sub", "Max", "Min"])
def test_binary_on_real_numbers(op, shapes, dtype):
    """ONNX Runtime has no integer kernel: float32 between DequantizeLinear and QuantizeLinear."""
    for seed in SEEDS:
        assert_equal(binary(op, shapes, (dtype,) * 3, seed), op)


def clippable(name, dtype, seed):
    """A node to which a Relu or Clip is then added."""
    if name == "Conv":
        return convolution("plain", dtype, "s8-channels", seed)
    if name == "Gemm":
        return matrix_product("dense", dtype, "s8", seed)
    return binary("Add", "same", (dtype, dtype, dtype), seed)


@pytest.mark.parametrize("dtype", FORMATS_8)
@pytest.mark.parametrize("name", ["Conv", "Gemm", "Add"])
def test_redundant_relu_is_exact(name, dtype):
    """A Relu whose zero is the lowest stored integer is dropped by ONNX Runtime."""
    lowest = 0 if dtype == "uint8" else -128
    for seed in SEEDS:
        node = clippable(name, dtype, seed)
        scale = float(node.output.type.quant.scale)
        attrs = dict(node.attrs) | {"clip": (0.0, None)}
        clipped = node_of(node.op, node.inputs, (dtype, scale, lowest), attrs)
        fused = {"Conv": "QLinearConv", "Gemm": "QGemm", "Add": "QLinearAdd"}[name]
        assert_equal(clipped, fused)


@pytest.mark.parametrize("dtype", FORMATS_8)
@pytest.mark.parametrize("clip", [(0.0, None), (0.0, 6.0), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["Conv", "Gemm", "Add"])
def test_other_clip_is_float_in_onnx_runtime_and_differs_by_at_most_a_step(name, clip, dtype):
    total = different = 0
    for seed in range(12):
        node = clippable(name, dtype, seed)
        attrs = dict(node.attrs) | {"clip": clip}
        output = (dtype, max(0.1, float(node.output.type.quant.scale)), 20)
        difference, operators = differences(node_of(node.op, node.inputs, output, attrs), seed)
        assert not any(o.startswith("Q") and o != "QuantizeLinear" for o in operators)
        assert np.abs(difference).max() <= 1
        different += np.count_nonzero(difference)
        total += difference.size
    assert different <= 0.04 * total


INT16_EXACT = ["Add", "Mul", *(n for n in SINGLES if not n.startswith("softmax"))]


@pytest.mark.parametrize("name", INT16_EXACT)
def test_int16_is_exact_where_onnx_runtime_computes_in_float(name):
    for seed in SEEDS:
        if name in ("Add", "Mul"):
            node = binary(name, "channel", ("int16",) * 3, seed)
        else:
            op, attrs = SINGLES[name]
            node = single(op, "int16", seed, **attrs)
        difference, _ = differences(node, seed)
        assert not difference.any()


@pytest.mark.parametrize("name", ["plain", "depthwise", "grouped", "line", "attention", "pools"])
def test_int16_differs_by_at_most_a_step_from_floats(name):
    """Measured share of outputs that differ: below 0.6 % for each kind (docs/numerics.md)."""
    total = different = 0
    for seed in range(12):
        if name == "attention":
            node = matrix_product("attention", "int16", "s8", seed)
        elif name == "pools":
            node = pool("GlobalAveragePool", "whole", "int16", seed)
        else:
            node = convolution(name, "int16", WEIGHTS[seed % 3], seed)
        difference, _ = differences(node, seed)
        assert np.abs(difference).max() <= 1
        different += np.count_nonzero(difference)
        total += difference.size
    assert different <= 0.006 * total, f"{different} of {total}"
