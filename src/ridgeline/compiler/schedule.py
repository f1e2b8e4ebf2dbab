"""Prefetch: loads move up to just behind the last instruction that they must follow.

Program order is what the dispatcher sees, so an early place lets the load and weights units run
ahead of the array: the next tile, and the next layer's first weights, arrive while it computes.
"""

from __future__ import annotations

import numpy as np

from ridgeline.machine.code import Code
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights
from ridgeline.machine.order import last_conflicts

PREFETCHED = (Load, LoadWeights, LoadParams)
WINDOW = 48
"""How many places a load may move up: the queues are short, and too early only fills them."""


def prefetch(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Code:
    """The same instructions in an order of the same meaning, loads as early as they may be."""
    index = np.arange(len(code))
    moved = np.isin(code.opcodes, [kind.opcode for kind in PREFETCHED])
    after = last_conflicts(code, machine, host_bytes, device_bytes)
    behind = np.where(moved, np.maximum(after, index - WINDOW - 1), index)
    return code.ordered(np.lexsort((index, moved, behind)))
