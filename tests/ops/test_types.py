"""Shape rules and their messages, costs and templates."""

from __future__ import annotations

import re

import pytest

from numeric_cases import binary, convolution, matrix_product, pool, single
from ridgeline.errors import RidgelineError
from ridgeline.ir import TensorType
from ridgeline.numerics.formats import FP32
from ridgeline.ops import PRIMITIVES, Cost
from ridgeline.ops.stored import scalars_of
from single_node import activation, node_of

CONV = {"kernel_shape": [3, 3], "strides": [2, 1], "dilations": [1, 1], "pads": [1, 0, 1, 0]}


def infer(op, *shapes, **attrs):
    types = tuple(None if s is None else TensorType(s, FP32) for s in shapes)
    return PRIMITIVES[op].infer(types, attrs)[0].shape


@pytest.mark.parametrize(("op", "shapes", "attrs", "expected"), [
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3), (6,)], CONV, (2, 6, 5, 6)),
    ("Conv", [(2, 4, 9), (6, 2, 3)], {"kernel_shape": [3], "group": 2}, (2, 6, 7)),
    ("MatMul", [(2, 1, 5, 8), (3, 8, 6), None], {}, (2, 3, 5, 6)),
    ("Add", [(4, 1, 1), (2, 4, 8, 8)], {}, (2, 4, 8, 8)),
    ("Clip", [(3,)], {"min": 0.0, "max": None}, (3,)),
    ("MaxPool", [(1, 2, 9, 9)], CONV | {"dilations": [2, 2]}, (1, 2, 4, 5)),
    ("AveragePool", [(1, 2, 9)], {"kernel_shape": [3], "strides": [3]}, (1, 2, 3)),
    ("GlobalAveragePool", [(2, 5, 7, 7)], {}, (2, 5, 1, 1)),
    ("Reshape", [(2, 6)], {"shape": (3, 4)}, (3, 4)),
    ("Transpose", [(2, 3, 4)], {"perm": [2, 0, 1]}, (4, 2, 3)),
    ("Concat", [(2, 3), (2, 5), (2, 1)], {"axis": 1}, (2, 9)),
    ("Softmax", [(2, 3)], {"axis": 1}, (2, 3)),
    ("QuantizeLinear", [(2, 3)], {}, (2, 3)),
    ("DequantizeLinear", [(2, 3)], {}, (2, 3)),
])  # fmt: skip
def test_shapes(op, shapes, attrs, expected):
    assert infer(op, *shapes, **attrs) == expected


@pytest.mark.parametrize(("op", "shapes", "attrs", "message"), [
    ("Conv", [(2, 4, 9, 8)], CONV, "Conv lacks input 1"),
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3)], {}, "Conv lacks the attribute kernel_shape"),
    ("Conv", [(2, 4, 9), (6, 4, 3, 3)], CONV,
     "Conv has an input of shape (2, 4, 9) and weights (6, 4, 3, 3)"),
    ("Conv", [(2, 4, 9, 8), (6, 4, 5, 3)], CONV,
     "Conv has kernel_shape (3, 3) but weights (6, 4, 5, 3)"),
    ("Conv", [(2, 4, 9, 8), (6, 3, 3, 3)], CONV,
     "Conv has 4 input channels, group 1 and weights (6, 3, 3, 3)"),
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3), (4,)], CONV, "Conv has a bias of shape (4,), not (6,)"),
    ("Conv", [(2, 4, 2, 2), (6, 4, 3, 3)], {"kernel_shape": [3, 3]},
     "Conv has a window of 3 in dimension 0, larger than the padded input of 2"),
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3)], CONV | {"strides": [0, 1]},
     "Conv has strides [0, 1] with an entry below 1"),
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3)], CONV | {"pads": [1, 1]},
     "Conv has pads [1, 1] with 2 entries, not 4"),
    ("MatMul", [(2, 3), (4, 5)], {}, "MatMul cannot multiply (2, 3) by (4, 5)"),
    ("MatMul", [(2, 3, 4), (3, 4, 5)], {}, "MatMul cannot broadcast (2, 3, 4) with (3, 4, 5)"),
    ("MatMul", [(3, 4), (4, 5), (4,)], {}, "MatMul has a bias of shape (4,), not (5,)"),
    ("Mul", [(3,), (4,)], {}, "Mul cannot broadcast (3,) with (4,)"),
    ("Clip", [(3,)], {"min": 2.0, "max": 1.0}, "Clip has min 2.0 above max 1.0"),
    ("MaxPool", [(3, 4)], {"kernel_shape": [2]},
     "MaxPool has an input of shape (3, 4), without spatial dimensions"),
    ("MaxPool", [(3, 4, 5)], {"kernel_shape": [2, 2]},
     "MaxPool has a kernel of 2 dimensions [2, 2] for an input with 1 spatial dimensions [5]"),
    ("GlobalAveragePool", [(3, 4)], {}, "GlobalAveragePool has nothing to average in shape (3, 4)"),
    ("Reshape", [(2, 6)], {"shape": (5, 2)}, "Reshape cannot turn (2, 6) into (5, 2)"),
    ("Transpose", [(2, 6)], {"perm": [0, 0]}, "Transpose has perm (0, 0) for an input of shape"),
    ("Concat", [(2, 6), (3, 6)], {"axis": 1},
     "Concat along axis 1 has inputs that do not fit: (2, 6), (3, 6)"),
    ("Concat", [(2, 6)], {"axis": 2}, "Concat has axis 2 for inputs of shape (2, 6)"),
    ("Softmax", [(2, 6)], {"axis": 2}, "Softmax has axis 2 for an input of shape (2, 6)"),
])  # fmt: skip
def test_messages(op, shapes, attrs, message):
    with pytest.raises(RidgelineError, match=re.escape(message)):
        infer(op, *shapes, **attrs)


def test_every_primitive_is_listed_by_its_own_name():
    assert all(name == primitive.op for name, primitive in PRIMITIVES.items())


def cost(node):
    return PRIMITIVES[node.op].cost(node)


def test_cost_of_convolution_counts_padding():
    node = convolution("plain", "uint8", "s8-channels", 1)
    outputs, reduction = 8 * 8 * 8, 3 * 3 * 3
    assert cost(node) == Cost(
        macs=outputs * reduction,
        vector_operations=outputs,
        weight_bytes=8 * reduction + 8 * 4,
        input_bytes=3 * 8 * 8,
        output_bytes=outputs,
    )


def test_cost_of_depthwise_convolution():
    node = convolution("depthwise", "int8", "s8", 0)
    assert cost(node).macs == 2 * 6 * 9 * 8 * 9


def test_cost_of_matrix_products():
    assert cost(matrix_product("batched", "int16", "s8", 0)) == Cost(
        2 * 3 * 5 * 7 * 40, 2 * 3 * 5 * 7, 40 * 7, 2 * 3 * 5 * 40 * 2, 2 * 3 * 5 * 7 * 2
    )
    attention = cost(matrix_product("attention", "uint8", "s8", 0))
    assert attention == Cost(2 * 5 * 6 * 40, 2 * 5 * 6, 0, 2 * 40 * (5 + 6), 2 * 5 * 6)


def test_cost_counts_one_value_used_twice_once():
    x = activation("x", (2, 8), "uint8", 0.1)
    assert cost(node_of("Add", [x, x], ("uint8", 0.2, 0))) == Cost(0, 16, 0, 16, 16)


def test_cost_of_pools():
    assert cost(pool("MaxPool", "line", "uint8", 0)).vector_operations == 2 * 4 * 14 * 3
    assert cost(pool("GlobalAveragePool", "whole", "uint8", 0)).vector_operations == 2 * 24 * 49


@pytest.mark.parametrize(("node", "template"), [
    (convolution("plain", "uint8", "s8", 0), "matmul"),
    (convolution("grouped", "uint8", "s8", 0), "matmul"),
    (convolution("depthwise", "uint8", "s8", 0), "vector"),
    (convolution("doubled", "uint8", "s8", 0), "vector"),
    (matrix_product("dense", "uint8", "s8", 0), "matmul"),
    (binary("Add", "same", ("uint8",) * 3, 0), "vector"),
    (single("Clip", "uint8", 0, min=0.0, max=None), "vector"),
    (single("Concat", "uint8", 0, axis=1), "vector"),
    (single("Softmax", "uint8", 0, axis=1), "host"),
    (pool("MaxPool", "line", "uint8", 0), "vector"),
])  # fmt: skip
def test_template(node, template):
    assert PRIMITIVES[node.op].template(node) == template


def test_movement_is_free_of_arithmetic_where_the_quantisation_stays():
    x = activation("x", (2, 8), "uint8", 0.1, 3)
    same = node_of("Reshape", [x], ("uint8", 0.1, 3), {"shape": (16,)})
    other = node_of("Reshape", [x], ("uint8", 0.2, 3), {"shape": (16,)})
    assert PRIMITIVES["Reshape"].template(same) == "move"
    assert cost(same).vector_operations == 0
    assert PRIMITIVES["Reshape"].template(other) == "vector"
    assert cost(other).vector_operations == 16


def test_a_value_without_quantisation_is_named():
    node = binary("Add", "same", ("uint8",) * 3, 0)
    bare = type(node.input(0))("x", TensorType((2,), FP32))
    message = "node 'add' (Add): 'x' (fp32[2]) has no quantisation. Quantise the graph first"
    with pytest.raises(RidgelineError, match=re.escape(message)):
        scalars_of(bare, node)


def test_per_channel_where_one_scale_is_needed():
    node = convolution("plain", "uint8", "s8-channels", 0)
    message = "node 'conv' (Conv): 'w' is quantised per channel, where Conv needs one scale"
    with pytest.raises(RidgelineError, match=re.escape(message)):
        scalars_of(node.input(1), node)
