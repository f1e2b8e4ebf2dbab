"""Commands run in this process, and a small program and data for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ridgeline.cli.app import app


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture(scope="session")
def ridgeline() -> Run:
    """`ridgeline("run", path, "--batch", 2)`."""

    def run(*arguments: Any) -> Result:
        made = CliRunner().invoke(app, [str(a) for a in arguments])
        if made.exception is not None and not isinstance(made.exception, SystemExit):
            raise made.exception
        return Result(made.exit_code, made.stdout, made.stderr)

    return run


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory, shipped: Any) -> Path:
    """The first four held-out images with their labels."""
    path = tmp_path_factory.mktemp("data") / "four.npz"
    with np.load(shipped.test) as arrays:
        np.savez(path, image=arrays["image"][:4], labels=arrays["labels"][:4])
    return path


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, shipped: Any, ridgeline: Run) -> Path:
    """The shipped model for tiny-8, in batches of two."""
    path = tmp_path_factory.mktemp("program") / "digits.rlp"
    made = ridgeline(
        "compile", shipped.model, "--machine", "tiny-8", "--batch", 2,
        "--calibrate", shipped.calibration, "-o", path,
    )  # fmt: skip
    assert made.code == 0, made.err
    return path
