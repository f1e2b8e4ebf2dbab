"""Ways to an accelerator: what a driver needs of a board, and the ways that need no package."""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Protocol

from ridgeline.errors import RidgelineError

_PAUSE_SECONDS = 50e-6

REGISTER_PAGE_BYTES = 4096


class Transport(Protocol):
    """Registers and memory of one accelerator.

    Memory from `memory_address` on, `memory_bytes` of it, is the accelerator's to use; addresses
    are those of its bus. `pause` lets some time pass between two looks at a register.
    """

    memory_address: int
    memory_bytes: int

    def read32(self, offset: int) -> int:
        """The register at `offset`."""
        ...

    def write32(self, offset: int, value: int) -> None:
        """Write the register at `offset`."""
        ...

    def read_memory(self, address: int, size: int) -> bytes:
        """`size` bytes from `address` on."""
        ...

    def write_memory(self, address: int, data: bytes) -> None:
        """Write `data` from `address` on."""
        ...

    def pause(self) -> None:
        """Wait a moment."""
        ...


class MappedTransport:
    """Registers and memory mapped into this process: /dev/mem, /dev/uioN, u-dma-buf, or files.

    `registers` and `memory` are device files; the offsets are where in them the two begin (for
    /dev/mem their physical addresses, for a UIO device 0). `memory_address` is where the
    accelerator's bus sees that memory. The memory must be one that no cache keeps from the bus.
    """

    def __init__(
        self,
        registers: Path | str,
        memory: Path | str,
        *,
        memory_address: int,
        memory_bytes: int,
        registers_offset: int = 0,
        memory_offset: int = 0,
    ) -> None:
        self.memory_address, self.memory_bytes = memory_address, memory_bytes
        self._registers = _mapped(registers, registers_offset, REGISTER_PAGE_BYTES)
        self._memory = _mapped(memory, memory_offset, memory_bytes)
        # One access of 32 bits each: a register must not be touched byte by byte.
        self._words = memoryview(self._registers).cast("I")

    def read32(self, offset: int) -> int:
        return self._words[offset // 4]

    def write32(self, offset: int, value: int) -> None:
        self._words[offset // 4] = value

    def read_memory(self, address: int, size: int) -> bytes:
        start = address - self.memory_address
        return bytes(self._memory[start : start + size])

    def write_memory(self, address: int, data: bytes) -> None:
        start = address - self.memory_address
        self._memory[start : start + len(data)] = data

    def pause(self) -> None:
        time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """Give the mappings back."""
        self._words.release()
        self._registers.close()
        self._memory.close()


def _mapped(path: Path | str, offset: int, size: int) -> mmap.mmap:
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_SYNC", 0))
        try:
            return mmap.mmap(handle, size, offset=offset)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RidgelineError(
            f"cannot be mapped, {size} bytes from {offset:#x} on ({reason})",
            where=str(path),
            fix="Check the address, and run with the rights to it",
        ) from error


class Port(Protocol):
    """A line of bytes: pyserial's Serial, or whatever reads and writes like it."""

    def write(self, data: bytes, /) -> object:
        """Send all of `data`."""
        ...

    def read(self, size: int, /) -> bytes:
        """`size` bytes; fewer when they do not come in time."""
        ...


class StreamTransport:
    """The stream top behind a byte link, as `byte_link` says: UART, SPI or FIFO bridge.

    `port` takes and gives bytes. Memory is the accelerator's from `memory_address` on.
    """

    def __init__(self, port: Port, *, memory_bytes: int, memory_address: int = 0) -> None:
        self.port = port
        self.memory_address, self.memory_bytes = memory_address, memory_bytes

    def read32(self, offset: int) -> int:
        self.port.write(struct.pack("<cH", b"r", offset))
        return int.from_bytes(self._answer(4), "little")

    def write32(self, offset: int, value: int) -> None:
        self.port.write(struct.pack("<cHI", b"w", offset, value))

    def read_memory(self, address: int, size: int) -> bytes:
        self.port.write(struct.pack("<cII", b"R", address, size))
        return self._answer(size)

    def write_memory(self, address: int, data: bytes) -> None:
        self.port.write(struct.pack("<cII", b"W", address, len(data)) + data)

    def pause(self) -> None:
        time.sleep(_PAUSE_SECONDS)

    def _answer(self, size: int) -> bytes:
        found = self.port.read(size)
        if len(found) != size:
            raise RidgelineError(
                f"{len(found)} of {size} bytes of an answer came over the byte link",
                fix="Check the link's speed and wiring, and reset the accelerator",
            )
        return found
