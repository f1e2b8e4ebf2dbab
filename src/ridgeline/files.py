"""Files are written whole or not at all: beside their place first, then renamed into it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ridgeline.errors import RidgelineError


def write_whole(path: Path | str, data: bytes, fix: str = "Choose another path") -> None:
    """Write `data` to `path`, leaving nothing behind when it fails or is interrupted.

    Raises RidgelineError with the system's reason and `fix` as the next step.
    """
    target = Path(path)
    beside = ""
    try:
        handle, beside = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)
        os.replace(beside, target)
        beside = ""
    except OSError as error:
        raise RidgelineError(
            f"cannot be written ({error.strerror})", where=str(target), fix=fix
        ) from error
    finally:
        if beside:
            Path(beside).unlink(missing_ok=True)
