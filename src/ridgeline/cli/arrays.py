"""Arrays from a user's .npz file: each way in which they can be wrong has its own message."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.cli.memory import limit_text
from ridgeline.errors import RidgelineError, did_you_mean

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

MAKE = "Make one with: numpy.savez('data.npz', NAME=array)"


def read_arrays(path: Path) -> Arrays:
    """Every array of a .npz file by name.

    Raises RidgelineError when it is missing, unreadable, empty, no .npz, cut short, encrypted, too
    large for the memory, or holds Python objects.
    """
    where = str(path)
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise RidgelineError("this is a folder, not a .npz file", where=where, fix=MAKE)
        if found.st_size == 0:
            raise RidgelineError("the file is empty", where=where, fix=MAKE)
        if not zipfile.is_zipfile(path):
            raise _no_archive(path)
        arrays = _members(path, where)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RidgelineError("no such file", where=where, fix=MAKE) from error
    except OSError as error:
        raise RidgelineError(
            f"cannot be read ({error.strerror or error})",
            where=where,
            fix="Check the path and its permissions",
        ) from error
    if not arrays:
        raise RidgelineError("holds no arrays", where=where, fix=MAKE)
    return arrays


def _members(path: Path, where: str) -> Arrays:
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        # The directory of a damaged archive fails in many ways, each with an error of its own.
        raise RidgelineError(f"is damaged ({error})", where=where, fix=MAKE) from error
    with archive:
        return {name: _member(archive, name, where) for name in archive.files}


def _no_archive(path: Path) -> RidgelineError:
    with path.open("rb") as stream:
        head = stream.read(6)
    if head.startswith(b"PK"):
        what = "the file is cut short"
    elif head == b"\x93NUMPY":
        what = "this is a single array (.npy), which has no name"
    else:
        what = "this is not a .npz file"
    return RidgelineError(what, where=str(path), fix=MAKE)


def _member(archive: Any, name: str, where: str) -> Array:
    try:
        return np.asarray(archive[name])
    except OSError:
        raise
    except MemoryError as error:
        why = "; ".join(filter(None, (str(error), limit_text())))
        raise RidgelineError(
            f"array '{name}' does not fit into the memory ({why})".replace(" ()", ""),
            where=where,
            fix="Give fewer samples, or make the file again if it should be small",
        ) from error
    except Exception as error:
        # zipfile, zlib and NumPy each have errors of their own for what a damaged file may hold.
        raise _unreadable(name, error, where) from error


def _unreadable(name: str, error: Exception, where: str) -> RidgelineError:
    if isinstance(error, ValueError) and "pickle" in str(error):
        return RidgelineError(
            f"array '{name}' holds Python objects, which are never loaded",
            where=where,
            fix="Store it as numbers, for example with array.astype('float32')",
        )
    if isinstance(error, RuntimeError) and "encrypted" in str(error):
        return RidgelineError(f"array '{name}' is encrypted", where=where, fix=MAKE)
    if isinstance(error, NotImplementedError):
        return RidgelineError(
            f"array '{name}' is packed in a way that is not read here ({error})",
            where=where,
            fix=MAKE,
        )
    return RidgelineError(
        f"array '{name}' is damaged ({error})", where=where, fix="Copy or make the file again"
    )


def fit_arrays(
    arrays: Mapping[str, Array], wanted: Mapping[str, tuple[tuple[int, ...], Any]], path: Path
) -> Arrays:
    """The arrays of the wanted names, of the wanted number formats and trailing dimensions.

    `wanted` maps a name to its shape in the model and its NumPy type; the first dimension may
    differ, as it counts samples. Other arrays of the file are left out.
    """
    fitting = {
        name: _fit(name, arrays, shape, np.dtype(dtype), str(path))
        for name, (shape, dtype) in wanted.items()
    }
    counts = {name: len(array) for name, array in fitting.items() if array.ndim}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise RidgelineError(
            f"arrays have different numbers of samples: {listed}",
            where=str(path),
            fix="Give every input the same first dimension",
        )
    return fitting


def _fit(
    name: str, arrays: Mapping[str, Array], shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> Array:
    expected = f"{dtype}[{', '.join(['samples', *map(str, shape[1:])])}]"
    if name not in arrays:
        raise RidgelineError(
            f"has no array '{name}', which the model takes as {expected}",
            where=where,
            fix=f"It has: {', '.join(sorted(arrays))}. Store it as numpy.savez(..., {name}=array)"
            if arrays
            else did_you_mean(name, arrays),
        )
    array = arrays[name]
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        raise RidgelineError(
            f"array '{name}' has shape {list(array.shape)}, the model takes {expected}",
            where=where,
            fix="Reshape the array, or set the model's dimensions with --shape",
        )
    if array.size == 0:
        raise RidgelineError(f"array '{name}' has no samples", where=where, fix="Give at least one")
    return _converted(name, array, dtype, where)


def _converted(name: str, array: Array, dtype: np.dtype[Any], where: str) -> Array:
    if array.dtype != dtype:
        if dtype.kind != "f" or array.dtype.kind not in "fiub":
            raise RidgelineError(
                f"array '{name}' is {array.dtype}, the model takes {dtype}",
                where=where,
                fix=f"Convert it with array.astype('{dtype}')",
            )
        array = _narrowed(name, array, dtype, where)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise RidgelineError(
            f"array '{name}' has {bad:,} NaN or infinite values of {array.size:,}",
            where=where,
            fix="Remove or repair those samples",
        )
    return array


def _narrowed(name: str, array: Array, dtype: np.dtype[Any], where: str) -> Array:
    """The array in another floating-point format, which may be too small for its values."""
    with np.errstate(all="ignore"):
        narrow = array.astype(dtype)
    bad = int((np.isfinite(array) & ~np.isfinite(narrow)).sum())
    if bad:
        raise RidgelineError(
            f"array '{name}' has {bad:,} values of {array.size:,} that are too large for {dtype}",
            where=where,
            fix="Scale or remove those samples",
        )
    return narrow


def read_labels(arrays: Mapping[str, Array], count: int, path: Path) -> npt.NDArray[np.int64]:
    """The array `labels`: one whole number for each of `count` samples."""
    if "labels" not in arrays:
        raise RidgelineError(
            "has no array 'labels', which --labels needs",
            where=str(path),
            fix=f"It has: {', '.join(sorted(arrays))}. Store the classes' numbers as 'labels'",
        )
    labels = arrays["labels"]
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        raise RidgelineError(
            f"array 'labels' is {labels.dtype}{list(labels.shape)}, not int64[{count}]",
            where=str(path),
            fix="Give one class number for each sample",
        )
    most = int(labels.max(initial=0))
    if most > np.iinfo(np.int64).max:
        raise RidgelineError(
            f"label {most} in array 'labels' is no class's number",
            where=str(path),
            fix="Count classes from 0",
        )
    return labels.astype(np.int64)


def sample_count(arrays: Mapping[str, Array]) -> int:
    """How many samples arrays hold, by input name; 1 where no input has a dimension for them."""
    return max((len(a) for a in arrays.values() if a.ndim), default=1)


def batches(arrays: Mapping[str, Array], size: int) -> Iterator[tuple[Arrays, int]]:
    """The samples in batches of `size`, each with how many of it count.

    The last one is filled up with samples from the beginning.
    """
    count = sample_count(arrays)
    for start in range(0, count, size):
        indices = np.arange(start, start + size) % count
        part = {n: a[indices] if a.ndim else a for n, a in arrays.items()}
        yield part, min(size, count - start)
