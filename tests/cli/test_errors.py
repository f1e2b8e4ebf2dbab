"""Each fault that a user can cause: one message, with what, where and what next; exit code 2."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ridgeline import api
from ridgeline.cli import model as model_commands
from ridgeline.errors import RidgelineError

Run = Callable[..., Any]

MAKE = "Make one with: numpy.savez('data.npz', NAME=array)"
IMAGES = np.zeros((4, 1, 8, 8), np.float32)
WANTED = "float32[samples, 1, 8, 8]"


def _refused(result: Any, text: str) -> None:
    """Exactly this message on stderr, nothing on stdout, exit code 2, no traceback."""
    assert result.err == f"error: {text}\n"
    assert result.out == ""
    assert result.code == 2


def _saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def _bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _cut(path: Path) -> Path:
    return _bytes(path, _saved(path, image=IMAGES).read_bytes()[:300])


def _flipped(path: Path) -> Path:
    data = _saved(path, image=IMAGES).read_bytes()
    return _bytes(path, data[:200] + bytes([data[200] ^ 255]) + data[201:])


def _single(path: Path) -> Path:
    with path.open("wb") as stream:
        np.save(stream, IMAGES)
    return path


def _nan(path: Path) -> Path:
    images = IMAGES.copy()
    images[0, 0, 0, 0] = np.nan
    return _saved(path, image=images)


def _patched(path: Path, offset: int, value: bytes) -> Path:
    """The archive with other bytes at this offset of both headers of its only member."""
    _saved(path, image=IMAGES)
    data = bytearray(path.read_bytes())
    for place in (offset, data.index(b"PK\1\2") + offset + 2):
        data[place : place + len(value)] = value
    return _bytes(path, bytes(data))


def _claims(path: Path) -> Path:
    """An array whose header names more bytes than any memory has."""
    header = str({"descr": "<f4", "fortran_order": False, "shape": (1 << 50, 1, 8, 8)})
    text = header.ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        head = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little")
        archive.writestr("image.npy", head + text.encode() + bytes(64))
    return path


BAD_DATA: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda p: p, f"no such file. {MAKE}"),
    "empty": (lambda p: _bytes(p, b""), f"the file is empty. {MAKE}"),
    "noise": (lambda p: _bytes(p, b"noise" * 20), f"this is not a .npz file. {MAKE}"),
    "single": (_single, f"this is a single array (.npy), which has no name. {MAKE}"),
    "cut": (_cut, f"the file is cut short. {MAKE}"),
    "flipped": (
        _flipped,
        "array 'image' is damaged (Bad CRC-32 for file 'image.npy'). Copy or make the file again",
    ),
    "encrypted": (lambda p: _patched(p, 6, b"\1"), f"array 'image' is encrypted. {MAKE}"),
    "packing": (
        lambda p: _patched(p, 8, b"\x5d\0"),
        "array 'image' is packed in a way that is not read here (That compression method is not"
        f" supported). {MAKE}",
    ),
    "claims": (
        _claims,
        "array 'image' does not fit into the memory (Unable to allocate 256. PiB for an array with"
        " shape (72057594037927936,) and data type float32). Give fewer samples, or make the file"
        " again if it should be small",
    ),
    "too large": (
        lambda p: _saved(p, image=np.full((4, 1, 8, 8), 1e300)),
        "array 'image' has 256 values of 256 that are too large for float32. Scale or remove those"
        " samples",
    ),
    "no arrays": (lambda p: _saved(p), f"holds no arrays. {MAKE}"),
    "objects": (
        lambda p: _saved(p, image=np.asarray([{}], dtype=object)),
        "array 'image' holds Python objects, which are never loaded. Store it as numbers, for"
        " example with array.astype('float32')",
    ),
    "names": (
        lambda p: _saved(p, img=IMAGES, y=IMAGES),
        f"has no array 'image', which the model takes as {WANTED}. It has: img, y. Store it as"
        " numpy.savez(..., image=array)",
    ),
    "shape": (
        lambda p: _saved(p, image=IMAGES.reshape(4, 64)),
        f"array 'image' has shape [4, 64], the model takes {WANTED}. Reshape the array, or set the"
        " model's dimensions with --shape",
    ),
    "text": (
        lambda p: _saved(p, image=np.full((4, 1, 8, 8), "a")),
        "array 'image' is <U1, the model takes float32. Convert it with array.astype('float32')",
    ),
    "no samples": (
        lambda p: _saved(p, image=IMAGES[:0]),
        "array 'image' has no samples. Give at least one",
    ),
    "nan": (
        _nan,
        "array 'image' has 1 NaN or infinite values of 256. Remove or repair those samples",
    ),
}


@pytest.mark.parametrize("option", ["--input", "--calibrate"])
@pytest.mark.parametrize("kind", sorted(BAD_DATA))
def test_bad_data(kind: str, option: str, ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    make, text = BAD_DATA[kind]
    path = make(tmp_path / "data.npz")
    _refused(ridgeline("run", shipped.model, option, path), f"{path}: {text}")


LOOP = "cannot be read (Too many levels of symbolic links). Check the path and its permissions"
LONG = "cannot be read (File name too long). Check the path and its permissions"


def test_data_behind_a_link_to_itself(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = tmp_path / "loop.npz"
    path.symlink_to(path)
    _refused(ridgeline("run", shipped.model, "--input", path), f"{path}: {LOOP}")


def test_data_with_a_name_that_is_too_long(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300 + ".npz")
    _refused(ridgeline("run", shipped.model, "--input", path), f"{path}: {LONG}")


def test_data_that_may_not_be_read(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any user: the superuser may search every folder."""
    path = tmp_path / "data.npz"
    real = Path.stat

    def denied(self: Path, **options: Any) -> os.stat_result:
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", denied)
    text = f"{path}: cannot be read (Permission denied). Check the path and its permissions"
    _refused(ridgeline("run", shipped.model, "--input", path), text)


def test_data_in_a_folder(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    text = f"{tmp_path}: this is a folder, not a .npz file. {MAKE}"
    _refused(ridgeline("run", shipped.model, "--input", tmp_path), text)


BAD_LABELS: dict[str, tuple[dict[str, Any], str]] = {
    "none": (
        {},
        "{path}: has no array 'labels', which --labels needs. It has: image. Store the classes'"
        " numbers as 'labels'",
    ),
    "too few": (
        {"labels": np.zeros(3, np.int64)},
        "{path}: array 'labels' is int64[3], not int64[4]. Give one class number for each sample",
    ),
    "real": (
        {"labels": np.zeros(4)},
        "{path}: array 'labels' is float64[4], not int64[4]. Give one class number for each sample",
    ),
    "negative": (
        {"labels": np.array([0, -1, 2, 3])},
        "--labels: label -1 is outside the 10 classes of output 'probabilities'. Count classes"
        " from 0",
    ),
    "huge": (
        {"labels": np.array([0, 1, 2, 1 << 63], np.uint64)},
        "{path}: label 9223372036854775808 in array 'labels' is no class's number. Count classes"
        " from 0",
    ),
    "outside": (
        {"labels": np.full(4, 99)},
        "--labels: label 99 is outside the 10 classes of output 'probabilities'. Count classes"
        " from 0",
    ),
}


@pytest.mark.parametrize("kind", sorted(BAD_LABELS))
def test_bad_labels(
    kind: str, ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before the long work begins."""

    def compiled(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled before the labels were looked at")

    monkeypatch.setattr(api, "compile", compiled)
    arrays, text = BAD_LABELS[kind]
    path = _saved(tmp_path / "data.npz", image=IMAGES, **arrays)
    _refused(ridgeline("run", shipped.model, "-i", path, "--labels"), text.format(path=path))


def test_bad_labels_of_a_program(ridgeline: Run, program: Path, tmp_path: Path) -> None:
    path = _saved(tmp_path / "data.npz", image=IMAGES, labels=np.full(4, 10))
    _refused(
        ridgeline("execute", program, "-i", path, "--labels"),
        "--labels: label 10 is outside the 10 classes of output 'probabilities'. Count classes"
        " from 0",
    )


def test_a_single_number_as_input_needs_no_samples(ridgeline: Run, tmp_path: Path) -> None:
    """Random samples of it are one number, not one for each sample."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    scale = helper.make_tensor_value_info("scale", TensorProto.FLOAT, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["s"], "mul"),
        helper.make_node("MatMul", ["s", "w"], ["y"], "product"),
    ]
    graph = helper.make_graph(nodes, "scaled", [x, scale], [y], [weights])
    opsets = [helper.make_opsetid("", 18)]
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    made = ridgeline("run", path)
    assert made.err == ""
    assert made.code == 0
    assert "product" in made.out


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
    _refused(ridgeline(command, path, *output), f"{path}: {text}")
    assert not (tmp_path / "p.rlp").exists()


def test_a_model_that_is_cut_short(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = _bytes(tmp_path / "cut.onnx", shipped.model.read_bytes()[:5000])
    text = "the file begins like ONNX but breaks off or is damaged (5,000 bytes)."
    _refused(ridgeline("run", path), f"{path}: {text} Copy or export the model again.")


BAD_OPTIONS: dict[str, tuple[list[str], str]] = {
    "machine": (
        ["--machine", "tiny-15"],
        "there is no machine 'tiny-15'. Did you mean 'tiny-16' or 'tiny-8'?",
    ),
    "field": (
        ["--set", "array.row=3"],
        "--set: a machine has no field 'array.row'. Did you mean 'array.rows'",
    ),
    "value": (
        ["--set", "array.rows=0"],
        "machine tiny-16: array.rows: must be greater than 0, not 0",
    ),
    "kind of value": (
        ["--set", "array.rows=many"],
        "machine tiny-16: array.rows: must be a whole number, not 'many'",
    ),
    "setting": (
        ["--set", "rows"],
        "--set: 'rows' is not KEY=VALUE. For example: --set array.rows=32",
    ),
    "float": (
        ["--float", "bf16"],
        "--float: the array of machine tiny-16 has no bf16. It has: int8. Leave --float out to"
        " quantise the model",
    ),
    "not a float": (
        ["--float", "int8"],
        "--float: 'int8' is not a floating-point format. Known: bf16, fp16, fp32, fp64, fp8_e4m3fn,"
        " fp8_e5m2",
    ),
    "int16": (
        ["--activations", "int16"],
        "--activations: the array of machine tiny-16 has no int16. It has: int8. Or add it:"
        " --set array.macs_per_pe_per_cycle.int16=0.5",
    ),
    "column": (
        ["--columns", "layer,cycels"],
        "--columns: there is no column 'cycels'. Did you mean 'cycles'",
    ),
    "shape without numbers": (
        ["--shape", "image"],
        "--shape: 'image' is not NAME=D0,D1,.... For example: --shape image=1,3,224,224",
    ),
    "no column": (["--columns", ""], "--columns: names no column. Known: all, layer, "),
    "no columns": (["--columns", " ,", "--columns", ","], "--columns: names no column. Known: "),
    "empty float": (["--float", ""], "--float: '' is not a floating-point format. Known: bf16, "),
    "shape twice": (
        ["--shape", "image=1,1,8,8", "--shape", "image=2,1,8,8"],
        "--shape: 'image' is given twice: 1,1,8,8 and 2,1,8,8. Give one shape for each input",
    ),
    "batch and shape": (
        ["--batch", "3", "--shape", "image=2,1,8,8"],
        "--batch 3 and --shape image=2,1,8,8 differ in the number of samples, the first dimension."
        " Leave one of them out",
    ),
    "one file for two": (
        ["--json", "no-x", "--trace", "./no-x"],
        "no-x: is given for both --trace and --json. Choose another path for one of them",
    ),
    "a file and a folder": (
        ["--dump-stages", "no-x", "--html", "no-x"],
        "no-x: is given for both --html and --dump-stages. Choose another path for one of them",
    ),
    "shape of no input": (["--shape", "img=1,1,8,8"], "{model}: --shape names 'img', which is no"),
    "rank": (["--shape", "image=1,3"], "{model}: --shape image=1,3 has 2 dimensions, but the"),
    "labels alone": (
        ["--labels"],
        "--labels: needs samples to execute. Give them with --input DATA.npz",
    ),
    "output alone": (
        ["--output", "out.npz"],
        "--output: needs samples to execute. Give them with --input DATA.npz",
    ),
    "no folder": (
        ["--json", "/no/such/folder/r.json"],
        "/no/such/folder/r.json: cannot be written (there is no folder '/no/such/folder'). Choose"
        " another path with --json",
    ),
    "folder": (
        ["--trace", "/"],
        "/: cannot be written (it is a folder). Choose another path with --trace",
    ),
    "stages": (
        ["--dump-stages", "/dev/null/stages"],
        "/dev/null/stages: cannot be made (Not a directory). Choose another --dump-stages",
    ),
}


@pytest.mark.parametrize("kind", sorted(BAD_OPTIONS))
def test_bad_options(kind: str, ridgeline: Run, shipped: Any) -> None:
    options, text = BAD_OPTIONS[kind]
    result = ridgeline("run", shipped.model, *options)
    assert result.err.startswith("error: " + text.format(model=shipped.model))
    assert result.err.count("\n") == 1
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["run"], ["run", "m.onnx", "--batch", "0"], ["run", "m.onnx", "--colour"]],
)
def test_usage_errors_show_usage(arguments: list[str], ridgeline: Run) -> None:
    result = ridgeline(*arguments)
    assert result.code == 2
    assert result.err.startswith("Usage: ")
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["check", "disassemble", "simulate"])
def test_a_bad_program(command: str, ridgeline: Run, tmp_path: Path, program: Path) -> None:
    again = "Compile the model again with: ridgeline compile MODEL.onnx --machine NAME -o P.rlp"
    path = _bytes(tmp_path / "p.rlp", b"nonsense")
    _refused(ridgeline(command, path), f"{path}: is not a Ridgeline program. {again}")
    path = _bytes(tmp_path / "p.rlp", program.read_bytes()[:-9])
    text = f"{path}: is damaged or cut short (checksum differs). {again}"
    _refused(ridgeline(command, path), text)


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
    _refused(ridgeline(command, path, *options[command], *calibrate), f"{path}: {text}")


def test_an_output_called_file(ridgeline: Run, tmp_path: Path) -> None:
    """It is stored like any other."""
    node = helper.make_node("MatMul", ["x", "w"], ["file"])
    model = _model(tmp_path / "m.onnx", [_tensor("x")], [_tensor("file")], [node])
    data = _saved(tmp_path / "data.npz", x=np.eye(4, dtype=np.float32))
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
    _refused(ridgeline("run", model, "--calibrate", missing), text)
    int16 = ["--set", "array.macs_per_pe_per_cycle.int16=0.5", "--activations", "int16"]
    made = ridgeline("run", model, *int16, "--calibrate", shipped.calibration, "--format", "csv")
    assert made.code == 0, made.err
    assert made.err == (
        "note: the model is quantised already: --calibrate is not used\n"
        "note: the model is quantised already: --activations int16 is not used\n"
    )


def test_a_device_takes_two_outputs(ridgeline: Run, program: Path) -> None:
    made = ridgeline("simulate", program, "--json", "/dev/null", "--trace", "/dev/null")
    assert made.code == 0, made.err


def test_one_file_for_two_outputs_of_simulate(ridgeline: Run, program: Path) -> None:
    text = "no-x: is given for both --json and --html. Choose another path for one of them"
    _refused(ridgeline("simulate", program, "--json", "no-x", "--html", "no-x"), text)


def _file_options(shipped: Any) -> dict[str, tuple[list[str], list[str], str]]:
    """By command: arguments, options that write, and what the first argument is called."""
    samples, model = str(shipped.calibration), str(shipped.model)
    report = ["--json", "--html", "--trace"]
    return {
        "run": ([model, "--input", samples], [*report, "--output"], "MODEL.onnx"),
        "compile": ([model], ["--output"], "MODEL.onnx"),
        "quantize": ([model, "--calibrate", samples], ["--output"], "MODEL.onnx"),
        "debug": ([model, "--input", samples], ["--dump", "--json"], "MODEL.onnx"),
    }


@pytest.mark.parametrize("command", ["run", "compile", "quantize", "debug", "execute", "simulate"])
def test_nothing_is_written_over_what_is_read(
    command: str, ridgeline: Run, shipped: Any, program: Path, tmp_path: Path
) -> None:
    """Each file that a command reads, as each file that it writes, under another spelling."""
    known = _file_options(shipped)
    known["execute"] = ([str(program), "--input", str(shipped.calibration)], ["--output"], "P.rlp")
    known["simulate"] = ([str(program)], ["--json", "--html", "--trace"], "P.rlp")
    arguments, options, called = known[command]
    given = [called, *arguments[1::2]]
    files = [Path(file).read_bytes() for file in arguments[::2]]
    copies = [_bytes(tmp_path / f"read{i}", data) for i, data in enumerate(files)]
    arguments[::2] = [str(copy) for copy in copies]
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for option in options:
        for name, copy in zip(given, copies, strict=True):
            before = copy.read_bytes()
            path = str(link / copy.name)
            text = f"{path}: is read as {name}, and {option} would write over it."
            _refused(
                ridgeline(command, *arguments, option, path),
                f"{text} Choose another path with {option}",
            )
            assert copy.read_bytes() == before


def test_a_machine_file_is_not_written_over(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = _bytes(tmp_path / "m.toml", b"kept")
    text = "m.toml: is read as --machine, and --output would write over it. Choose another path"
    made = ridgeline("compile", shipped.model, "--machine", machine, "--output", "m.toml")
    _refused(made, f"{text} with --output")
    assert machine.read_bytes() == b"kept"
    # The name of a shipped machine is that of no file.
    made = ridgeline("compile", shipped.model, "--output", "tiny-16")
    assert made.code == 0, made.err


def test_stages_on_a_disk_that_runs_full(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says which stages are there."""
    folder = tmp_path / "stages"

    def write(path: Path, data: bytes | str) -> None:
        if path.name.startswith("03-"):
            raise RidgelineError("cannot be written (No space left on device)", where=str(path))
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    monkeypatch.setattr(model_commands, "write_file", write)
    made = ridgeline("run", shipped.model, "--dump-stages", folder)
    names = sorted(path.stem for path in folder.glob("*.txt"))
    assert len(names) == 2
    assert made.code == 2
    assert re.fullmatch(
        rf"error: {folder}/03-\w+\.txt: cannot be written \(No space left on device\); whole stages"
        rf" written: {', '.join(names)}\. Choose another --dump-stages\n",
        made.err,
    )


def test_ctrl_c_leaves_nothing_behind(
    ridgeline: Run, shipped: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "simulate", press)
    result = ridgeline("run", shipped.model, "-i", data, "-o", tmp_path / "out.npz")
    assert (result.code, result.out, result.err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def _heeds_ctrl_c() -> None:
    """For a child of tests that run in the background, where SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _started(*arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ridgeline.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_ctrl_c,
    )  # fmt: skip


def test_a_real_ctrl_c(
    shipped: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stages = tmp_path_factory.mktemp("stages")
    process = _started(
        "run", shipped.model, "-i", shipped.test, "-o", tmp_path / "out.npz",
        "--dump-stages", stages,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not list(stages.glob("*.txt")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_at_any_moment(shipped: Any) -> None:
    """From the first import of Ridgeline on, through those of a command."""
    code = "import sys\nfrom ridgeline.cli import main\nprint('!', flush=True)\nmain()"
    for milliseconds in (0, 2, 5, 10, 20, 30, 50, 80, 120, 200, 300, 500, 800):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "run", shipped.model, "-i", shipped.test],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heeds_ctrl_c,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "!\n"
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        if process.returncode:
            assert (process.returncode, out, err) == (130, "", "interrupted\n"), milliseconds


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from ridgeline.cli import interrupts\n"
        "interrupts.before_work(); interrupts.work_begins(); signal.raise_signal(signal.SIGINT)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (made.returncode, made.stderr) == (0, b"")


def test_a_ctrl_c_that_a_destructor_swallows_comes_again() -> None:
    code = (
        "import signal, time\n"
        "from ridgeline.cli import interrupts\n"
        "interrupts.before_work(); interrupts.work_begins()\n"
        "class Deaf:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "try:\n"
        "    Deaf(); print('deaf', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('heard', interrupts.seen())\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, preexec_fn=_heeds_ctrl_c,
    )  # fmt: skip
    assert (made.returncode, made.stdout, made.stderr) == (0, "deaf\nheard True\n", "")


def test_memory_that_runs_out(
    ridgeline: Run, shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(api, "compile", exhaust)
    _refused(ridgeline("run", shipped.model), "there is not enough memory. Use a smaller --batch")


def test_memory_that_runs_out_in_a_command_without_batches(
    ridgeline: Run, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(api, "simulate", exhaust)
    text = "there is not enough memory. Use a smaller model or fewer samples"
    _refused(ridgeline("simulate", program), text)


def test_a_file_that_fails_in_a_place_of_its_own(
    ridgeline: Run, shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever opens it: one message that names the file."""

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/closed/m.toml")

    monkeypatch.setattr(api, "load_machine", denied)
    text = "/closed/m.toml: cannot be used (Permission denied). Check the path"
    _refused(ridgeline("run", shipped.model, "--machine", "/closed/m.toml"), text)


def test_a_message_keeps_to_its_line(ridgeline: Run, tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.onnx"
    text = f"{tmp_path}/a\\nb\\x1b[31m.onnx: no such file. Give the path of an .onnx file."
    _refused(ridgeline("run", path), text)


def test_a_reader_that_stops_early(program: Path) -> None:
    command = f"{sys.executable} -m ridgeline.cli disassemble {program} | head -2"
    made = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert made.stderr == ""
    assert len(made.stdout.splitlines()) == 2


def test_a_folder_without_permission(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any user: the superuser, who may write everywhere, is told what others are told."""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    result = ridgeline("run", shipped.model, "--json", tmp_path / "r.json")
    assert re.search(r"cannot be written \(the folder .* may not be written\)", result.err)
    assert result.code == 2


def test_a_disk_that_runs_full(shipped: Any, tmp_path: Path) -> None:
    """The kernel stops the write in the middle: one message, and nothing is left behind."""
    target = tmp_path / "p.rlp"
    command = (
        f"ulimit -f 4; {sys.executable} -B -m ridgeline.cli compile {shipped.model}"
        f" --machine tiny-16 --calibrate {shipped.calibration} -o {target}"
    )
    made = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert made.returncode == 2, made.stderr
    assert made.stderr.strip().splitlines()[-1] == (
        f"error: {target}: cannot be written (File too large). Choose another path with --output"
    )
    assert list(tmp_path.iterdir()) == []


STDOUT = {
    "full": ("> /dev/full", "standard output: cannot be written (No space left on device)"),
    "closed": (">&-", "standard output: is closed. Redirect it to a file"),
}


@pytest.mark.parametrize("name", STDOUT)
def test_a_stdout_that_takes_nothing(name: str) -> None:
    redirection, text = STDOUT[name]
    command = f"{sys.executable} -m ridgeline.cli machines {redirection}"
    made = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert made.stderr.startswith(f"error: {text}")
    assert len(made.stderr.splitlines()) == 1


def test_a_stdout_without_greek_letters(shipped: Any) -> None:
    """Where the encoding lacks a character, another stands for it."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    made = subprocess.run(
        [sys.executable, "-m", "ridgeline.cli", "run", shipped.model, "--calibrate",
         shipped.calibration],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "?s for one inference" in made.stdout


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
