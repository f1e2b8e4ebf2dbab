"""Which lines of the unified buffer wait to be read or written."""

from __future__ import annotations

import numpy as np


class LineSet:
    """Lines, added and asked for by closed intervals [first, last]."""

    def __init__(self, lines: int) -> None:
        self._held = np.zeros(lines, np.bool_)
        self._first, self._last = lines, -1

    def add(self, first: int, last: int) -> None:
        if last >= first:
            self._held[first : last + 1] = True
            self._first, self._last = min(self._first, first), max(self._last, last)

    def hits(self, first: int, last: int) -> bool:
        """Whether any line of [first, last] is held."""
        first, last = max(first, self._first), min(last, self._last)
        return last >= first and bool(self._held[first : last + 1].any())

    def clear(self) -> None:
        if self._last >= 0:
            self._held[self._first : self._last + 1] = False
            self._first, self._last = self._held.size, -1
