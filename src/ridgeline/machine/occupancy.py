"""How full the unified buffer is over a run: lines that hold what something still reads.

A line is occupied from the start of the instruction that writes it until the end of the last one
that reads what was written. Writes that follow without a read between them belong to one life, so a
line that is filled in parts has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ridgeline.machine.event import Event
from ridgeline.machine.instructions import Space
from ridgeline.machine.simulate import Trace

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """`used_bytes[i]` of the buffer are occupied from `cycles[i]` to the next, and last 0."""

    cycles: Integers
    used_bytes: Integers
    buffer_bytes: int
    length_cycles: int

    @property
    def peak_bytes(self) -> int:
        return int(self.used_bytes.max(initial=0))

    @property
    def average_bytes(self) -> float:
        """Over the whole run."""
        lengths = np.diff(self.cycles, append=self.length_cycles)
        return float(lengths @ self.used_bytes) / self.length_cycles if self.length_cycles else 0.0

    def peaks(self, most: int) -> tuple[Integers, Integers]:
        """The steps, or the fullest of each of at most `most` equal parts of the run."""
        if len(self.cycles) <= most:
            return self.cycles, self.used_bytes
        borders = np.arange(most + 1) * self.length_cycles // most
        # What holds when a part begins counts in it too.
        first = np.maximum(np.searchsorted(self.cycles, borders[:-1], "right") - 1, 0)
        last = np.maximum(np.searchsorted(self.cycles, borders[1:], "left"), first + 1)
        fullest = [self.used_bytes[i:j].max() for i, j in zip(first, last, strict=True)]
        return borders[:-1], np.asarray(fullest, np.int64)


@dataclass(slots=True, eq=False)
class _Lines:
    """The life of each line as the program goes on: when it began and when it was last needed."""

    begin: Integers
    last: Integers
    read: npt.NDArray[np.bool_]
    steps: list[tuple[Integers, Integers]] = field(default_factory=list[tuple[Integers, Integers]])

    def close(self, lines: Integers) -> None:
        """Lives that end before a new one begins."""
        alive = lines[self.begin[lines] >= 0]
        if alive.size:
            self.steps.append((self.begin[alive], self.last[alive]))

    def event(self, event: Event, begin: int, reads: Integers, writes: Integers) -> None:
        """One instruction, in program order: it reads before it writes."""
        self.last[reads] = np.maximum(self.last[reads], begin + max(event.issued, event.start + 1))
        self.read[reads] = True
        again = writes[self.read[writes] | (self.begin[writes] < 0)]
        self.close(again)
        self.begin[again] = begin + event.start
        self.last[again] = 0
        self.read[again] = False
        self.last[writes] = np.maximum(self.last[writes], begin + event.drained)


def occupancy(trace: Trace) -> Occupancy:
    """The unified buffer's over a simulated run, in time proportional to its accesses."""
    machine = trace.program.machine
    count = machine.unified_buffer.lines
    lines = _Lines(np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(count, bool))
    nothing = np.zeros(0, np.int64)
    for segment in trace.segments:
        for event in segment.events:
            accesses = event.instruction.accesses(machine)
            reads = np.unique(accesses.reads.get(Space.BUFFER, nothing))
            writes = np.unique(accesses.writes.get(Space.BUFFER, nothing))
            if reads.size or writes.size:
                lines.event(event, segment.begin, reads, writes)
    lines.close(np.arange(count))
    begins = np.concatenate([nothing, *(begin for begin, _ in lines.steps)])
    ends = np.concatenate([nothing, *(end for _, end in lines.steps)])
    cycles, places = np.unique(np.concatenate([[0], begins, ends]), return_inverse=True)
    change = np.zeros(len(cycles), np.int64)
    np.add.at(change, places[1:], np.repeat([1, -1], len(begins)))
    kept = (change != 0) | (cycles == 0)
    line_bytes = machine.unified_buffer.line_bytes
    used = np.cumsum(change)[kept] * line_bytes
    return Occupancy(cycles[kept], used, machine.unified_buffer.bytes, trace.cycles)
