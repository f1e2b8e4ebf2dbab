"""Files are written whole or not at all: beside their place first, then renamed into it. Those that
are read whole are read up to a limit, since a device such as /dev/zero never ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from ridgeline.errors import RidgelineError


def read_whole(path: Path | str, most_bytes: int) -> bytes:
    """What a file holds. Raises OSError, and RidgelineError when it has more than `most_bytes`."""
    with Path(path).open("rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise RidgelineError(
            f"has more than {most_bytes:,} bytes, the limit for such a file", where=str(path)
        )
    return data


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
    except (OSError, RuntimeError) as error:
        # Python 3.11 and 3.12 tell of a loop of links with a RuntimeError.
        loop = os.strerror(errno.ELOOP)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else loop
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
