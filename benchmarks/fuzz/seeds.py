"""Files that the fuzzer starts from: small models of every kind, a program, arrays, machines."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

DIGITS = resources.files("ridgeline") / "models" / "digits_cnn.onnx"
CALIBRATION = resources.files("ridgeline") / "models" / "digits_calibration.npz"


def models() -> list[bytes]:
    """Serialised models: ONNX's node tests, control flow, functions, external data, networks."""
    import ridgeline
    from node_tests import node_tests

    made = [test.model.SerializeToString() for test in node_tests()]
    with np.load(str(CALIBRATION)) as arrays:
        samples = {"image": arrays["image"][:8]}
    from ridgeline.frontend.onnx_writer import onnx_bytes

    digits = DIGITS.read_bytes()
    quantised = onnx_bytes(ridgeline.quantize(ridgeline.read_onnx(digits), samples))
    own = [_convolution(), _branches(3), _functions(3), _external(), _bomb(), _sparse(), quantised]
    # As many of our own as of the node tests, which are small and of one operator each.
    return made + [model for model in own for _ in range(len(made) // len(own))]


def _model(nodes: list[Any], stored: list[Any], functions: list[Any] | None = None) -> bytes:
    graph = helper.make_graph(
        nodes,
        "seed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions or [], ir_version=9)
    return model.SerializeToString()


def _tensor(name: str, shape: tuple[int, ...]) -> Any:
    random = np.random.default_rng(0)
    return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)


def _ints(name: str, *values: int) -> Any:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _convolution() -> bytes:
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], "pad"),
        helper.make_node("Conv", ["p", "w", "b"], ["c"], "conv", strides=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["m", "shape"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "g"], ["y"], "dense", transB=1),
    ]
    stored = [_ints("pads", 0, 0, 1, 1, 0, 0, 1, 1), _ints("shape", 1, -1)]
    stored += [_tensor("w", (4, 3, 3, 3)), _tensor("b", (4,)), _tensor("g", (5, 64))]
    return _model(nodes, stored)


def _branches(depth: int) -> bytes:
    """An If in an If in an If, conditions stored; a Loop around a sum."""
    inner = helper.make_node("Relu", ["x"], ["y0"], "inner")
    for level in range(depth):
        made, result = f"y{level}", f"y{level + 1}"
        branch = helper.make_graph([inner], f"b{level}", [], [_open(made)])
        other = helper.make_graph(
            [helper.make_node("Neg", ["x"], [f"n{level}"])], f"e{level}", [], [_open(f"n{level}")]
        )
        inner = helper.make_node(
            "If", ["yes"], [result], f"if{level}", then_branch=branch, else_branch=other
        )
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["keep_in"], ["keep"]),
            helper.make_node("Add", ["carried_in", "x"], ["carried"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("keep_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried_in", TensorProto.FLOAT, [1, 3, 8, 8]),
        ],
        [
            helper.make_tensor_value_info("keep", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, [1, 3, 8, 8]),
        ],
    )
    loop = helper.make_node("Loop", ["trips", "", f"y{depth}"], ["y"], "loop", body=body)
    yes = numpy_helper.from_array(np.array(True), "yes")
    return _model([inner, loop], [yes, numpy_helper.from_array(np.array(3, np.int64), "trips")])


def _open(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _functions(depth: int) -> bytes:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    first = helper.make_function(
        "local", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets
    )
    functions = [first]
    for level in range(1, depth):
        calls = [
            helper.make_node(f"f{level - 1}", ["a"], ["t"], domain="local"),
            helper.make_node(f"f{level - 1}", ["t"], ["b"], domain="local"),
        ]
        functions.append(helper.make_function("local", f"f{level}", ["a"], ["b"], calls, opsets))
    call = helper.make_node(f"f{depth - 1}", ["x"], ["y"], "call", domain="local")
    return _model([call], [], functions)


def _external() -> bytes:
    tensor = _tensor("w", (4, 3, 3, 3))
    raw_bytes = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "data.bin"), ("offset", "0"), ("length", str(raw_bytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    constant = helper.make_node("Constant", [], ["k"], value=_tensor("k", (1,)))
    nodes = [constant, helper.make_node("Conv", ["x", "w"], ["c"], "conv")]
    return _model([*nodes, helper.make_node("Mul", ["c", "k"], ["y"], "scale")], [tensor])


def _bomb() -> bytes:
    """Constants made from a few bytes, whose sizes a mutation makes large."""
    nodes = [
        helper.make_node("ConstantOfShape", ["dims"], ["z"], "zeros"),
        helper.make_node("Tile", ["z", "times"], ["t"], "tile"),
        helper.make_node("Expand", ["t", "wide"], ["e"], "expand"),
        helper.make_node("Pad", ["e", "pads"], ["p"], "pad"),
        helper.make_node("ReduceSum", ["p"], ["s"], "sum", keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"], "add"),
    ]
    stored = [_ints("dims", 2, 3), _ints("times", 2, 2), _ints("wide", 4, 1, 6)]
    return _model(nodes, [*stored, _ints("pads", 0, 1, 0, 0, 1, 0)])


def _sparse() -> bytes:
    sparse = helper.make_sparse_tensor(_tensor("v", (2,)), _ints("i", 1, 3), [8])
    nodes = [
        helper.make_node("Constant", [], ["k"], "sparse", sparse_value=sparse),
        helper.make_node("Add", ["x", "k"], ["y"], "add"),
    ]
    return _model(nodes, [])


def program(folder: Path) -> bytes:
    """The shipped model compiled for tiny-8."""
    import ridgeline

    with np.load(str(CALIBRATION)) as arrays:
        samples = {"image": arrays["image"][:8]}
    graph = ridgeline.quantize(ridgeline.read_onnx(DIGITS.read_bytes()), samples)
    made = ridgeline.compile(graph, ridgeline.load_machine("tiny-8"))
    path = folder / "seed.rlp"
    made.save(path)
    return path.read_bytes()


def machines() -> list[str]:
    folder = resources.files("ridgeline.machine") / "data"
    return [f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".toml")]
