"""Samples and labels that cannot be used: one message, what, where and what next; exit code 2."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from refusals import IMAGES, MAKE, refused, saved, written
from ridgeline import api

Run = Callable[..., Any]

WANTED = "float32[samples, 1, 8, 8]"


def _cut(path: Path) -> Path:
    return written(path, saved(path, image=IMAGES).read_bytes()[:300])


def _flipped(path: Path) -> Path:
    data = saved(path, image=IMAGES).read_bytes()
    return written(path, data[:200] + bytes([data[200] ^ 255]) + data[201:])


def _single(path: Path) -> Path:
    with path.open("wb") as stream:
        np.save(stream, IMAGES)
    return path


def _nan(path: Path) -> Path:
    images = IMAGES.copy()
    images[0, 0, 0, 0] = np.nan
    return saved(path, image=images)


def _patched(path: Path, offset: int, value: bytes) -> Path:
    """The archive with other bytes at this offset of both headers of its only member."""
    saved(path, image=IMAGES)
    data = bytearray(path.read_bytes())
    for place in (offset, data.index(b"PK\1\2") + offset + 2):
        data[place : place + len(value)] = value
    return written(path, bytes(data))


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
    "empty": (lambda p: written(p, b""), f"the file is empty. {MAKE}"),
    "noise": (lambda p: written(p, b"noise" * 20), f"this is not a .npz file. {MAKE}"),
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
        lambda p: saved(p, image=np.full((4, 1, 8, 8), 1e300)),
        "array 'image' has 256 values of 256 that are too large for float32. Scale or remove those"
        " samples",
    ),
    "no arrays": (lambda p: saved(p), f"holds no arrays. {MAKE}"),
    "objects": (
        lambda p: saved(p, image=np.asarray([{}], dtype=object)),
        "array 'image' holds Python objects, which are never loaded. Store it as numbers, for"
        " example with array.astype('float32')",
    ),
    "names": (
        lambda p: saved(p, img=IMAGES, y=IMAGES),
        f"has no array 'image', which the model takes as {WANTED}. It has: img, y. Store it as"
        " numpy.savez(..., image=array)",
    ),
    "shape": (
        lambda p: saved(p, image=IMAGES.reshape(4, 64)),
        f"array 'image' has shape [4, 64], the model takes {WANTED}. Reshape the array, or set the"
        " model's dimensions with --shape",
    ),
    "text": (
        lambda p: saved(p, image=np.full((4, 1, 8, 8), "a")),
        "array 'image' is <U1, the model takes float32. Convert it with array.astype('float32')",
    ),
    "no samples": (
        lambda p: saved(p, image=IMAGES[:0]),
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
    refused(ridgeline("run", shipped.model, option, path), f"{path}: {text}")


LOOP = "cannot be read (Too many levels of symbolic links). Check the path and its permissions"

LONG = "cannot be read (File name too long). Check the path and its permissions"


def test_data_behind_a_link_to_itself(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = tmp_path / "loop.npz"
    path.symlink_to(path)
    refused(ridgeline("run", shipped.model, "--input", path), f"{path}: {LOOP}")


def test_data_with_a_name_that_is_too_long(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300 + ".npz")
    refused(ridgeline("run", shipped.model, "--input", path), f"{path}: {LONG}")


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
    refused(ridgeline("run", shipped.model, "--input", path), text)


def test_data_in_a_folder(ridgeline: Run, shipped: Any, tmp_path: Path) -> None:
    text = f"{tmp_path}: this is a folder, not a .npz file. {MAKE}"
    refused(ridgeline("run", shipped.model, "--input", tmp_path), text)


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
    path = saved(tmp_path / "data.npz", image=IMAGES, **arrays)
    refused(ridgeline("run", shipped.model, "-i", path, "--labels"), text.format(path=path))


def test_bad_labels_of_a_program(ridgeline: Run, program: Path, tmp_path: Path) -> None:
    path = saved(tmp_path / "data.npz", image=IMAGES, labels=np.full(4, 10))
    refused(
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
