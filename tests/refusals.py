"""What tests of faults share: the message and nothing else, and files that are made for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

MAKE = "Make one with: numpy.savez('data.npz', NAME=array)"

IMAGES = np.zeros((4, 1, 8, 8), np.float32)


def refused(result: Any, text: str) -> None:
    """Exactly this message on stderr, nothing on stdout, exit code 2, no traceback."""
    assert result.err == f"error: {text}\n"
    assert result.out == ""
    assert result.code == 2


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
