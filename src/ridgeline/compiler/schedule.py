"""Prefetch: loads move up to just behind the last instruction that they must follow.

Program order is what the dispatcher sees, so an early place lets the load and weights units run
ahead of the array: the next tile, and the next layer's first weights, arrive while it computes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.builder import Traced
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights
from ridgeline.machine.instructions.state import Accesses
from ridgeline.machine.order import space_sizes

PREFETCHED = (Load, LoadWeights, LoadParams)
WINDOW = 48
"""How many places a load may move up: the queues are short, and too early only fills them."""


def prefetch(
    code: list[Traced], machine: Machine, host_bytes: int, device_bytes: int
) -> list[Traced]:
    """The same instructions in an order of the same meaning, loads as early as they may be."""
    last = _LastUse(space_sizes(machine, host_bytes, device_bytes))
    keys: list[tuple[int, int, int]] = []
    for index, (instruction, accesses) in enumerate(code):
        after = last.conflict(accesses)
        last.record(index, accesses)
        if isinstance(instruction, PREFETCHED):
            keys.append((max(after, index - WINDOW - 1), 1, index))
        else:
            keys.append((index, 0, index))
    order = sorted(range(len(code)), key=lambda i: keys[i])
    return [code[i] for i in order]


class _LastUse:
    """Program positions of the last read and write of every place."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.read: dict[str, npt.NDArray[np.int64]] = {}
        self.written: dict[str, npt.NDArray[np.int64]] = {}
        for space, size in sizes.items():
            self.read[space] = np.full(size, -1, np.int64)
            self.written[space] = np.full(size, -1, np.int64)

    def conflict(self, accesses: Accesses) -> int:
        """The last position whose instruction must stay before one with these accesses."""
        after = -1
        for space, places in accesses.reads.items():
            after = max(after, int(self.written[space][places].max(initial=-1)))
        for space, places in accesses.writes.items():
            after = max(after, int(self.written[space][places].max(initial=-1)))
            after = max(after, int(self.read[space][places].max(initial=-1)))
        return after

    def record(self, index: int, accesses: Accesses) -> None:
        for space, places in accesses.reads.items():
            self.read[space][places] = index
        for space, places in accesses.writes.items():
            self.written[space][places] = index
