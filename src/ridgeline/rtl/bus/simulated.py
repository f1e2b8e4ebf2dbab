"""An accelerator in co-simulation as a driver sees one: the Verilated top and a memory."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.rtl.build import build_program, require_tools
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.bus.verilog import axi_verilog
from ridgeline.rtl.verilog import TOP

MEMORY_ADDRESS = 0x1000_0000
"""Not 0, so that an address that nobody moved is seen."""

_PAUSE_CYCLES = 2000


class Served:
    """A process that simulates a top and answers the commands of its harness."""

    def __init__(self, program: Path, memory_bytes: int, seed: int | None) -> None:
        self.memory_address, self.memory_bytes = MEMORY_ADDRESS, memory_bytes
        self._where = str(program)
        # Zero means no stalls, so seeds begin at one.
        state = 0 if seed is None else (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._process = subprocess.Popen(
            [str(program), str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _ask(self, command: str, *numbers: int, data: bytes = b"", answer: int = 8) -> bytes:
        to, back = self._pipes()
        try:
            to.write(command.encode() + struct.pack(f"<{len(numbers)}Q", *numbers) + data)
            to.flush()
            got = back.read(answer)
        except BrokenPipeError:
            got = b""
        if len(got) != answer:
            raise RidgelineError(
                f"the simulation ended with code {self._process.wait()}", where=self._where
            )
        return got

    def _number(self, command: str, *numbers: int, data: bytes = b"") -> int:
        return int.from_bytes(self._ask(command, *numbers, data=data), "little")

    def read32(self, offset: int) -> int:
        return self._number("r", offset)

    def write32(self, offset: int, value: int) -> None:
        self._number("w", offset, value)

    def read_memory(self, address: int, size: int) -> bytes:
        return self._ask("R", address, size, answer=size)

    def write_memory(self, address: int, data: bytes) -> None:
        self._number("W", address, len(data), data=data)

    def pause(self) -> None:
        self.clock(_PAUSE_CYCLES)

    def clock(self, cycles: int) -> bool:
        """So many cycles, or until an interrupt; whether there is one."""
        return bool(self._number("p", cycles))

    @property
    def cycles(self) -> int:
        """Cycles since the reset."""
        return self._number("c")

    def refuse(self, address: int, size: int) -> None:
        """Answer reads and writes that touch these bytes with an error of the bus."""
        self._number("f", address, size)

    def broken_rules(self) -> str:
        """What of the bus's rules the accelerator broke so far, a line each."""
        return self._ask("", answer=self._number("v")).decode()

    def close(self) -> None:
        """End the process."""
        to, back = self._pipes()
        to.close()
        back.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Board:
    """A top of a machine before a memory of `memory_bytes`.

    Built once for each content; `open` begins from the reset.
    """

    program: Path
    memory_bytes: int

    @staticmethod
    def axi(
        machine: Machine, bus: BusShape, memory_bytes: int = 1 << 20, latency_cycles: int = 16
    ) -> Board:
        """The AXI top, its memory answering after `latency_cycles`.

        Raises RidgelineError for what is not covered, or where there are no tools.
        """
        require_tools()
        defines = {
            "DATA_BYTES": bus.data_bytes,
            "BURST_BEATS": bus.burst_beats,
            "MEMORY_BASE": f"{MEMORY_ADDRESS}ull",
            "MEMORY_BYTES": f"{memory_bytes}ull",
            "LATENCY": latency_cycles,
        }
        program = build_program(
            axi_verilog(machine, bus, name=TOP).text,
            "bus/axi_harness.cpp",
            [f"-D{name}={value}" for name, value in defines.items()],
        )
        return Board(program, memory_bytes)

    def open(self, seed: int | None = None) -> Served:
        """With a seed everything that may stall does so, and memory is up to 20 cycles later."""
        return Served(self.program, self.memory_bytes, seed)
