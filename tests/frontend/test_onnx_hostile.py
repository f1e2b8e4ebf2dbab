"""Models made to do harm: each is refused by name, before it costs memory or touches a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend import onnx_file
from ridgeline.frontend.onnx_order import in_order
from ridgeline.frontend.onnx_reader import read_onnx

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
AGAIN = "The file is damaged: export the model again."


def _model(nodes: list[Any], stored: list[Any] | None = None, functions: Any = ()) -> Any:
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored or [],
    )
    return helper.make_model(graph, opset_imports=OPSETS, functions=list(functions), ir_version=9)


def _ints(name: str, *values: int) -> Any:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def _function(name: str, *called: str) -> Any:
    nodes = [
        helper.make_node(other, [f"t{i}"], [f"t{i + 1}"], f"{name}/{i}", domain=domain)
        for i, (other, domain) in enumerate((c, "local" if c[0] == "f" else "") for c in called)
    ]
    return helper.make_function("local", name, ["t0"], [f"t{len(called)}"], nodes, OPSETS)


def _call(name: str) -> Any:
    return helper.make_node(name, ["x"], ["y"], "call", domain="local")


def _refused(model: Any, text: str) -> None:
    with pytest.raises(RidgelineError) as found:
        read_onnx(model.SerializeToString())
    assert str(found.value) == text


def test_functions_that_double_are_counted_before_they_are_inlined() -> None:
    functions = [_function("f0", "Relu")]
    functions += [_function(f"f{i}", f"f{i - 1}", f"f{i - 1}") for i in range(1, 40)]
    _refused(
        _model([_call("f39")], functions=functions),
        "hostile: function 'local::f20' is 1,048,576 nodes when its functions are put where they"
        " are called, above the limit of 1,000,000. Export the model without functions that call"
        " each other so often.",
    )


@pytest.mark.parametrize(
    "functions", [[("f0", "f0")], [("f0", "Relu", "f1"), ("f1", "f2"), ("f2", "f0")]]
)
def test_functions_that_call_themselves(functions: list[tuple[str, ...]]) -> None:
    made = [_function(*names) for names in functions]
    _refused(
        _model([_call("f0")], functions=made),
        "hostile: function 'local::f0' calls itself. Export it as a Loop.",
    )


def test_a_function_that_is_defined_twice() -> None:
    made = [_function("f0", "Relu"), _function("f0", "Neg")]
    text = f"hostile: function 'local::f0' is defined twice. {AGAIN}"
    _refused(_model([_call("f0")], functions=made), text)


def test_a_call_with_more_arguments_than_its_function_has() -> None:
    call = helper.make_node("f0", ["x", "x"], ["y"], "call", domain="local")
    _refused(
        _model([call], functions=[_function("f0", "Relu")]),
        "hostile: its functions cannot be put where they are called (Number of actual parameters"
        f" cannot exceed number of formal parameters). {AGAIN}",
    )


def test_functions_that_call_each_other_soundly_are_inlined() -> None:
    made = [_function("f1", "f0", "Neg"), _function("f0", "Relu")]
    graph = read_onnx(_model([_call("f1")], functions=made).SerializeToString())
    assert [node.op for node in graph.nodes] == ["Clip", "Neg"]


@pytest.mark.parametrize("op", ["Tile", "Expand", "ConstantOfShape"])
def test_constants_that_grow_together_are_above_the_limit(op: str) -> None:
    """Each is below the limit, and their sum is not."""
    nodes: list[Any] = []
    for i in range(4):
        inputs = {"Tile": ["one", "large"], "Expand": ["one", "large"]}.get(op, ["large"])
        nodes.append(helper.make_node(op, inputs, [f"c{i}"], f"bomb{i}"))
    nodes.append(helper.make_node("Sum", ["x", *(f"c{i}" for i in range(4))], ["y"], "sum"))
    stored = [_ints("large", 180_000_000)]
    stored.append(numpy_helper.from_array(np.ones(1, np.float32), "one"))
    model = _model(nodes, stored)
    folded: list[str] = []

    def compute(node: Any, *_: Any) -> dict[str, Any]:
        folded.append(node.name)
        return {node.output[0]: np.broadcast_to(np.zeros(1, np.float32), 180_000_000)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgeline.frontend.onnx_reader.evaluate_proto", compute)
        _refused(
            model,
            f"hostile, node 'bomb2' ({op}): a constant of 720,000,000 bytes, after 1,440,000,000"
            " bytes of others, is above the limit of 2,147,483,648. Export the model without it.",
        )
    assert folded == ["bomb0", "bomb1"]


def _sparse(name: str) -> Any:
    values = numpy_helper.from_array(np.ones(1, np.float32), name)
    return helper.make_sparse_tensor(values, _ints("places", 7), [1 << 40])


def test_a_sparse_initializer_that_stands_for_terabytes() -> None:
    model = _model([helper.make_node("Add", ["x", "s"], ["y"], "add")])
    model.graph.sparse_initializer.append(_sparse("s"))
    _refused(
        model,
        "hostile: initializer 's' is sparse, which is not supported. Store it as a dense tensor.",
    )


def test_a_sparse_initializer_in_a_branch() -> None:
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Add", ["x", "s"], ["b"])], "b", [], [out])
    branch.sparse_initializer.append(_sparse("s"))
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [out])
    choice = helper.make_node("If", ["yes"], ["y"], "if", then_branch=other, else_branch=branch)
    _refused(
        _model([choice], [numpy_helper.from_array(np.array(True), "yes")]),
        "hostile, node 'if' (If): initializer 's' is sparse, which is not supported. Store it as a"
        " dense tensor.",
    )


def test_a_branch_that_makes_more_than_its_if() -> None:
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "bc"]
    nodes = [helper.make_node("Neg", ["x"], ["b"]), helper.make_node("Abs", ["x"], ["c"])]
    branch = helper.make_graph(nodes, "two", [], outs)
    choice = helper.make_node("If", ["yes"], ["y"], "if", then_branch=branch, else_branch=branch)
    _refused(
        _model([choice], [numpy_helper.from_array(np.array(True), "yes")]),
        f"hostile, node 'if' (If): its branch 'two' makes 2 values, and it 1. {AGAIN}",
    )


def _field(number: int, content: bytes) -> bytes:
    """A protobuf field that holds bytes."""
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_branches_in_branches_deeper_than_protobuf_reads() -> None:
    model = _model([helper.make_node("If", ["x"], ["y"])])
    node = model.graph.node[0].SerializeToString()
    inner = node
    for _ in range(200):
        inner = node + _field(5, _field(1, b"then_branch") + _field(6, _field(1, inner)))
    head = model.SerializeToString()
    with pytest.raises(RidgelineError, match=r"begins like ONNX but breaks off or is damaged"):
        read_onnx(head + _field(7, _field(1, inner)))


FORMS: list[tuple[Any, str]] = [
    (
        helper.make_node("If", [], ["y"], "n"),
        f"node 'n' (If): it has 0 inputs, and 1 belong to it. {AGAIN}",
    ),
    (
        helper.make_node("Conv", ["x"], ["y"], "n"),
        f"node 'n' (Conv): it has 1 inputs, and 2 to 3 belong to it. {AGAIN}",
    ),
    (
        helper.make_node("Conv", ["", "x"], ["y"], "n"),
        f"node 'n' (Conv): input 0 (X) is missing. {AGAIN}",
    ),
    (
        helper.make_node("Concat", [], ["y"], "n", axis=0),
        f"node 'n' (Concat): it has 0 inputs, and at least 1 belong to it. {AGAIN}",
    ),
    (
        helper.make_node("Relu", ["x"], ["y", "z"], "n"),
        f"node 'n' (Relu): it has 2 outputs, and 1 belong to it. {AGAIN}",
    ),
    (
        helper.make_node("Concat", ["x", "x"], ["y"], "n"),
        f"node 'n' (Concat): attribute 'axis' is missing. {AGAIN}",
    ),
    (
        helper.make_node("Concat", ["x", "x"], ["y"], "n", axis=1.5),
        f"node 'n' (Concat): attribute 'axis' is of type FLOAT, not INT. {AGAIN}",
    ),
    (
        helper.make_node("Relu", ["x"], ["y"], "n", slope=1.5),
        f"node 'n' (Relu): 'slope' is no attribute of it. {AGAIN}",
    ),
    (
        helper.make_node("LeakyRelu", ["x"], ["y"], "n", alhpa=1.5),
        "node 'n' (LeakyRelu): 'alhpa' is no attribute of it. Did you mean 'alpha'?",
    ),
    (
        helper.make_node("Constant", [], ["y"], "n", secret="text"),
        "node 'n' (Constant): 'secret' is no attribute of it. Known: sparse_value, value,"
        " value_float, value_floats, value_int, value_ints, value_string, value_strings",
    ),
]


@pytest.mark.parametrize(("node", "text"), FORMS)
def test_a_node_that_is_not_what_its_operator_is(node: Any, text: str) -> None:
    _refused(_model([node]), f"hostile, {text}")


def test_an_attribute_that_is_given_twice() -> None:
    node = helper.make_node("Concat", ["x", "x"], ["y"], "n", axis=1)
    node.attribute.add().CopyFrom(node.attribute[0])
    text = f"node 'n' (Concat): attribute 'axis' is given twice. {AGAIN}"
    _refused(_model([node]), f"hostile, {text}")


def _external(tensor: Any, location: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location


def _weights() -> Any:
    return numpy_helper.from_array(np.ones((1, 4), np.float32), "w")


def _in_initializer(location: str) -> Any:
    tensor = _weights()
    _external(tensor, location)
    return _model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [tensor])


def _in_constant(location: str) -> Any:
    constant = helper.make_node("Constant", [], ["w"], "w", value=_weights())
    _external(constant.attribute[0].t, location)
    return _model([constant, helper.make_node("Add", ["x", "w"], ["y"], "add")])


def _in_sparse(location: str) -> Any:
    model = _model([helper.make_node("Add", ["x", "w"], ["y"], "add")])
    sparse = _sparse("w")
    _external(sparse.values, location)
    model.graph.sparse_initializer.append(sparse)
    return model


def _in_function(location: str) -> Any:
    constant = helper.make_node("Constant", [], ["w"], "w", value=_weights())
    _external(constant.attribute[0].t, location)
    nodes = [constant, helper.make_node("Add", ["a", "w"], ["b"])]
    function = helper.make_function("local", "f0", ["a"], ["b"], nodes, OPSETS)
    return _model([_call("f0")], functions=[function])


@pytest.mark.parametrize("place", [_in_initializer, _in_constant, _in_sparse, _in_function])
@pytest.mark.parametrize("location", ["../secret", "ABSOLUTE", "link", "folder/link"])
def test_external_data_outside_of_the_folder(
    place: Callable[[str], Any], location: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (folder / "link").symlink_to(secret)
    (folder / "folder" / "link").symlink_to(tmp_path / "secret")
    location = str(secret) if location == "ABSOLUTE" else location
    path = folder / "m.onnx"
    path.write_bytes(place(location).SerializeToString())
    with pytest.raises(RidgelineError, match=r"' lies outside of the model's folder\. Export"):
        read_onnx(path)


def test_external_data_of_no_file(tmp_path: Path) -> None:
    model = _in_initializer("data")
    model.graph.initializer[0].external_data[0].key = "place"
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(RidgelineError) as found:
        read_onnx(path)
    text = f"{path}, initializer 'w': its external data name no file. {AGAIN}"
    assert str(found.value) == text


def test_a_name_of_a_file_that_is_no_text(tmp_path: Path) -> None:
    data = _in_initializer("data").SerializeToString().replace(b"data", b"d\xffta")
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(RidgelineError, match=r"the name b'd\\xffta' is not UTF-8 text\. The file"):
        read_onnx(path)


def test_external_data_behind_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path = tmp_path / "m.onnx"
    path.write_bytes(_in_initializer("loop").SerializeToString())
    with pytest.raises(RidgelineError) as found:
        read_onnx(path)
    assert str(found.value) == (
        f"{path}, initializer 'w': its external data 'loop' cannot be read"
        f" ({os.strerror(40)}). Check the path."
    )


def test_one_file_of_data_named_by_many_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "MAX_EXTERNAL_BYTES", 40)
    (tmp_path / "data").write_bytes(bytes(16))
    tensors = []
    for name in "abc":
        tensor = numpy_helper.from_array(np.ones((1, 4), np.float32), name)
        _external(tensor, "data")
        tensors.append(tensor)
    path = tmp_path / "m.onnx"
    model = _model([helper.make_node("Sum", ["x", "a", "b", "c"], ["y"], "sum")], tensors)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(RidgelineError) as found:
        read_onnx(path)
    assert str(found.value) == (
        f"{path}, initializer 'c': the model's external data are above the limit of 40 bytes."
        " Export a smaller model."
    )


def test_a_device_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "MAX_MODEL_BYTES", 1000)
    with pytest.raises(RidgelineError) as found:
        read_onnx("/dev/zero")
    assert str(found.value) == (
        "/dev/zero: the file has more than 1,000 bytes, the limit of ONNX files. Export the model"
        " with external data."
    )


def test_a_long_file_that_is_sorted_backwards() -> None:
    count = 3000
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    nodes = [helper.make_node("Neg", [names[i]], [names[i + 1]], f"n{i}") for i in range(count)]
    ordered = in_order(_model(nodes[::-1]).graph, "f")
    assert [node.name for node in ordered] == [f"n{i}" for i in range(count)]


def test_a_file_that_is_sorted_stays_as_it_is() -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["b"], "second branch first"),
        helper.make_node("Neg", ["x"], ["a"], "first branch"),
        helper.make_node("Neg", ["b"], ["c"], "of the second"),
        helper.make_node("Add", ["a", "c"], ["y"], "join"),
        helper.make_node("Abs", ["a"], ["d"], "of the first, last"),
    ]
    graph = _model(nodes).graph
    assert in_order(graph, "f") == list(graph.node)
