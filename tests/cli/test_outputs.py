"""Files that commands write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ridgeline.cli.arrays import read_arrays
from ridgeline.cli.outputs import check_writable, write_arrays
from ridgeline.errors import RidgelineError


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


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("link", "Too many levels of symbolic links"),
        ("none/out", "there is no folder '{folder}/none'"),
        (".", "it is a folder"),
    ],
)
def test_a_link_is_checked_by_what_it_names(target: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / target)
    with pytest.raises(RidgelineError) as caught:
        check_writable(path, "--json")
    expected = reason.format(folder=tmp_path.resolve())
    assert str(caught.value) == (
        f"{path}: cannot be written ({expected}). Choose another path with --json"
    )


def test_a_link_to_what_is_not_there_yet_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "new")
    check_writable(path, "--json")
