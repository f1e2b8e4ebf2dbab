"""Writing whole files: what is there before, where it goes, and what a failure leaves."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ridgeline.errors import RidgelineError
from ridgeline.files import write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"before")
    write_whole(target, b"after")
    assert target.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_is_written_into_and_stays_a_device() -> None:
    write_whole("/dev/null", b"anything")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_of_a_link_the_file_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"before")
    link.symlink_to(real)
    write_whole(link, b"after")
    assert link.is_symlink()
    assert real.read_bytes() == b"after"


def test_the_longest_name_that_the_system_takes(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)
    write_whole(target, b"x")
    assert target.read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("n" * 256, "File name too long"), ("no/such", "No such file or directory")],
)
def test_a_place_that_cannot_be(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RidgelineError, match=rf"cannot be written \({reason}\)\. Choose another"):
        write_whole(tmp_path / name, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_names_itself(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    reason = os.strerror(errno.ELOOP)
    with pytest.raises(RidgelineError) as found:
        write_whole(loop, b"x")
    assert str(found.value) == f"{loop}: cannot be written ({reason}). Choose another path"
    assert loop.is_symlink()
