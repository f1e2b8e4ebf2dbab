"""Where an instruction reads and writes: nested walks over places, not lists of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.machine.instructions.state import Accesses, Places, granules, nested

Axis = tuple[int, int, int, int]
"""(origin, step an index, limit, step a tap) of a coordinate along x or y."""

INSIDE: Axis = (0, 0, 1, 0)
"""A coordinate that never leaves the tensor."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Places base + sum(index * stride) of a space, over all indices below `counts`.

    Five levels at most: x, y, image, tap along x, tap along y. What lies outside of `x` or `y` (see
    `Axis`) is not touched. `element_bytes` > 0: base and strides are bytes, and the places are the
    granules of elements so long. `planes`: lines touched from each place on. `forwarded`: read at
    the write stage of the same pipeline, so that back-to-back use by one unit is in order.

    The operands of an instruction may be columns (`Code.whole`); then these are columns too. A walk
    that an operand switches off has a count of 0.
    """

    space: str
    base: int
    counts: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    writes: bool = False
    element_bytes: int = 0
    planes: int = 1
    x: Axis = INSIDE
    y: Axis = INSIDE
    forwarded: bool = False

    def places(self) -> Places:
        """Every place touched, some perhaps twice; distinct ones for bytes."""
        found = nested(self.base, self.counts, self.strides)
        if self.element_bytes:
            return granules(found, self.element_bytes) if found.size else found
        if self.x != INSIDE or self.y != INSIDE:
            found = found[self._inside()]
        return np.concatenate([found + plane for plane in range(self.planes)])

    def _inside(self) -> npt.NDArray[np.bool_]:
        """Which indices lie inside, in the order of the walk: x fastest, tap along y slowest."""
        counts = (*self.counts, *(1,) * (5 - len(self.counts)))
        x, y = (
            origin + np.arange(counts[level]) * step + np.arange(counts[level + 3])[:, None] * tap
            for level, (origin, step, _, tap) in enumerate((self.x, self.y))
        )
        ok_x, ok_y = ((at >= 0) & (at < axis[2]) for at, axis in ((x, self.x), (y, self.y)))
        inside = ok_y[:, None, None, :, None] & ok_x[None, :, None, None, :]
        return np.broadcast_to(inside, counts[::-1]).reshape(-1)


def accesses_of(walks: Iterable[Walk]) -> Accesses:
    """The places of walks by space; spaces in which nothing is walked are left out."""
    reads: dict[str, Places] = {}
    writes: dict[str, Places] = {}
    forwarded: set[str] = set()
    for walk in walks:
        if not all(walk.counts):
            continue
        table, places = (writes if walk.writes else reads), walk.places()
        known = table.get(walk.space)
        table[walk.space] = places if known is None else np.concatenate([known, places])
        if walk.forwarded:
            forwarded.add(walk.space)
    return Accesses(reads, writes, frozenset(forwarded))
