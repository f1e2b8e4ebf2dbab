"""How often a program can run when runs follow each other without a pause.

The next run's transfers and first layers overlap the end of the one before, where no buffer that is
still needed is in the way. The interval is what a second run adds to the time of the first.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeline.machine.instructions import NO_WAITS, Instruction
from ridgeline.machine.order import synchronise
from ridgeline.machine.program import HostSegment, Program
from ridgeline.machine.simulate import host_cycles, simulate_instructions


def steady_cycles(program: Program) -> int:
    """Cycles between two runs in steady state.

    The host works on other runs meanwhile and keeps two sets of its tensors, so the interval is the
    longer of its work and the accelerator's. The accelerator's is that of a second run right behind
    the first: the same instructions and addresses, with waits that order both.
    """
    host = sum(
        host_cycles(segment, program.machine)
        for segment in program.segments
        if isinstance(segment, HostSegment)
    )
    once = [replace(one, waits=NO_WAITS) for one in program.instructions]
    if not once:
        return host
    return max(host, _cycles(program, [*once, *once]) - _cycles(program, once))


def _cycles(program: Program, instructions: list[Instruction]) -> int:
    ordered = synchronise(instructions, program.machine, program.host_bytes, program.device_bytes)
    return simulate_instructions(ordered, program.machine)[1]
