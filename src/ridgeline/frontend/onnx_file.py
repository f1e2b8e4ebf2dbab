"""From a path or bytes to a parsed ONNX model: what can be wrong with a file is told here."""

from __future__ import annotations

import errno
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import external_data_helper

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_weightless import SMALL_ELEMENTS

_IR_VERSION_TAG = 0x08  # field 1 as a varint: how every serialised ModelProto begins

# Protobuf's own limit; a device such as /dev/zero would otherwise be read until memory ends.
MAX_MODEL_BYTES = (1 << 31) - 1
# Many tensors may name one file, so that what is read is bounded rather than the file.
MAX_EXTERNAL_BYTES = 1 << 36


def load_model(source: Path | str | bytes, weights: bool = True) -> tuple[Any, str]:
    """A parsed ModelProto with external data read, and the name to call it by in messages.

    Without `weights`, of the external data only the small tensors are read that are there.

    Raises RidgelineError for what is missing, empty, cut short, not ONNX, or reaches outside of
    the model's folder.
    """
    if isinstance(source, bytes):
        model = _parse(source, "the model's bytes")
        if weights:
            refuse_external(model)
        return model, model.graph.name or "model"
    path = Path(source)
    model = _parse(_read(path), str(path))
    _load_external(model, path, weights)
    return model, str(path)


def _read(path: Path) -> bytes:
    """The file's bytes. Every question to the file system may fail, so none is asked before."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_MODEL_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RidgelineError("no such file", where=str(path), fix=_nearby(path)) from error
    except IsADirectoryError as error:
        raise RidgelineError(
            "this is a folder, not an ONNX file", where=str(path), fix=_nearby(path / "x")
        ) from error
    except (OSError, ValueError) as error:
        raise _unreadable("the file", error, str(path)) from error
    if len(data) > MAX_MODEL_BYTES:
        raise RidgelineError(
            f"the file has more than {MAX_MODEL_BYTES:,} bytes, the limit of ONNX files",
            where=str(path),
            fix="Export the model with external data.",
        )
    return data


def _unreadable(what: str, error: OSError | ValueError, where: str) -> RidgelineError:
    """What the system says of a file: no permission, a name too long, a loop of links."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    fix = (
        "Check its permissions and those of its folder."
        if isinstance(error, PermissionError)
        else "Check the path."
    )
    return RidgelineError(f"{what} cannot be read ({reason})", where=where, fix=fix)


def _nearby(path: Path) -> str:
    folder = path.parent
    try:
        models = sorted(p.name for p in folder.glob("*.onnx")) if folder.is_dir() else []
    except OSError:
        models = []
    if not models:
        return "Give the path of an .onnx file."
    return f"ONNX files in {folder}: " + ", ".join(models[:8])


def _parse(data: bytes, where: str) -> Any:
    if not data:
        raise RidgelineError("the file is empty", where=where, fix="Export the model again.")
    try:
        model = onnx.load_model_from_string(data, format="protobuf")
    except DecodeError as error:
        if data[0] == _IR_VERSION_TAG and len(data) > 1 and data[1] < 32:
            raise RidgelineError(
                f"the file begins like ONNX but breaks off or is damaged ({len(data):,} bytes)",
                where=where,
                fix="Copy or export the model again.",
            ) from error
        raise _not_onnx(data, where) from error
    if not model.HasField("graph") or not model.opset_import or not model.ir_version:
        raise _not_onnx(data, where)
    if not model.graph.node:
        raise RidgelineError(
            "the model has no nodes", where=where, fix="Export a model that computes something."
        )
    # protobuf hands out a string that is not UTF-8 as bytes.
    damaged = next((t for t in _texts(model) if not isinstance(t, str)), None)
    if damaged is not None:
        raise RidgelineError(
            f"the name {damaged!r} is not UTF-8 text",
            where=where,
            fix="The file is damaged: copy or export the model again.",
        )
    return model


def _texts(model: Any) -> Iterator[Any]:
    """Every text in the model, at any depth."""
    for message in _messages(model):
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_STRING:
                yield from value if field.is_repeated else (value,)


def _messages(model: Any) -> Iterator[Any]:
    """A protobuf message and all inside of it, outer ones first."""
    left: list[Any] = [model]
    while left:
        message = left.pop()
        yield message
        inner: list[Any] = []
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                inner.extend(value if field.is_repeated else (value,))
        left.extend(reversed(inner))


def _not_onnx(data: bytes, where: str) -> RidgelineError:
    kinds = {b"PK": "a zip archive", b"\x89H": "HDF5", b"TFL3": "TensorFlow Lite", b"GGUF": "GGUF"}
    kind = next((k for m, k in kinds.items() if data.startswith(m) or data[4:].startswith(m)), "")
    return RidgelineError(
        "this is not an ONNX model" + (f" (it looks like {kind})" if kind else ""),
        where=where,
        fix="Export the model with torch.onnx.export, tf2onnx or another ONNX exporter.",
    )


def _external_tensors(model: Any) -> list[Any]:
    """Every TensorProto, wherever it lies in the model, that keeps its values in another file."""
    return [
        message
        for message in _messages(model)
        if isinstance(message, onnx.TensorProto)
        and external_data_helper.uses_external_data(message)
    ]


def refuse_external(
    model: Any,
    where: str = "the model's bytes",
    fix: str = "Read the model from its path instead.",
) -> None:
    """Refuse a ModelProto of which any part lies in a file, where nothing says in which folder."""
    for tensor in _external_tensors(model):
        raise RidgelineError(
            f"initializer '{tensor.name}' keeps its values in another file", where=where, fix=fix
        )


def _load_external(model: Any, path: Path, weights: bool) -> None:
    """Read external data, which must lie in the model's folder (ONNX specification, IR.md)."""
    folder = path.parent.resolve()
    read_bytes = 0
    for tensor in _external_tensors(model):
        where = f"{path}, initializer '{tensor.name}'"
        info = _external_info(tensor, where)
        if not weights and (_is_large(tensor) or not (folder / info.location).is_file()):
            continue
        try:
            tensor.raw_data = _external_bytes(folder, info, MAX_EXTERNAL_BYTES - read_bytes, where)
            read_bytes += len(tensor.raw_data)
        except (OSError, ValueError) as error:
            raise _unreadable(f"its external data '{info.location}'", error, where) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _is_large(tensor: Any) -> bool:
    return math.prod(tensor.dims) > SMALL_ELEMENTS


def _external_info(tensor: Any, where: str) -> Any:
    """Location, offset and length of a tensor's external data, the numbers not negative."""
    if not any(entry.key == "location" for entry in tensor.external_data):
        raise RidgelineError(
            "its external data name no file",
            where=where,
            fix="The file is damaged: export the model again.",
        )
    for entry in tensor.external_data:
        if entry.key in ("offset", "length") and not (
            entry.value.isascii() and entry.value.isdecimal() and len(entry.value) < 20
        ):
            raise RidgelineError(
                f"the {entry.key} of its external data is '{entry.value[:40]}', "
                "not a number of bytes",
                where=where,
                fix="The file is damaged: export the model again.",
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of keys that nobody knows, which say nothing
        return external_data_helper.ExternalDataInfo(tensor)


def _external_bytes(folder: Path, info: Any, most_bytes: int, where: str) -> bytes:
    try:
        data = (folder / info.location).resolve()
    except RuntimeError as error:  # Python 3.11 and 3.12: a loop of links
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
    if not data.is_relative_to(folder):
        raise RidgelineError(
            f"its external data '{info.location}' lies outside of the model's folder",
            where=where,
            fix="Export the model with the data beside it.",
        )
    if not data.is_file():
        raise RidgelineError(
            f"its external data file '{info.location}' is missing",
            where=where,
            fix=f"Copy it into {folder}, beside the model.",
        )
    needed = (info.offset or 0) + (info.length or 0)
    if (info.length or data.stat().st_size - (info.offset or 0)) > most_bytes:
        raise RidgelineError(
            f"the model's external data are above the limit of {MAX_EXTERNAL_BYTES:,} bytes",
            where=where,
            fix="Export a smaller model.",
        )
    if data.stat().st_size < needed:
        raise RidgelineError(
            f"its external data file '{info.location}' has {data.stat().st_size:,} bytes, "
            f"and {needed:,} are needed",
            where=where,
            fix="The file is cut short: copy it again.",
        )
    with data.open("rb") as stream:
        stream.seek(info.offset or 0)
        return stream.read(info.length) if info.length else stream.read()
