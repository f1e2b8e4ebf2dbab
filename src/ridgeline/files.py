"""Files are written whole or not at all: beside their place first, then renamed into it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ridgeline.errors import RidgelineError


def write_whole(path: Path | str, data: bytes, fix: str = "Choose another path") -> None:
    """Write `data` to `path`, leaving nothing behind when it fails or is interrupted.

    A device or a pipe, such as /dev/null, is written into and never replaced; of a link, the file
    that it names is replaced. Raises RidgelineError with the system's reason and `fix` as the next
    step.
    """
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RidgelineError(f"cannot be written ({reason})", where=str(path), fix=fix) from error


def _replace(target: Path, data: bytes) -> None:
    beside = ""
    try:
        # A name of its own: the target's may be as long as names can be.
        handle, beside = tempfile.mkstemp(prefix=".ridgeline-", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)
        os.replace(beside, target)
        beside = ""
    finally:
        if beside:
            Path(beside).unlink(missing_ok=True)
