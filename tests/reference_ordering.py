"""The derivation of waits written plainly, over sets of places: what `ordering` is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Accesses, Instruction
from ridgeline.machine.order import UNITS, Conflict, OrderTracker
from ridgeline.machine.walks import space_sizes


def synchronise_plainly(
    instructions: Sequence[Instruction], machine: Machine, host_bytes: int, device_bytes: int
) -> tuple[Instruction, ...]:
    """The same instructions with waits that order every conflict, each of them necessary."""
    code = [(i, i.accesses(machine)) for i in instructions]
    tracker = OrderTracker(machine, space_sizes(machine, host_bytes, device_bytes))
    result: list[Instruction] = []
    for instruction, accesses in code:
        waits = _ordering_waits(tracker, instruction, accesses)
        tracker.record(instruction, accesses, tracker.clocks_with(instruction.unit, waits)[0])
        changed = (*waits,) != instruction.waits
        result.append(replace(instruction, waits=(*waits,)) if changed else instruction)
    return tuple(result)


def _ordering_waits(
    tracker: OrderTracker, instruction: Instruction, accesses: Accesses
) -> list[int]:
    """The instruction's own waits and the fewest more that order all its conflicts."""

    def found(waits: list[int]) -> list[Conflict]:
        start, shift = tracker.clocks_with(instruction.unit, waits)
        return tracker.conflicts(instruction, accesses, start, shift)

    waits = list(instruction.waits)
    # One wait at a time: what the awaited instruction knew often settles the others.
    while conflicts := found(waits):
        worst = max(conflicts, key=lambda c: (c.at_shift, c.count))
        waits[worst.unit] = max(waits[worst.unit], worst.count)
    added = [unit for unit in range(UNITS) if waits[unit] != instruction.waits[unit]]
    if len(added) < 2:
        return waits
    # A later one may imply an earlier one: none that is left, beyond those given, can go.
    for unit in added:
        fewer = [*waits[:unit], instruction.waits[unit], *waits[unit + 1 :]]
        if not found(fewer):
            waits = fewer
    return waits
