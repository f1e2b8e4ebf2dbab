"""Checkpoints are read as PyTorch and safetensors write them, and nothing in them is run."""

from __future__ import annotations

import collections
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from published.checkpoints import read_checkpoint

WEIGHT = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
BIAS = np.array([1.5, -2.5], np.float64)


class _Storage:
    """What PyTorch pickles in the place of a tensor's bytes."""

    def __init__(self, kind: str, key: str, count: int) -> None:
        self.pid = ("storage", _Named("torch", kind), key, "cpu", count, None)


class _Named:
    """Pickles as the global `module.name`."""

    def __init__(self, module: str, name: str) -> None:
        self.text = f"c{module}\n{name}\n".encode()


class _Pickler(pickle._Pickler):  # the one written in Python, in which globals can be made up
    def persistent_id(self, obj: Any) -> Any:
        return obj.pid if isinstance(obj, _Storage) else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, _Named):
            self.write(obj.text)
        elif isinstance(obj, _Call):
            self.save(obj.function)
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(obj, save_persistent_id)


class _Call:
    def __init__(self, function: _Named, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments


def _pickled(obj: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, 2).dump(obj)
    return file.getvalue()


def _tensor(storage: _Storage, offset: int, size: Any, strides: Any) -> _Call:
    function = _Named("torch._utils", "_rebuild_tensor_v2")
    return _Call(function, storage, offset, size, strides, False, collections.OrderedDict())


def _state() -> tuple[dict[str, Any], dict[str, bytes]]:
    """A tensor stored transposed, one after an offset, and a number that is no tensor."""
    weights, bias = _Storage("FloatStorage", "7", 24), _Storage("DoubleStorage", "9", 3)
    state = {
        "weight": _tensor(weights, 0, (2, 3, 4), (3, 1, 6)),
        "bias": _tensor(bias, 1, (2,), (1,)),
        "steps": 12,
    }
    stored = WEIGHT.transpose(2, 0, 1).copy()
    return state, {"7": stored.tobytes(), "9": np.concatenate([[0.0], BIAS]).tobytes()}


def _assert_read(path: Path) -> None:
    found = read_checkpoint(path)
    assert list(found) == ["weight", "bias"]
    np.testing.assert_array_equal(found["weight"], WEIGHT)
    np.testing.assert_array_equal(found["bias"], BIAS)
    assert found["bias"].dtype == np.float64


def test_zip(tmp_path: Path) -> None:
    state, storages = _state()
    path = tmp_path / "model.pth"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model/data.pkl", _pickled(state))
        for key, content in storages.items():
            file.writestr(f"model/data/{key}", content)
    _assert_read(path)


def test_legacy(tmp_path: Path) -> None:
    state, storages = _state()
    sizes = {"7": 4, "9": 8}
    parts = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    parts += [_pickled(state), pickle.dumps(sorted(storages), 2)]
    for key in sorted(storages):
        parts += [(len(storages[key]) // sizes[key]).to_bytes(8, "little"), storages[key]]
    path = tmp_path / "model.pt"
    path.write_bytes(b"".join(parts))
    _assert_read(path)


def test_safetensors(tmp_path: Path) -> None:
    table = {
        "__metadata__": {"format": "pt"},
        "weight": {"dtype": "F32", "shape": [2, 3, 4], "data_offsets": [0, 96]},
        "bias": {"dtype": "F64", "shape": [2], "data_offsets": [96, 112]},
    }
    head = json.dumps(table).encode()
    path = tmp_path / "model.safetensors"
    content = len(head).to_bytes(8, "little") + head + WEIGHT.tobytes() + BIAS.tobytes()
    path.write_bytes(content)
    _assert_read(path)


def test_a_pickle_that_runs_something_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    call = _Call(_Named("os", "system"), "touch ran")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model/data.pkl", _pickled({"weight": call}))
    with pytest.raises(ValueError, match=r"the checkpoint names os\.system"):
        read_checkpoint(path)
    assert not Path("ran").exists()
