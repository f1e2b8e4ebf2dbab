"""A program performed step by step: after each instruction or host segment, all memories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ridgeline.machine.execute import HostExecutor, run_on_host, started
from ridgeline.machine.instructions import Instruction, State, Unit
from ridgeline.machine.program import DeviceSegment, HostSegment, Program


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction or host segment. `number` counts both through the whole program."""

    number: int
    segment: int
    index: int
    """Of the instruction within its segment; -1 for a host segment."""
    work: Instruction | HostSegment
    label: str
    """The unit and which of its instructions this is, as `disassemble` prints it."""

    @property
    def layer(self) -> int:
        """The layer that it belongs to; of a host segment its first."""
        if isinstance(self.work, HostSegment):
            return next(iter(self.work.layers), -1)
        return self.work.layer

    def __str__(self) -> str:
        if isinstance(self.work, HostSegment):
            return f"segment {self.segment}, on the host"
        return f"segment {self.segment}, instruction {self.index} ({self.label}): {self.work}"


def steps(program: Program) -> list[Step]:
    """Every step of a program, in order."""
    found: list[Step] = []
    for number, segment in enumerate(program.segments):
        if not isinstance(segment, DeviceSegment):
            found.append(Step(len(found), number, -1, segment, "host"))
            continue
        counts = [0] * len(Unit)
        for index, instruction in enumerate(segment.instructions):
            counts[instruction.unit] += 1
            label = f"{instruction.unit.name.lower()}.{counts[instruction.unit]}"
            found.append(Step(len(found), number, index, instruction, label))
    return found


def walk(
    program: Program, inputs: Mapping[str, npt.NDArray[Any]], host: HostExecutor
) -> Iterator[tuple[Step, State]]:
    """Each step with the memories as it leaves them, in program order.

    Raises RidgelineError as `execute` does.
    """
    state = started(program, inputs)
    for step in steps(program):
        if isinstance(step.work, HostSegment):
            run_on_host(step.work, state, host)
        else:
            step.work.apply(state)
        yield step, state
