from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_file import load_model
from ridgeline.frontend.onnx_reader import read_onnx

RELU = """
<ir_version: 8, opset_import: ["" : 17]>
tiny (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }
"""


@pytest.fixture
def relu() -> bytes:
    return onnx.parser.parse_model(RELU).SerializeToString()


def _fails(source: Path | bytes, text: str) -> None:
    with pytest.raises(RidgelineError, match=re.escape(text)):
        read_onnx(source)


def test_a_missing_file_lists_the_models_beside_it(tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(b"x")
    _fails(tmp_path / "model.onnx", f"no such file. ONNX files in {tmp_path}: other.onnx")


def test_a_missing_file_in_a_missing_folder(tmp_path: Path) -> None:
    _fails(tmp_path / "no" / "model.onnx", "no such file. Give the path of an .onnx file.")


def test_a_folder(tmp_path: Path) -> None:
    _fails(tmp_path, "this is a folder, not an ONNX file")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    text = "the file cannot be read (File name too long). Check the path."
    _fails(tmp_path / ("m" * 300 + ".onnx"), text)


def test_a_name_with_a_null_byte() -> None:
    _fails(Path("m\0.onnx"), "the file cannot be read (embedded null byte). Check the path.")


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").symlink_to("m.onnx")
    _fails(tmp_path / "m.onnx", "the file cannot be read (Too many levels of symbolic links)")


def test_a_file_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"x")
    _fails(tmp_path / "m" / "n.onnx", "no such file. Give the path of an .onnx file.")


def test_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for any user, the superuser included: every question to the system is refused."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    for question in ("stat", "exists", "is_dir", "is_file", "open"):
        monkeypatch.setattr(Path, question, refuse)
    text = "the file cannot be read (Permission denied). Check its permissions and those of its"
    _fails(tmp_path / "m.onnx", text)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    _fails(tmp_path / "m.onnx", "m.onnx: the file is empty. Export the model again.")


def test_a_file_cut_short(relu: bytes) -> None:
    _fails(relu[:-20], "the file begins like ONNX but breaks off or is damaged")


def test_every_prefix_is_refused_without_another_exception(relu: bytes) -> None:
    for length in range(len(relu)):
        with pytest.raises(RidgelineError):
            read_onnx(relu[:length])


def test_noise() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        with pytest.raises(RidgelineError):
            read_onnx(generator.bytes(int(generator.integers(1, 300))))


def test_damaged_bytes_never_leave_another_exception(relu: bytes) -> None:
    generator = np.random.default_rng(1)
    for _ in range(2000):
        damaged = bytearray(relu)
        damaged[int(generator.integers(len(damaged)))] = int(generator.integers(256))
        with contextlib.suppress(RidgelineError):
            read_onnx(bytes(damaged))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x1c\x00\x00\x00TFL3....", "TensorFlow Lite"),
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
    ],
)
def test_another_format_is_named(data: bytes, kind: str) -> None:
    _fails(data, f"this is not an ONNX model (it looks like {kind})")


def test_a_model_without_nodes() -> None:
    model = helper.make_model(helper.make_graph([], "empty", [], []))
    _fails(model.SerializeToString(), "the model has no nodes")


def _with_external_data(folder: Path, location: str) -> Path:
    weights = np.arange(8, dtype=np.float32).reshape(4, 2)
    tensor = numpy_helper.from_array(weights, "w")
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(len(data)))):
        tensor.external_data.add(key=key, value=value)
    model = onnx.parser.parse_model(RELU.replace("Relu(x)", "MatMul(x, w)").replace("4] y", "2] y"))
    model.graph.initializer.append(tensor)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read(tmp_path: Path) -> None:
    path = _with_external_data(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    weights = read_onnx(path).nodes[0].input(1).data
    assert weights is not None
    assert weights.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_external_data_missing(tmp_path: Path) -> None:
    _fails(_with_external_data(tmp_path, "w.bin"), "its external data file 'w.bin' is missing")


def test_external_data_cut_short(tmp_path: Path) -> None:
    path = _with_external_data(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(10))
    _fails(path, "initializer 'w': its external data file 'w.bin' has 10 bytes, and 32 are needed")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
def test_external_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(32))
    path = _with_external_data(inner, location)
    _fails(path, f"its external data '{location}' lies outside of the model's folder")


def test_external_data_through_a_link(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(32))
    (inner / "w.bin").symlink_to(tmp_path / "secret.bin")
    _fails(_with_external_data(inner, "w.bin"), "lies outside of the model's folder")


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("value", ["abc", "-5", "1.5", "9" * 30, ""])
def test_external_data_at_no_number(tmp_path: Path, key: str, value: str) -> None:
    path = _with_external_data(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(32))
    model = onnx.load(path, load_external_data=False)
    entry = next(e for e in model.graph.initializer[0].external_data if e.key == key)
    entry.value = value
    path.write_bytes(model.SerializeToString())
    text = f"initializer 'w': the {key} of its external data is '{value}', not a number of bytes"
    _fails(path, text)


def test_external_data_under_a_name_that_is_too_long(tmp_path: Path) -> None:
    path = _with_external_data(tmp_path, "w" * 300)
    _fails(path, "cannot be read (File name too long). Check the path.")


def test_external_data_needs_a_path(tmp_path: Path) -> None:
    data = _with_external_data(tmp_path, "w.bin").read_bytes()
    _fails(data, "initializer 'w' keeps its values in another file. Read the model from its path")


def test_the_name_in_messages_is_the_path(tmp_path: Path, relu: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(relu)
    assert load_model(tmp_path / "m.onnx")[1] == str(tmp_path / "m.onnx")
