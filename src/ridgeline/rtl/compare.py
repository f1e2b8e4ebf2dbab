"""What the hardware did beside what `execute` and `simulate` say, and what differs first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.execute import memories_singly
from ridgeline.machine.instructions import Instruction
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.cosim import CosimResult

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class BitDifference:
    """`count` bytes of a memory differ, the first at `address`; `output` is what lies there."""

    memory: str
    count: int
    address: int
    executed: int
    hardware: int
    output: str = ""


@dataclass(frozen=True, slots=True)
class CycleDifference:
    """The first of `count` instructions whose cycles differ: [start, drained) of each."""

    count: int
    number: int
    instruction: Instruction
    simulated: tuple[int, int]
    hardware: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Compared:
    """`cycles`: None where random stalls make them incomparable."""

    hardware_cycles: int
    cycles: int | None
    bits: tuple[BitDifference, ...]
    timing: CycleDifference | None

    @property
    def is_equal(self) -> bool:
        same = self.cycles is None or self.cycles == self.hardware_cycles
        return same and not self.bits and self.timing is None


def compared(
    program: Program,
    inputs: Mapping[str, npt.NDArray[Any]],
    result: CosimResult,
    *,
    stalled: bool = False,
) -> Compared:
    """Set a program's run on the hardware beside its meaning and its time."""
    state = memories_singly(program, inputs)
    bits = [
        _bits("device memory", program, state.device, result.memory),
        _bits("unified buffer", None, state.buffer.reshape(-1), result.buffer.reshape(-1)),
    ]
    differing = tuple(one for one in bits if one is not None)
    if stalled:
        return Compared(result.cycles, None, differing, None)
    trace = simulate(program)
    return Compared(result.cycles, trace.cycles, differing, _timing(program, result))


def _bits(
    memory: str, program: Program | None, executed: Bytes, hardware: Bytes
) -> BitDifference | None:
    places = np.flatnonzero(executed.view(np.uint8) != hardware.view(np.uint8))
    if not places.size:
        return None
    first = int(places[0])
    inside = [
        tensor.name
        for tensor in (program.device_outputs if program else ())
        if tensor.address <= first < tensor.address + tensor.bytes
    ]
    values = (int(memory.view(np.uint8)[first]) for memory in (executed, hardware))
    return BitDifference(memory, int(places.size), first, *values, output="".join(inside[:1]))


def _timing(program: Program, result: CosimResult) -> CycleDifference | None:
    events = [event for segment in simulate(program).segments for event in segment.events]
    times = enumerate(zip(events, result.started, result.drained, strict=True))
    wrong = [
        (number, event, (started, drained))
        for number, (event, started, drained) in times
        if (event.start, event.drained) != (started, drained)
    ]
    if not wrong:
        return None
    number, event, hardware = wrong[0]
    simulated = (event.start, event.drained)
    return CycleDifference(len(wrong), number, event.instruction, simulated, hardware)
