"""Tensors of a PyTorch checkpoint or a safetensors file, as NumPy arrays, without either library.

PyTorch's wheels weigh gigabytes and its checkpoints are pickles, which may run code. Here a pickle
may only name the few things that a dictionary of tensors is made of; anything else is refused.
Formats: torch/serialization.py (legacy and zip files), github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_STORAGES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2"}
_STORAGES |= {"LongStorage": "<i8", "IntStorage": "<i4"}
_SAFETENSORS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4"}


def read_checkpoint(path: Path) -> dict[str, Array]:
    """Tensors by name. Raises ValueError for a file that holds anything but tensors."""
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if zipfile.is_zipfile(path):
        return _read_zip(path)
    return _read_legacy(path)


def _read_safetensors(path: Path) -> dict[str, Array]:
    """A length, a JSON table of names, types and offsets, then the bytes."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table: dict[str, Any] = json.loads(content[8:start])
    table.pop("__metadata__", None)
    tensors: dict[str, Array] = {}
    for name, entry in table.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        flat = np.frombuffer(content[begin:end], _SAFETENSORS[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


class _Tensor:
    """A tensor whose storage is known only later, as in a legacy file."""

    def __init__(self, key: str, offset: int, size: tuple[int, ...], strides: tuple[int, ...]):
        self.key, self.offset, self.size, self.strides = key, offset, size, strides

    def array(self, storages: dict[str, Array]) -> Array:
        flat = storages[self.key][self.offset :]
        strides = [s * flat.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.size, strides).copy()


class _Unpickler(pickle.Unpickler):
    """Reads dictionaries of tensors. Storages come as their key, whose type it notes."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.types: dict[str, str] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name == "torch" and global_name in _STORAGES:
            return _STORAGES[global_name]
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda k, o, n, s, *_: _Tensor(k, o, n, s),
            ("torch._utils", "_rebuild_tensor"): _Tensor,
            ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
        }
        if (module_name, global_name) not in known:
            raise ValueError(f"the checkpoint names {module_name}.{global_name}")
        return known[module_name, global_name]

    def persistent_load(self, pid: Any) -> str:
        _, dtype, key, *_ = pid
        self.types[key] = dtype
        return key


def _read_legacy(path: Path) -> dict[str, Array]:
    """Pickles of a magic number, a version, the system, the object and the storages' keys, then
    each storage as its length and its elements.
    """
    with path.open("rb") as file:
        for _ in range(3):
            _Unpickler(file).load()
        unpickler = _Unpickler(file)
        found = unpickler.load()
        storages: dict[str, Array] = {}
        for key in _Unpickler(file).load():
            dtype = np.dtype(unpickler.types[key])
            count = int.from_bytes(file.read(8), "little")
            storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return _arrays(found, storages)


def _read_zip(path: Path) -> dict[str, Array]:
    """data.pkl, and each storage in a file of its own."""
    with zipfile.ZipFile(path) as file:
        name = next(n for n in file.namelist() if n.endswith("/data.pkl"))
        with file.open(name) as pickled:
            unpickler = _Unpickler(pickled)
            found = unpickler.load()
        folder = name.removesuffix("data.pkl") + "data/"
        storages = {
            key: np.frombuffer(file.read(folder + key), dtype)
            for key, dtype in unpickler.types.items()
        }
    return _arrays(found, storages)


def _arrays(found: dict[str, Any], storages: dict[str, Array]) -> dict[str, Array]:
    return {n: t.array(storages) for n, t in found.items() if isinstance(t, _Tensor)}
