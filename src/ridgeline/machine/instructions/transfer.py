"""Instructions of the link, load and store units: bytes between memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.memory_port import burst_bytes, port_cycles
from ridgeline.machine.instructions.state import Places, Space, State, nested
from ridgeline.machine.instructions.walk import Walk
from ridgeline.machine.instructions.word import Instruction, Timing, Unit, bits
from ridgeline.machine.latencies import LATENCIES


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
