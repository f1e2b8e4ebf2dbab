"""How often a program can run when runs follow each other without a pause.

The next run's transfers and first layers overlap the end of the one before, where no buffer that is
still needed is in the way. The interval is what a second run adds to the time of the first.
"""

from __future__ import annotations

import numpy as np

from ridgeline.machine.code import Code
from ridgeline.machine.order import synchronise_code
from ridgeline.machine.program import DeviceSegment, HostSegment, Program
from ridgeline.machine.resident import still_there, warm_program
from ridgeline.machine.simulate import host_cycles, simulate, simulate_code


def steady_cycles(program: Program) -> int:
    """Cycles between two runs in steady state.

    The host works on other runs meanwhile and keeps two sets of its tensors, so the interval is the
    longer of its work and the accelerator's. The accelerator's is that of a second run right behind
    the first: the same addresses, and the same instructions but for those that bring what is there
    already, with waits that order both.
    """
    host = sum(
        host_cycles(segment, program.machine)
        for segment in program.segments
        if isinstance(segment, HostSegment)
    )
    codes = [s.code for s in program.segments if isinstance(s, DeviceSegment)]
    if not any(len(code) for code in codes):
        return host
    once = Code.joined(codes)
    warm = once.ordered(np.flatnonzero(~still_there(program)))
    return max(host, _cycles(program, Code.joined([once, warm])) - _cycles(program, once))


def warm_cycles(program: Program) -> int:
    """Cycles of a run by itself that finds what the run before left on chip."""
    return simulate(warm_program(program)).cycles


def _cycles(program: Program, code: Code) -> int:
    """The cycles of these instructions in one segment, with waits that order them."""
    bare = code.with_waits(np.zeros_like(code.waits))
    machine, sizes = program.machine, (program.host_bytes, program.device_bytes)
    return simulate_code(synchronise_code(bare, machine, *sizes), machine)[1]
