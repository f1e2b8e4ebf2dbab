"""Working arrays that steps use one after the other, made once and as large as the largest use."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt


class Scratch:
    """Arrays by name; what a name held before is lost when it is asked for again."""

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array with arbitrary contents."""
        kind = np.dtype(kind)
        needed_bytes = prod(shape) * kind.itemsize
        held = self._arrays.get(name)
        if held is None or held.size < needed_bytes:
            held = np.empty(needed_bytes, np.uint8)
            self._arrays[name] = held
        return held[:needed_bytes].view(kind).reshape(shape)
