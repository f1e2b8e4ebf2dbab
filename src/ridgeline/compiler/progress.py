"""How far compiling is, in layers, for whoever watches it.

Nearly all of the time goes into trying schedules of a whole segment; as large a share of its layers
counts as done as is spent of what may be spent on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ridgeline.compiler.plan import TiledLayer
from ridgeline.compiler.refine import MOST_INSTRUCTIONS, MOST_OF_SMALL, SMALL, Cost, Trial

STARTS = 6
"""Trials of a segment before the search, at most."""


class Progress:
    """Calls `done` with how many more layers are done; never twice for one."""

    def __init__(self, done: Callable[[int], None] | None) -> None:
        self._done = done
        self._layers = self._told = self._spent = 0

    def host(self, layers: int) -> None:
        """Layers that are not scheduled at all."""
        if self._done is not None and layers:
            self._done(layers)

    def watch(self, cost: Cost, layers: int) -> Cost:
        """`cost` for a segment of so many layers, counted until `finish`."""
        self._layers, self._told, self._spent = layers, 0, 0
        if self._done is None:
            return cost

        def counted(tiled: Sequence[TiledLayer]) -> Trial:
            trial = cost(tiled)
            size = len(trial.code)
            self._spent += size
            most = STARTS * size + (MOST_OF_SMALL if size <= SMALL else MOST_INSTRUCTIONS)
            self._tell(min(layers, layers * self._spent // most))
            return trial

        return counted

    def finish(self) -> None:
        """The segment's schedule is chosen."""
        self._tell(self._layers)

    def _tell(self, layers: int) -> None:
        if self._done is not None and layers > self._told:
            self._done(layers - self._told)
            self._told = layers
