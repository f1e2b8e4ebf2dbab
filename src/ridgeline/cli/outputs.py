"""Files that commands write: checked before the work begins, written beside and then renamed."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.cli.failure import discard_stdout
from ridgeline.errors import RidgelineError
from ridgeline.files import write_whole
from ridgeline.render.plain import visible

if TYPE_CHECKING:
    # `doctor` prints with this module where NumPy may be missing.
    import numpy.typing as npt


def check_writable(path: Path | None, option: str) -> None:
    """Raise RidgelineError now if a file could not be written here after the work."""
    if path is None:
        return
    try:
        reason = _obstacle(path)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise RidgelineError(
            f"cannot be written ({reason})",
            where=str(path),
            fix=f"Choose another path with {option}",
        )


def _obstacle(path: Path) -> str:
    if path.is_symlink():
        # What a link names is written, not the link; one that names itself is the system's error.
        with suppress(FileNotFoundError):
            path.stat()
        path = path.resolve()
    folder = path.parent
    if path.is_dir():
        return "it is a folder"
    if not folder.exists():
        return f"there is no folder '{folder}'"
    if not folder.is_dir():
        return f"'{folder}' is not a folder"
    if not os.access(folder, os.W_OK):
        return f"the folder '{folder}' may not be written"
    if path.exists() and not os.access(path, os.W_OK):
        return "it is write-protected"
    return ""


def check_distinct(paths: Mapping[str, Path | None]) -> None:
    """Raise RidgelineError if two options would write to one path; a device may take both."""
    options: dict[str, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        is_device = os.path.exists(real) and not os.path.isfile(real) and not os.path.isdir(real)
        if real in options and not is_device:
            raise RidgelineError(
                f"is given for both {options[real]} and {option}",
                where=str(path),
                fix="Choose another path for one of them",
            )
        options[real] = option


def check_kept(read: Mapping[str, Path | str | None], written: Mapping[str, Path | None]) -> None:
    """Raise RidgelineError if an option would write over a file that the command reads.

    Both by what the command line calls them; what is read may also be the name of no file.
    """
    files = {os.path.realpath(path): name for name, path in read.items() if path is not None}
    for option, path in written.items():
        real = "" if path is None else os.path.realpath(path)
        if real in files and os.path.isfile(real):
            raise RidgelineError(
                f"is read as {files[real]}, and {option} would write over it",
                where=str(path),
                fix=f"Choose another path with {option}",
            )


def make_folder(path: Path, option: str) -> None:
    """Make the folder of --dump-stages, or say why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RidgelineError(
            f"cannot be made ({error.strerror})", where=str(path), fix=f"Choose another {option}"
        ) from error


def write_file(path: Path, data: bytes | str) -> None:
    """Write the whole file or none of it, also when interrupted."""
    write_whole(path, data.encode() if isinstance(data, str) else data)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a .npz with these names, whatever they are."""
    import numpy as np

    stream = io.BytesIO()
    # Not numpy.savez: its own parameters, such as `file`, are names that it cannot store.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_file(path, stream.getvalue())


def say(text: str) -> None:
    """Print a result to stdout; characters that its encoding lacks become question marks.

    Raises RidgelineError when stdout is closed or its disk is full.
    """
    stream = sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise RidgelineError("is closed", where="standard output", fix="Redirect it to a file")
    line = text if text.endswith("\n") else text + "\n"
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(line.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still buffered would fail once more at exit, in Python's own words.
        discard_stdout()
        raise RidgelineError(
            f"cannot be written ({error.strerror})",
            where="standard output",
            fix="Redirect it to another file",
        ) from error


def note(text: str) -> None:
    """Print a remark of one line to stderr, so that stdout holds results only."""
    print(visible(text), file=sys.stderr)
