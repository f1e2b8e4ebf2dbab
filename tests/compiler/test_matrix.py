"""Every operator x format x dataflow: the executed program gives the integer meaning's bits."""

from __future__ import annotations

import pytest

from compile_cases import DATAFLOWS, host_reason, on_device, run_compiled, small_machine, unequal
from numeric_cases import GROUPED, binary, convolution, golden_cases, matrix_product, single
from ridgeline.ir import Node
from ridgeline.machine.instructions import LoadWeights

CASES = {name: node for name, node in golden_cases() if "softmax" not in name}
WIDE = {
    **{
        f"conv {n} int16": convolution(n, "int16", "s8-channels", 7)
        for n in ("plain", "strided", "dilated", "grouped", "depthwise", "doubled", "line")
    },
    **{f"matmul {n} int16": matrix_product(n, "int16", "s8", 8) for n in ("dense", "batched")},
}

# What the accelerator does not take, with a part of the reason that the report gives.
ON_HOST = {
    "volume": "spatial dimensions",
    "attention": "both operands are activations",
    "crossed": "different rank|broadcast along channels",
    "column": "different rank|broadcast along channels|different",
    "one": "different rank|broadcast along channels",
    "one-second": "different rank",
    "row": "different rank",
    "channel-first": "different rank",
    "ones": "",
    "reshape": "",
    "transpose": "quantisation changes|",
}


def zero_centred(node: Node) -> Node:
    """The node with int16 zero points of 0, as the accelerator and every quantiser want them."""
    from dataclasses import replace

    from ridgeline.ir import Quant, Value

    def centred(value: Value | None) -> Value | None:
        if value is None or value.type.dtype.name != "int16" or value.type.quant is None:
            return value
        quant = Quant.per_tensor(float(value.type.quant.scale))
        return Value(value.name, replace(value.type, quant=quant), value.data)

    inputs = tuple(centred(v) for v in node.inputs)
    outputs = tuple(v for v in (centred(o) for o in node.outputs) if v is not None)
    return Node(node.op, node.name, inputs, outputs, node.attrs)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("name", CASES)
def test_eight_bit_node(name: str, dataflow: str) -> None:
    program, made, expected = run_compiled(CASES[name], small_machine(dataflow))
    assert unequal(made, expected) == 0
    if not on_device(program):
        kind = next((k for k in ON_HOST if k in name.split()), None)
        assert kind is not None, f"unexpectedly on the host: {host_reason(program)}"


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("name", WIDE)
def test_int16_activations(name: str, dataflow: str) -> None:
    program, made, expected = run_compiled(zero_centred(WIDE[name]), small_machine(dataflow))
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("kind", ["s8-channels", "u8"])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_as_block_diagonal_tiles(name: str, kind: str, dataflow: str) -> None:
    """And memory holds the groups' own weights alone, but for rows of them that tiles share."""
    node = convolution(name, "uint8", kind, 5)
    machine = small_machine(dataflow, "vector.operations=['requantize']")
    program, made, expected = run_compiled(node, machine)
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0
    loads = [i for i in program.instructions if isinstance(i, LoadWeights)]
    group = int(node.attrs["group"])
    per_group = node.output.type.shape[1] // group
    narrow = [i for i in loads if i.block_rows]
    assert bool(narrow) == (per_group < 4)
    assert all(i.n == per_group for i in narrow)


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_constant_operand_runs_on_device(op: str) -> None:
    from numeric_cases import Chooser
    from single_node import constant, node_of

    chooser = Chooser(3)
    a = chooser.value((2, 6, 5, 3), "uint8", "a")
    for shape in ((6, 1, 1), (1,), (2, 6, 5, 3), (1, 1, 5, 3)):
        data = chooser.rng.integers(0, 256, shape).astype("uint8")
        b = constant("b", data, chooser.scale(), 7)
        program, made, expected = run_compiled(
            node_of(op, [a, b], chooser.output("uint8")), small_machine()
        )
        assert on_device(program), host_reason(program)
        assert unequal(made, expected) == 0, shape


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_constant_first_operand_runs_on_device(op: str) -> None:
    from numeric_cases import Chooser
    from single_node import constant, node_of

    chooser = Chooser(6)
    data = chooser.rng.integers(0, 256, (6, 1, 1)).astype("uint8")
    a = constant("a", data, chooser.scale(), 7)
    b = chooser.value((2, 6, 5, 3), "uint8", "b")
    program, made, expected = run_compiled(
        node_of(op, [a, b], chooser.output("uint8")), small_machine()
    )
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


def test_a_single_number_goes_to_the_host() -> None:
    from numeric_cases import Chooser
    from single_node import node_of

    chooser = Chooser(7)
    x = chooser.value((), "uint8")
    node = node_of("Clip", [x], chooser.output("uint8"), {"min": 0.0, "max": 1.0})
    program, made, expected = run_compiled(node, small_machine())
    assert "is a single number" in host_reason(program)
    assert unequal(made, expected) == 0


def test_channel_broadcast_of_an_activation_runs_on_device() -> None:
    program, made, expected = run_compiled(
        binary("Mul", "channel", ("uint8",) * 3, 5), small_machine()
    )
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_concat_along_every_axis(axis: int) -> None:
    from numeric_cases import Chooser
    from single_node import node_of

    chooser = Chooser(axis)
    shapes = [[2, 6, 3, 4], [2, 6, 3, 4], [2, 6, 3, 4]]
    for extra, shape in enumerate(shapes):
        shape[axis] += extra
    values = [chooser.value(tuple(s), "int8", f"v{i}") for i, s in enumerate(shapes)]
    node = node_of("Concat", values, chooser.output("int8"), {"axis": axis})
    program, made, expected = run_compiled(node, small_machine())
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("formats", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
@pytest.mark.parametrize("shape", [(2, 6, 5, 3), (3, 4, 19), (5, 21), (7,)])
def test_table_runs_on_device(
    shape: tuple[int, ...], formats: tuple[str, str], dataflow: str
) -> None:
    program, made, expected = run_compiled(table_of(shape, formats), small_machine(dataflow))
    assert on_device(program), host_reason(program)
    assert program.layers[0].op == "Sigmoid"
    assert unequal(made, expected) == 0


def test_a_vector_unit_without_tables_leaves_them_to_the_host() -> None:
    able = 'vector.operations=["requantize", "add"]'
    machine = small_machine("weight-stationary", able)
    program, made, expected = run_compiled(table_of((2, 6, 5, 3), ("uint8", "uint8")), machine)
    assert "has no 'lookup'" in host_reason(program)
    assert unequal(made, expected) == 0


def table_of(shape: tuple[int, ...], formats: tuple[str, str]) -> Node:
    """Sigmoid of a stored tensor."""
    from numeric_cases import Chooser
    from ridgeline.frontend.tabulate import tabulate
    from ridgeline.ir import Graph, TensorType, Value
    from ridgeline.numerics.formats import FP32
    from single_node import activation

    x = Chooser(12).value(shape, formats[0])
    y = activation("y", shape, formats[1], 1 / 256, -128 if formats[1] == "int8" else 0)
    real = [Value(f"real_{n}", TensorType(shape, FP32)) for n in "xy"]
    inner = Node("Sigmoid", "sigmoid", (real[0],), (real[1],))
    function = Graph("sigmoid", (real[0],), (real[1],), (inner,)).check()
    table = Value.constant("table", tabulate(function, x.type, y.type))
    return Node("Lookup", "sigmoid", (x, table), (y,), {"function": function})


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shapes", ["same", "channel", "channel-first", "row"])
@pytest.mark.parametrize("op", ["Sub", "Max", "Min"])
def test_real_numbers_of_two_tensors(op: str, shapes: str, dtype: str, dataflow: str) -> None:
    node = binary(op, shapes, (dtype,) * 3, 14)
    program, made, expected = run_compiled(node, small_machine(dataflow))
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(2, 11, 5, 3), (3, 4, 19), (5, 21)])
def test_slopes_of_channels(shape: tuple[int, ...], dtype: str, dataflow: str) -> None:
    """Some slopes are negative, some above 1."""
    from numeric_cases import Chooser
    from ridgeline.ir import Value
    from single_node import node_of

    chooser = Chooser(15)
    data = chooser.rng.normal(0, 1, (shape[1], *(1,) * (len(shape) - 2))).astype("float32")
    inputs = [chooser.value(shape, dtype), Value.constant("slope", data)]
    node = node_of("PRelu", inputs, chooser.output(dtype))
    program, made, expected = run_compiled(node, small_machine(dataflow))
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0


def test_a_slope_for_each_element_goes_to_the_host() -> None:
    from numeric_cases import Chooser
    from ridgeline.ir import Value
    from single_node import node_of

    chooser = Chooser(16)
    slope = Value.constant("slope", chooser.rng.normal(0, 1, (6, 5)).astype("float32"))
    node = node_of("PRelu", [chooser.value((2, 6, 5), "uint8"), slope], chooser.output("uint8"))
    program, made, expected = run_compiled(node, small_machine())
    assert host_reason(program) == "its slope is not one constant for each channel"
    assert unequal(made, expected) == 0


def test_clip_runs_on_device() -> None:
    node = single("Clip", "int8", 4, min=-0.5, max=1.0)
    program, made, expected = run_compiled(node, small_machine())
    assert on_device(program), host_reason(program)
    assert unequal(made, expected) == 0
