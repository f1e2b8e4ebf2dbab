"""Steps of a plan that perform one instruction, or a whole batch of independent ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from ridgeline.machine.execution.scratch import Scratch
from ridgeline.machine.execution.walks import Lines, apart, bytes_at
from ridgeline.machine.instructions import Instruction, Load, Store
from ridgeline.machine.instructions.state import State


class Step(Protocol):
    """Something done to the memories."""

    def run(self, state: State, scratch: Scratch) -> None:
        """Do it."""
        ...


class Computation(Protocol):
    """Something computed from the memories, to be written when all of a batch is computed."""

    def compute(self, state: State, scratch: Scratch) -> npt.NDArray[Any]:
        """Stored integers [vectors, channels], in an array of their own."""
        ...


@dataclass(frozen=True, slots=True)
class One:
    """An instruction as it is."""

    instruction: Instruction

    def run(self, state: State, scratch: Scratch) -> None:
        self.instruction.apply(state)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A load or store as one copy between views."""

    instruction: Load | Store
    lines: Lines

    def run(self, state: State, scratch: Scratch) -> None:
        one = self.instruction
        address, strides = one.device_address, one.device_strides
        device = bytes_at(state.device, address, one.counts, strides, one.element_bytes)
        buffer = self.lines.plane(state.buffer)
        if isinstance(one, Load):
            buffer[...] = device
        else:
            device[...] = buffer


def copies_whole(one: Load | Store) -> bool:
    """Whether the elements written lie apart, so that a copy in any order gives the same bytes."""
    if isinstance(one, Load):
        return apart(one.counts, one.line_strides, 1)
    return apart(one.counts, one.device_strides, one.element_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """Where a block of a computation's result goes."""

    target: Lines
    source: int
    """Number of the computation."""
    rows: slice
    columns: slice


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Computations that read nothing of what any of them writes, then their writes in order."""

    computations: tuple[Computation, ...]
    writes: tuple[Write, ...]

    def run(self, state: State, scratch: Scratch) -> None:
        made = [one.compute(state, scratch) for one in self.computations]
        for write in self.writes:
            write.target.write(state.buffer, made[write.source][write.rows, write.columns])
