"""The order of the program: what can start first stands first.

Program order is what the dispatcher sees, and a full queue holds up all that follows. So loads are
hoisted to just behind what they must follow, the program is simulated with queues without end, and
instructions are sorted by when they start there: then none waits in a queue before its time.
"""

from __future__ import annotations

import numpy as np

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, Requant, Unit
from ridgeline.machine.order import last_conflicts, synchronise_code
from ridgeline.machine.simulate import simulate_code

LOADS = (Load, LoadWeights, LoadParams)


def prefetch(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Code:
    """The same instructions with their waits, in an order of the same meaning, each as early as it
    may be.

    The order of starts keeps each unit's own order and every conflict's, and waits count
    instructions of one unit: so they hold in it as they were derived.
    """
    from ridgeline.machine import timeline  # Numba loads slowly, and `--help` needs none.

    hoisted = code.ordered(_hoisted(code, machine, host_bytes, device_bytes))
    ordered = synchronise_code(hoisted, machine, host_bytes, device_bytes)
    times, _ = simulate_code(ordered, machine, len(code) + 1)
    return ordered.ordered(np.argsort(times[:, timeline.START], kind="stable"))


def _hoisted(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> Integers:
    """Loads, and vector work on rows that are complete while the array still makes others, just
    behind the last that they must follow; all else as emitted.
    """
    vector = code.units == Unit.VECTOR
    moved = np.isin(code.opcodes, [kind.opcode for kind in LOADS])
    moved |= vector & (code.opcodes != Requant.opcode)
    index = np.arange(len(code))
    after = last_conflicts(code, machine, host_bytes, device_bytes)
    # Vector work passes other layers, not its own: those rows are needed as they were emitted.
    for layer in np.unique(code.layers):
        own = np.flatnonzero((code.layers == layer) & vector)
        after[own] = np.maximum.accumulate(after[own])
    return np.lexsort((index, moved, np.where(moved, after, index)))
