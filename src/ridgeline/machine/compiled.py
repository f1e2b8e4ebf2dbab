"""Loops over whole programs, compiled to machine code when they are first used.

Numba keeps the machine code on disk beside the source. Where Numba is missing, the same functions
run as plain Python: slower, with the same results. A kernel calls only kernels of its own file,
since that file's date is what tells Numba that the code on disk is old. Files of kernels are
imported by the functions that need them, so that `import ridgeline` does not wait for Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function` in machine code: numbers and arrays in, numbers and arrays out."""
    try:
        numba: Any = import_module("numba")
    except ImportError:
        return function
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # There is no folder to keep the machine code in.
        return numba.njit(function)
