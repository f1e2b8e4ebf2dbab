"""What weight and parameter slots hold while planning, and loads that are not performed yet.

A load of constants is performed only when an instruction that runs as it is needs the slot.
"""

from __future__ import annotations

from ridgeline.machine.execution.constants import Parameters, Tile
from ridgeline.machine.instructions import LoadParams, LoadWeights


class WeightSlots:
    """The tile of each weight slot, where it is a constant."""

    def __init__(self) -> None:
        self._tiles: dict[int, Tile | None] = {}
        self._owed: dict[int, LoadWeights | None] = {}

    def load(self, one: LoadWeights, tile: Tile | None) -> None:
        """The slot now holds `tile`, still to be loaded; None: something that was loaded."""
        self._tiles[one.slot] = tile
        self._owed[one.slot] = None if tile is None else one

    def tile(self, slot: int) -> Tile | None:
        return self._tiles.get(slot)

    def owed(self, slot: int) -> list[LoadWeights]:
        """Loads to be performed before the slot is read as it is; asked for once."""
        one = self._owed.pop(slot, None)
        return [] if one is None else [one]


class ParameterSlots:
    """Bias and scale of each parameter slot, where they are constants."""

    def __init__(self) -> None:
        self._held: dict[int, Parameters] = {}
        self._owed: dict[int, list[LoadParams]] = {}

    def load(self, one: LoadParams, parameters: Parameters | None) -> None:
        """The slot's first lanes now hold `parameters`, still to be loaded; None: something that
        was loaded, after what was owed.
        """
        self._held.pop(one.slot, None)
        if parameters is not None:
            self._held[one.slot] = parameters
            owed = self._owed.setdefault(one.slot, [])
            # Lanes beyond a load keep what they held: only loads that are covered whole are void.
            owed[:] = [*(other for other in owed if other.count > one.count), one]

    def parameters(self, slot: int, channels: int) -> Parameters | None:
        """What the first `channels` lanes hold, where that is known."""
        held = self._held.get(slot)
        return held if held is not None and held.bias.size >= channels else None

    def owed(self, slot: int) -> list[LoadParams]:
        """Loads to be performed before the slot is read, or loaded, as it is; asked for once."""
        return self._owed.pop(slot, [])
