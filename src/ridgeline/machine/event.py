"""One instruction's life in the simulation."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.instructions import Instruction


@dataclass(frozen=True, slots=True)
class Event:
    """One instruction's life, in cycles from the start of its segment.

    The unit is busy in [start + 1, issued]; `drained` is when its count shows it. `dispatched`:
    it reached its unit's queue. `ready`: its own unit was free and all its waits were satisfied.
    `shifted`: an array instruction's weights are on their way in (else equal to `ready`).
    `waited_for` names the last obstacle: dispatch, unit, shift, bank, port or a unit's name.
    """

    instruction: Instruction
    dispatched: int
    shifted: int
    ready: int
    start: int
    issued: int
    drained: int
    waited_for: str
