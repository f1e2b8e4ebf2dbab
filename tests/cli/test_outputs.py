"""Files that commands write."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ridgeline.cli.arrays import read_arrays
from ridgeline.cli.outputs import write_arrays


def test_arrays_of_any_name_read_back(tmp_path: Path) -> None:
    """Also of names that numpy.savez takes for its own parameters."""
    arrays = {
        name: np.arange(6.0).reshape(2, 3)
        for name in ("file", "args", "allow_pickle", "a/b", "层", "x.npy")
    }
    path = tmp_path / "out.npz"
    write_arrays(path, {**arrays, "scalar": np.array(1)})
    found = read_arrays(path)
    assert {"file", "args", "allow_pickle", "a/b", "层", "scalar"} <= set(found)
    assert np.array_equal(found["file"], arrays["file"])


def test_the_same_arrays_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_arrays(tmp_path / name, {"x": np.zeros(3)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
