"""Which sums in the accumulators are read again after a Requant has read them."""

from __future__ import annotations

import numpy as np

from ridgeline.machine.instructions import MatMul, Requant
from ridgeline.machine.program import Program


def read_again(program: Program) -> set[int]:
    """The Requants, by place among all device instructions, whose entries are read once more
    before they are overwritten.
    """
    live = np.zeros(program.machine.array.accumulator_entries, np.bool_)
    found: set[int] = set()
    instructions = program.instructions
    for place in range(len(instructions) - 1, -1, -1):
        one = instructions[place]
        if isinstance(one, MatMul):
            live[one.entry : one.entry + one.m] = bool(one.accumulate)
        elif isinstance(one, Requant):
            entries = live[one.entry : one.entry + one.m]
            if entries.any():
                found.add(place)
            entries[...] = True
    return found
