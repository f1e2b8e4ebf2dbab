"""Instructions of the weights unit: tiles and parameters into their slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.memory_port import burst_bytes, port_cycles
from ridgeline.machine.instructions.state import Bytes, Places, Space, State, nested
from ridgeline.machine.instructions.walk import Walk
from ridgeline.machine.instructions.word import Instruction, Timing, Unit, bits
from ridgeline.machine.latencies import LATENCIES

PARAMETER_BYTES = 8
"""One channel's record: int32 bias, then float32 scale, little endian."""
MOST_BLOCK_ROWS = (1 << 10) - 1
MOST_COLUMN = (1 << 11) - 1
"""The last column at which a row of weights may begin: hardware counts columns in 12 bits."""
_FLOAT32_INFINITY_BITS = 0x7F800000


@dataclass(frozen=True, slots=True)
class LoadWeights(Instruction):
    """k rows of n weights into a weight slot, zero point subtracted; the rest of it becomes 0.

    From device memory (`from_buffer` 0), row r at address + r * row_stride; from the unified buffer
    (1), row r at line + r * row_stride. `transposed` reads n rows of k bytes instead.

    Row r goes to columns from column + (r + block_row) // block_rows * n on: a block-diagonal tile,
    of which memory holds the blocks alone, as depthwise and grouped convolutions have. What falls
    outside of the array's columns is dropped, so a tile may begin and end within a block. A row is
    turned to its column as a Load's element is to its lane; the column needs one adder and a count
    of the block's rows, so a row takes a cycle like any other. With block_rows 0 the column stays:
    a dense tile.
    """

    slot: int = bits(8, "weight slot that is filled")
    from_buffer: int = bits(1, "0 device memory, 1 unified buffer")
    address: int = bits(40, "byte address, or unified-buffer line, of the first row")
    lane: int = bits(12, "byte within the line at which rows begin (from_buffer)")
    row_stride: int = bits(32, "bytes, or lines, between rows", signed=True)
    k: int = bits(10, "rows of the tile", default=1)
    n: int = bits(10, "columns of the tile", default=1)
    transposed: int = bits(1, "memory holds n rows of k bytes")
    signed: int = bits(1, "1 int8, 0 uint8", default=1)
    zero_point: int = bits(9, "subtracted from every weight", signed=True)
    banks: int = bits(16, "mask of the unified-buffer banks held (from_buffer)")
    block_rows: int = bits(10, "rows of a block, after which the column moves on by n; 0 never")
    block_row: int = bits(10, "rows of the first block that lie above the tile; < block_rows")
    column: int = bits(12, "column of the first row's first weight", signed=True)

    opcode: ClassVar[int] = 5
    unit: ClassVar[Unit] = Unit.WEIGHTS

    @property
    def read_banks(self) -> int:
        return self.banks

    @property
    def _rows(self) -> tuple[int, int]:
        return (self.n, self.k) if self.transposed else (self.k, self.n)

    def rows(self) -> Places:
        """Address or line of every row read, in order."""
        return nested(self.address, (self._rows[0],), (self.row_stride,))

    @property
    def is_dense(self) -> bool:
        """All rows in columns from 0 on."""
        return not self.block_rows and not self.column

    def columns(self) -> Places:
        """The column of each row's first weight [k], perhaps outside of the array."""
        if not self.block_rows:
            return np.full(self.k, self.column, np.int64)
        return self.column + (np.arange(self.k) + self.block_row) // self.block_rows * self.n

    @property
    def last_column(self) -> int:
        """The column of the last row's first weight, the greatest of all rows."""
        if not self.block_rows:
            return self.column
        return self.column + (self.k - 1 + self.block_row) // self.block_rows * self.n

    def place(self, rows: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        """Put rows [k, n] of weights where they belong in `target` [k, columns], and nothing else.

        Rows or columns that `target` lacks are dropped.
        """
        rows = rows[: target.shape[0]]
        if self.is_dense:
            kept = rows[:, : target.shape[1]]
            target[: kept.shape[0], : kept.shape[1]] = kept
            return
        at = self.columns()[: rows.shape[0], None] + np.arange(self.n)
        inside = (at >= 0) & (at < target.shape[1])
        target[np.nonzero(inside)[0], at[inside]] = rows[inside]

    def apply(self, state: State) -> None:
        width = self._rows[1]
        if self.from_buffer:
            raw = state.buffer[self.rows(), self.lane : self.lane + width]
        else:
            raw = state.device[self.rows()[:, None] + np.arange(width)]
        tile = raw.view(np.int8 if self.signed else np.uint8).astype(np.int16) - self.zero_point
        state.slots[self.slot] = 0
        self.place(tile.T if self.transposed else tile, state.slots[self.slot, : self.k])

    def timing(self, machine: Machine) -> Timing:
        """issue = port cycles, up to weight_rows_per_cycle rows a cycle; one a cycle on chip."""
        rows, width = self._rows
        if self.from_buffer:
            return Timing(rows, LATENCIES.weights_from_buffer)
        port = port_cycles(
            machine,
            self.address,
            width,
            (rows,),
            (self.row_stride,),
            machine.array.weight_rows_per_cycle,
        )
        return Timing(port, machine.device_memory.latency_cycles + LATENCIES.weights, port)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        phase = self.address % machine.device_memory.burst_bytes
        shape = (self.k, self.n, self.row_stride, self.transposed)
        return (phase, self.from_buffer, *shape)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        on_chip = 1 * self.from_buffer
        rows = self.k + (self.n - self.k) * self.transposed
        width = self.n + (self.k - self.n) * self.transposed
        strides = (self.row_stride,)
        return (
            Walk(Space.DEVICE, self.address, (rows * (1 - on_chip),), strides, element_bytes=width),
            Walk(Space.BUFFER, self.address, (rows * on_chip,), strides),
            Walk(Space.SLOTS, self.slot, writes=True),
        )

    def activity(self, machine: Machine) -> Activity:
        rows, width = self._rows
        if self.from_buffer:
            return Activity(slot_write_bytes=self.k * self.n, buffer_reads=rows)
        moved = burst_bytes(machine, self.address, width, (rows,), (self.row_stride,))
        return Activity(slot_write_bytes=self.k * self.n, device_read_bytes=moved)


def read_parameters(
    memory: Bytes, address: int, count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Bias and scale of `count` channel records at `address`.

    Raises RidgelineError for a scale that is negative or not finite.
    """
    words = memory[address : address + count * PARAMETER_BYTES].copy().view("<u4")
    scale_bits = words[1::2]
    # As unsigned integers, infinities, NaN and whatever has its sign set come last.
    if scale_bits.size and scale_bits.max() >= _FLOAT32_INFINITY_BITS:
        raise RidgelineError(
            f"LoadParams at {address} loads a scale that is negative or not finite",
            fix="The lane takes finite scales from 0 up",
        )
    return words[::2].view("<i4"), scale_bits.view("<f4")


@dataclass(frozen=True, slots=True)
class LoadParams(Instruction):
    """`count` channel records (int32 bias, float32 scale) into lanes 0.. of a parameter slot.

    Scales must be finite and not negative: the requantise lane has no other.
    """

    slot: int = bits(4, "parameter slot that is filled")
    device_address: int = bits(40, "byte address of the first record")
    count: int = bits(13, "channels", default=1)

    opcode: ClassVar[int] = 6
    unit: ClassVar[Unit] = Unit.WEIGHTS

    def apply(self, state: State) -> None:
        bias, scale = read_parameters(state.device, self.device_address, self.count)
        state.bias[self.slot, : self.count] = bias
        state.scale[self.slot, : self.count] = scale

    def timing(self, machine: Machine) -> Timing:
        """issue = port cycles of whole groups of records: as many as a line is wide, at least one.

        The bus behind the port is as wide as a line, so hardware takes one group a cycle at most.
        """
        groups, group = self._groups(machine)
        port = port_cycles(machine, self.device_address, group, (groups,), (group,))
        return Timing(port, machine.device_memory.latency_cycles + LATENCIES.weights, port)

    def _groups(self, machine: Machine) -> tuple[int, int]:
        """Groups of records, and the bytes of one."""
        records = max(machine.unified_buffer.line_bytes // PARAMETER_BYTES, 1)
        return -(-self.count // records), records * PARAMETER_BYTES

    def activity(self, machine: Machine) -> Activity:
        groups, group = self._groups(machine)
        moved = burst_bytes(machine, self.device_address, group, (groups,), (group,))
        return Activity(slot_write_bytes=self.count * PARAMETER_BYTES, device_read_bytes=moved)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.device_address % machine.device_memory.burst_bytes, self.count)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        length = self.count * PARAMETER_BYTES
        return (
            Walk(Space.DEVICE, self.device_address, element_bytes=length),
            Walk(Space.PARAMETERS, self.slot, writes=True),
        )
