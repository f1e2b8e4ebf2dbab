"""Models and programs that cannot be used: one message that names the file; exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from refusals import MAKE, refused, saved, written

Run = Callable[..., Any]

BAD_MODELS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no such file. Give the path of an .onnx file."),
    "empty": (b"", "the file is empty. Export the model again."),
    "noise": (
        b"\x00\x01" * 50,
        "this is not an ONNX model. Export the model with torch.onnx.export, tf2onnx or another"
        " ONNX exporter.",
    ),
}


@pytest.mark.parametrize("kind", sorted(BAD_MODELS))
@pytest.mark.parametrize("command", ["run", "compile"])
def test_bad_model(kind: str, command: str, ridgeline: Run, tmp_path: Path) -> None:
    content, text = BAD_MODELS[kind]
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    output = ["-o", tmp_path / "p.rlp"] if command == "compile" else []
    refused(ridgeline(command, path, *output), f"{path}: {text}")
    assert not (tmp_path / "p.rlp").exists()


def test_a_model_that_is_cut_short(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "cut.onnx", shipped.model.read_bytes()[:5000])
    text = "the file begins like ONNX but breaks off or is damaged (5,000 bytes)."
    refused(ridgeline("run", path), f"{path}: {text} Copy or export the model again.")


@pytest.mark.parametrize("command", ["check", "disassemble", "simulate"])
def test_a_bad_program(command: str, ridgeline: Run, tmp_path: Path, program: Path) -> None:
    again = "Compile the model again with: ridgeline compile MODEL.onnx --machine NAME -o P.rlp"
    path = written(tmp_path / "p.rlp", b"nonsense")
    refused(ridgeline(command, path), f"{path}: is not a Ridgeline program. {again}")
    path = written(tmp_path / "p.rlp", program.read_bytes()[:-9])
    text = f"{path}: is damaged or cut short (checksum differs). {again}"
    refused(ridgeline(command, path), text)


def _model(path: Path, inputs: list[Any], outputs: list[Any], nodes: list[Any]) -> Path:
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph(nodes, "small", inputs, outputs, [weights])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def _tensor(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])


@pytest.mark.parametrize("command", ["run", "compile", "quantize"])
@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_a_model_without_ends(
    what: str, command: str, ridgeline: Run, tmp_path: Path, data: Path
) -> None:
    path = tmp_path / "m.onnx"
    if what == "inputs":
        _model(path, [], [_tensor("y")], [helper.make_node("Relu", ["w"], ["y"])])
    else:
        _model(path, [_tensor("x")], [], [helper.make_node("Relu", ["x"], ["y"])])
    options = {"run": [], "compile": ["-o", tmp_path / "p"], "quantize": ["-o", tmp_path / "q"]}
    calibrate = ["--calibrate", data] if command == "quantize" else []
    text = f"the model has no {what}, so there is nothing to compute. Export it with its {what}"
    refused(ridgeline(command, path, *options[command], *calibrate), f"{path}: {text}")


def test_an_output_called_file(ridgeline: Run, tmp_path: Path) -> None:
    """It is stored like any other."""
    node = helper.make_node("MatMul", ["x", "w"], ["file"])
    model = _model(tmp_path / "m.onnx", [_tensor("x")], [_tensor("file")], [node])
    data = saved(tmp_path / "data.npz", x=np.eye(4, dtype=np.float32))
    made = ridgeline("run", model, "-i", data, "-o", tmp_path / "out.npz")
    assert made.code == 0, made.err
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["file"].shape == (4, 4)


def test_options_that_a_quantised_model_does_not_use(
    ridgeline: Run, shipped: Any, tmp_path: Path
) -> None:
    model = tmp_path / "q.onnx"
    made = ridgeline("quantize", shipped.model, "--calibrate", shipped.calibration, "-o", model)
    assert made.code == 0, made.err
    missing = tmp_path / "nope.npz"
    text = f"{missing}: no such file. {MAKE}"
    refused(ridgeline("run", model, "--calibrate", missing), text)
    int16 = ["--set", "array.macs_per_pe_per_cycle.int16=0.5", "--activations", "int16"]
    made = ridgeline("run", model, *int16, "--calibrate", shipped.calibration, "--format", "csv")
    assert made.code == 0, made.err
    assert made.err == (
        "note: the model is quantised already: --calibrate is not used\n"
        "note: the model is quantised already: --activations int16 is not used\n"
    )


def test_a_model_with_nothing_to_quantise(ridgeline: Run, tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"], name="volume")],
        "g",
        [value("x", TensorProto.FLOAT, [2, 3, 3])],
        [value("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "c.npz", x=np.ones((2, 3, 3), np.float32))
    output = tmp_path / "q.onnx"
    result = ridgeline(
        "quantize", tmp_path / "m.onnx", "--calibrate", tmp_path / "c.npz", "-o", output
    )
    assert result.code == 2
    assert "m.onnx: nothing in this model can be quantised" in result.err
    assert not output.exists()


def test_a_message_keeps_to_its_line(ridgeline: Run, tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.onnx"
    text = f"{tmp_path}/a\\nb\\x1b[31m.onnx: no such file. Give the path of an .onnx file."
    refused(ridgeline("run", path), text)
