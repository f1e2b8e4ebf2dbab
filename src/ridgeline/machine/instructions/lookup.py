"""The vector unit's table: any function of one 8-bit value, worked out before the program runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.array import INT8, read_vectors
from ridgeline.machine.instructions.nests import Counted
from ridgeline.machine.instructions.state import Places, Space, State, nested
from ridgeline.machine.instructions.vector import OutputFields
from ridgeline.machine.instructions.walk import Walk
from ridgeline.machine.instructions.word import Timing, bits
from ridgeline.machine.latencies import LATENCIES

TABLE_ENTRIES = 256
"""One for each value of a byte; entry i belongs to the stored byte i, for int8 as two's complement.
"""


@dataclass(frozen=True, slots=True)
class Lookup(Counted, OutputFields):
    """Each 8-bit value replaced by the entry of a table that its byte numbers.

    The table's 256 bytes lie in whole lines from `table_line` on, and are copied into every lane
    before the first vector. Entries are of the output's format, 8 bits, clamped to [low, high].
    """

    format: int = bits(2, "element format read: 0 uint8, 1 int8")
    count_0: int = bits(16, "vectors, level 0", default=1)
    count_1: int = bits(16, "repeats, level 1", default=1)
    count_2: int = bits(16, "repeats, level 2", default=1)
    line: int = bits(20, "first line read")
    lane: int = bits(12, "byte within the lines at which vectors begin")
    stride_0: int = bits(21, "lines, level 0", signed=True)
    stride_1: int = bits(21, "lines, level 1", signed=True)
    stride_2: int = bits(21, "lines, level 2", signed=True)
    table_line: int = bits(20, "first line of the table")
    in_banks: int = bits(16, "mask of the unified-buffer banks held for reading")

    opcode: ClassVar[int] = 11

    @property
    def read_banks(self) -> int:
        return self.in_banks

    def lines(self) -> Places:
        """Line of each vector read, in order."""
        return nested(self.line, self.counts, (self.stride_0, self.stride_1, self.stride_2))

    def entries(self, state: State) -> npt.NDArray[np.int64]:
        """The table as it takes effect, by the byte read."""
        count = table_lines(state.machine)
        raw = state.buffer[self.table_line : self.table_line + count].reshape(-1)[:TABLE_ENTRIES]
        entries = raw.view(np.int8) if self.out_format == INT8 else raw
        return np.clip(entries.astype(np.int64), self.low, self.high)

    def apply(self, state: State) -> None:
        lanes = slice(self.lane, self.lane + self.channels)
        values = read_vectors(state.buffer, self.lines(), lanes, self.format)
        self._write(state, self.counts, self.entries(state)[values & (TABLE_ENTRIES - 1)])

    def timing(self, machine: Machine) -> Timing:
        """issue = lines of the table + vectors * ceil(channels / lanes): a line a cycle into all
        lanes at once, then a value a lane and cycle. The form is that of Arm's Ethos-U, which also
        keeps 256-byte tables in its on-chip memory (ethos-u-vela, lut.py).
        """
        groups = -(-self.channels // machine.vector.lanes)
        return Timing(table_lines(machine) + self.m * groups, LATENCIES.vector_from_buffer)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.m, self.channels)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        strides = (self.stride_0, self.stride_1, self.stride_2)
        return (
            Walk(Space.BUFFER, self.line, self.counts, strides),
            Walk(Space.BUFFER, self.table_line, (table_lines(machine),)),
            self._written(self.counts),
        )

    def activity(self, machine: Machine) -> Activity:
        """Every lane has its copy of the table, written once and read for each value."""
        groups = -(-self.channels // machine.vector.lanes)
        values = self.m * self.channels
        return Activity(
            buffer_reads=table_lines(machine) + self.m * groups,
            buffer_writes=self._line_writes(machine, self.m),
            slot_write_bytes=TABLE_ENTRIES * machine.vector.lanes,
            slot_read_bytes=values,
            vector_operations=values,
        )


def table_lines(machine: Machine) -> int:
    """Lines of the unified buffer that a table takes."""
    return -(-TABLE_ENTRIES // machine.unified_buffer.line_bytes)
