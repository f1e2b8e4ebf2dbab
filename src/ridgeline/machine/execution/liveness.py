"""Which sums in the accumulators are read again after a Requant has read them."""

from __future__ import annotations

from ridgeline.machine.instructions import MatMul, Requant
from ridgeline.machine.program import Program


def read_again(program: Program) -> set[int]:
    """The Requants, by place among all device instructions, whose entries are read once more
    before they are overwritten.
    """
    live = bytearray(program.machine.array.accumulator_entries)
    found: set[int] = set()
    instructions = program.instructions
    for place in range(len(instructions) - 1, -1, -1):
        one = instructions[place]
        if isinstance(one, MatMul):
            live[one.entry : one.entry + one.m] = (b"\1" if one.accumulate else b"\0") * one.m
        elif isinstance(one, Requant):
            end = one.entry + one.m
            if live.find(1, one.entry, end) >= 0:
                found.add(place)
            live[one.entry : end] = b"\1" * one.m
    return found
