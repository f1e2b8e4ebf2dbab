"""Instructions of the link, load, store and weights units: bytes between memories."""

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
_FLOAT32_INFINITY_BITS = 0x7F800000


@dataclass(frozen=True, slots=True)
class _LinkTransfer(Instruction):
    host_address: int = bits(40, "first byte in host memory")
    device_address: int = bits(40, "first byte in device memory")
    length_bytes: int = bits(32, "bytes to move")

    unit: ClassVar[Unit] = Unit.LINK

    def timing(self, machine: Machine) -> Timing:
        """issue = ceil(bytes / link bytes per cycle); latency = link latency + acknowledgement.

        The device-memory port is taken for the bursts only: the link side is buffered.
        """
        issue = -(-self.length_bytes // machine.link_bytes_per_cycle)
        port = port_cycles(
            machine, self.device_address, self.length_bytes, (1,), (0,), elements_per_cycle=1
        )
        issue = max(int(issue), port)
        return Timing(issue, machine.link_latency_cycles + LATENCIES.link, port)

    def _burst_bytes(self, machine: Machine) -> int:
        return burst_bytes(machine, self.device_address, self.length_bytes, (1,), (0,))

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        return (self.device_address % machine.device_memory.burst_bytes, self.length_bytes)

    def _walks(self, source: str, target: str) -> tuple[Walk, ...]:
        start = {Space.HOST: self.host_address, Space.DEVICE: self.device_address}
        length = self.length_bytes
        return (
            Walk(source, start[source], element_bytes=length),
            Walk(target, start[target], element_bytes=length, writes=True),
        )


@dataclass(frozen=True, slots=True)
class HostRead(_LinkTransfer):
    """Host memory to device memory, contiguous."""

    opcode: ClassVar[int] = 1

    def apply(self, state: State) -> None:
        data = state.host[self.host_address : self.host_address + self.length_bytes]
        state.device[self.device_address : self.device_address + self.length_bytes] = data

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        return self._walks(Space.HOST, Space.DEVICE)

    def activity(self, machine: Machine) -> Activity:
        return Activity(
            host_link_bytes=self.length_bytes, device_write_bytes=self._burst_bytes(machine)
        )


@dataclass(frozen=True, slots=True)
class HostWrite(_LinkTransfer):
    """Device memory to host memory, contiguous."""

    opcode: ClassVar[int] = 2

    def apply(self, state: State) -> None:
        data = state.device[self.device_address : self.device_address + self.length_bytes]
        state.host[self.host_address : self.host_address + self.length_bytes] = data

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        return self._walks(Space.DEVICE, Space.HOST)

    def activity(self, machine: Machine) -> Activity:
        return Activity(
            host_link_bytes=self.length_bytes, device_read_bytes=self._burst_bytes(machine)
        )


@dataclass(frozen=True, slots=True)
class _BufferTransfer(Instruction):
    device_address: int = bits(40, "byte address of the first element in device memory")
    line: int = bits(20, "unified-buffer line of the first element")
    lane: int = bits(12, "byte within the line at which every element lies")
    element_bytes: int = bits(13, "contiguous bytes of one element; lane + element <= line bytes")
    count_0: int = bits(20, "elements of the innermost level", default=1)
    count_1: int = bits(16, "repeats of level 0", default=1)
    count_2: int = bits(16, "repeats of level 1", default=1)
    device_stride_0: int = bits(32, "bytes between elements, level 0", signed=True)
    device_stride_1: int = bits(32, "bytes, level 1", signed=True)
    device_stride_2: int = bits(32, "bytes, level 2", signed=True)
    line_stride_0: int = bits(21, "lines between elements, level 0", signed=True)
    line_stride_1: int = bits(21, "lines, level 1", signed=True)
    line_stride_2: int = bits(21, "lines, level 2", signed=True)
    banks: int = bits(16, "mask of the unified-buffer banks held")

    @property
    def counts(self) -> tuple[int, int, int]:
        return (self.count_0, self.count_1, self.count_2)

    @property
    def device_strides(self) -> tuple[int, int, int]:
        return (self.device_stride_0, self.device_stride_1, self.device_stride_2)

    @property
    def line_strides(self) -> tuple[int, int, int]:
        return (self.line_stride_0, self.line_stride_1, self.line_stride_2)

    def lines(self) -> Places:
        """Unified-buffer line of every element, in order."""
        return nested(self.line, self.counts, self.line_strides)

    def addresses(self) -> Places:
        """Device-memory byte address of every element, in order."""
        return nested(self.device_address, self.counts, self.device_strides)

    @property
    def elements(self) -> int:
        """Elements in all: each is one access to a line."""
        return self.count_0 * self.count_1 * self.count_2

    def _burst_bytes(self, machine: Machine) -> int:
        return burst_bytes(
            machine, self.device_address, self.element_bytes, self.counts, self.device_strides
        )

    def _walks(self, source: str, target: str) -> tuple[Walk, ...]:
        elements = (self.device_address, self.counts, self.device_strides)
        lines = (self.line, self.counts, self.line_strides)
        length = self.element_bytes
        if source == Space.DEVICE:
            read = Walk(source, *elements, element_bytes=length)
            return (read, Walk(target, *lines, writes=True))
        written = Walk(target, *elements, element_bytes=length, writes=True)
        return (Walk(source, *lines), written)

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        phase = self.device_address % machine.device_memory.burst_bytes
        return (phase, self.element_bytes, *self.counts, *self.device_strides)

    def _port(self, machine: Machine) -> int:
        return port_cycles(
            machine,
            self.device_address,
            self.element_bytes,
            self.counts,
            self.device_strides,
            machine.device_memory.lines_per_cycle,
        )


@dataclass(frozen=True, slots=True)
class Load(_BufferTransfer):
    """Device memory to unified buffer, by elements; other bytes of a line keep their value."""

    opcode: ClassVar[int] = 3
    unit: ClassVar[Unit] = Unit.LOAD

    @property
    def write_banks(self) -> int:
        return self.banks

    def apply(self, state: State) -> None:
        source = self.addresses()[:, None] + np.arange(self.element_bytes)
        end = self.lane + self.element_bytes
        state.buffer[self.lines(), self.lane : end] = state.device[source]

    def timing(self, machine: Machine) -> Timing:
        """issue = port cycles; data are in the buffer a memory latency and a pipeline later."""
        port = self._port(machine)
        return Timing(port, machine.device_memory.latency_cycles + LATENCIES.load, port)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        return self._walks(Space.DEVICE, Space.BUFFER)

    def activity(self, machine: Machine) -> Activity:
        return Activity(buffer_writes=self.elements, device_read_bytes=self._burst_bytes(machine))


@dataclass(frozen=True, slots=True)
class Store(_BufferTransfer):
    """Unified buffer to device memory, element by element."""

    opcode: ClassVar[int] = 4
    unit: ClassVar[Unit] = Unit.STORE

    @property
    def read_banks(self) -> int:
        return self.banks

    def apply(self, state: State) -> None:
        target = self.addresses()[:, None] + np.arange(self.element_bytes)
        end = self.lane + self.element_bytes
        state.device[target] = state.buffer[self.lines(), self.lane : end]

    def timing(self, machine: Machine) -> Timing:
        """issue = port cycles; the memory takes writes in order of request, so latency is short."""
        port = self._port(machine)
        return Timing(port, LATENCIES.store, port)

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        return self._walks(Space.BUFFER, Space.DEVICE)

    def activity(self, machine: Machine) -> Activity:
        return Activity(buffer_reads=self.elements, device_write_bytes=self._burst_bytes(machine))


@dataclass(frozen=True, slots=True)
class LoadWeights(Instruction):
    """One k x n tile into a weight slot, zero point subtracted; the rest of the slot becomes 0.

    From device memory (`from_buffer` 0), row r at address + r * row_stride; from the unified buffer
    (1), row r at line + r * row_stride. `transposed` reads n rows of k bytes instead.
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

    def apply(self, state: State) -> None:
        width = self._rows[1]
        if self.from_buffer:
            raw = state.buffer[self.rows(), self.lane : self.lane + width]
        else:
            raw = state.device[self.rows()[:, None] + np.arange(width)]
        tile = raw.view(np.int8 if self.signed else np.uint8).astype(np.int16) - self.zero_point
        state.slots[self.slot] = 0
        state.slots[self.slot, : self.k, : self.n] = tile.T if self.transposed else tile

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
