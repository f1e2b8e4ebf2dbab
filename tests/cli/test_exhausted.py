"""Memory, disk, permissions and stdout that give out: one message, and no half of a file."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refusals import refused
from ridgeline import api
from ridgeline.cli import model as model_commands
from ridgeline.errors import RidgelineError

Run = Callable[..., Any]


def test_memory_that_runs_out(
    ridgeline: Run, shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(api, "compile", exhaust)
    refused(ridgeline("run", shipped.model), "there is not enough memory. Use a smaller --batch")


def test_memory_that_runs_out_in_a_command_without_batches(
    ridgeline: Run, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(api, "simulate", exhaust)
    text = "there is not enough memory. Use a smaller model or fewer samples"
    refused(ridgeline("simulate", program), text)


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


def test_a_folder_without_permission(
    ridgeline: Run, shipped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any user: the superuser, who may write everywhere, is told what others are told."""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    result = ridgeline("run", shipped.model, "--json", tmp_path / "r.json")
    assert re.search(r"cannot be written \(the folder .* may not be written\)", result.err)
    assert result.code == 2


def test_a_file_that_fails_in_a_place_of_its_own(
    ridgeline: Run, shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever opens it: one message that names the file."""

    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/closed/m.toml")

    monkeypatch.setattr(api, "load_machine", denied)
    text = "/closed/m.toml: cannot be used (Permission denied). Check the path"
    refused(ridgeline("run", shipped.model, "--machine", "/closed/m.toml"), text)


def test_a_reader_that_stops_early(program: Path) -> None:
    command = f"{sys.executable} -m ridgeline.cli disassemble {program} | head -2"
    made = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert made.stderr == ""
    assert len(made.stdout.splitlines()) == 2


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
