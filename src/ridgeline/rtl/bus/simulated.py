"""An accelerator in co-simulation as a driver sees one: a Verilated top and a memory."""

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
from ridgeline.rtl.bus.transports import StreamTransport
from ridgeline.rtl.bus.verilog import axi_verilog, stream_verilog
from ridgeline.rtl.shape import Shape
from ridgeline.rtl.verilog import TOP

MEMORY_ADDRESS = 0x1000_0000
"""Not 0, so that an address that nobody moved is seen."""

_PAUSE_CYCLES = 2000


class _Simulation:
    """A process that simulates a top and answers the commands of its harness."""

    def __init__(self, program: Path, seed: int | None) -> None:
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

    def ask(self, command: str, *numbers: int, data: bytes = b"", answer: int = 8) -> bytes:
        """So many bytes in answer to a command. Raises RidgelineError where the process ended."""
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

    def number(self, command: str, *numbers: int, data: bytes = b"") -> int:
        """The number that answers a command."""
        return int.from_bytes(self.ask(command, *numbers, data=data), "little")

    def close(self) -> None:
        """End the process."""
        to, back = self._pipes()
        to.close()
        back.close()
        self._process.wait()


class _Served:
    """What boards of all tops have, to be closed after use."""

    def __init__(self, simulation: _Simulation) -> None:
        self._simulation = simulation

    def pause(self) -> None:
        """Let the accelerator work."""
        self.clock(_PAUSE_CYCLES)

    def clock(self, cycles: int) -> bool:
        """So many cycles, or until an interrupt; whether there is one."""
        return bool(self._simulation.number("p", cycles))

    @property
    def cycles(self) -> int:
        """Cycles since the reset."""
        return self._simulation.number("c")

    def broken_rules(self) -> str:
        """What of the bus's rules the accelerator broke so far, a line each."""
        return self._simulation.ask("", answer=self._simulation.number("v")).decode()

    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class ServedAxi(_Served):
    """The AXI top and its memory: a Transport."""

    def __init__(
        self, program: Path, memory_address: int, memory_bytes: int, seed: int | None
    ) -> None:
        super().__init__(_Simulation(program, seed))
        self.memory_address, self.memory_bytes = memory_address, memory_bytes

    def read32(self, offset: int) -> int:
        return self._simulation.number("r", offset)

    def write32(self, offset: int, value: int) -> None:
        self._simulation.number("w", offset, value)

    def read_memory(self, address: int, size: int) -> bytes:
        return self._simulation.ask("R", address, size, answer=size)

    def write_memory(self, address: int, data: bytes) -> None:
        self._simulation.number("W", address, len(data), data=data)

    def refuse(self, address: int, size: int) -> None:
        """Answer reads and writes that touch these bytes with an error of the bus."""
        self._simulation.number("f", address, size)

    def stall_memory(self) -> None:
        """Answer no read and no write from now on."""
        self._simulation.number("h")


class _SimulatedPort:
    """The byte link of a simulated stream top."""

    def __init__(self, simulation: _Simulation) -> None:
        self._simulation = simulation

    def write(self, data: bytes, /) -> None:
        self._simulation.number("s", len(data), data=data)

    def read(self, size: int, /) -> bytes:
        return self._simulation.ask("g", size, answer=size)


class ServedStream(_Served, StreamTransport):
    """The stream top and its memory: a Transport over the byte link."""

    def __init__(self, program: Path, memory_bytes: int, seed: int | None) -> None:
        simulation = _Simulation(program, seed)
        _Served.__init__(self, simulation)
        port = _SimulatedPort(simulation)
        StreamTransport.__init__(
            self, port, memory_bytes=memory_bytes, memory_address=MEMORY_ADDRESS
        )


@dataclass(frozen=True, slots=True)
class Board:
    """The AXI top of a machine with a memory; `open` begins from its reset."""

    program: Path
    memory_address: int
    memory_bytes: int

    @staticmethod
    def built(
        machine: Machine,
        bus: BusShape,
        memory_bytes: int = 1 << 20,
        latency_cycles: int = 16,
        memory_address: int = MEMORY_ADDRESS,
    ) -> Board:
        """Memory answers after `latency_cycles`. A model is built once for each content.

        Raises RidgelineError for what is not covered, or where there are no tools.
        """
        require_tools()
        text = axi_verilog(machine, bus, name=TOP).text
        defines = _memory(memory_address, memory_bytes, latency_cycles)
        defines |= {"DATA_BYTES": bus.data_bytes, "BURST_BEATS": bus.burst_beats}
        return Board(_build(text, "axi", defines), memory_address, memory_bytes)

    def open(self, seed: int | None = None) -> ServedAxi:
        """With a seed everything that may stall does so, and memory is up to 20 cycles later."""
        return ServedAxi(self.program, self.memory_address, self.memory_bytes, seed)


@dataclass(frozen=True, slots=True)
class StreamBoard:
    """The stream top of a machine with a memory; `open` begins from its reset."""

    program: Path
    memory_bytes: int

    @staticmethod
    def built(
        machine: Machine, memory_bytes: int = 1 << 20, latency_cycles: int = 16
    ) -> StreamBoard:
        """As `Board.built`."""
        require_tools()
        shape = Shape(machine)
        text = stream_verilog(machine, name=TOP).text
        defines = _memory(MEMORY_ADDRESS, memory_bytes, latency_cycles)
        defines |= {"LINE_BYTES": shape.line_bytes, "RESPONSE_BYTES": shape.response_bytes}
        return StreamBoard(_build(text, "stream", defines), memory_bytes)

    def open(self, seed: int | None = None) -> ServedStream:
        """As `Board.open`."""
        return ServedStream(self.program, self.memory_bytes, seed)


def _memory(address: int, memory_bytes: int, latency_cycles: int) -> dict[str, int | str]:
    return {
        "MEMORY_BASE": f"{address}ull",
        "MEMORY_BYTES": f"{memory_bytes}ull",
        "LATENCY": latency_cycles,
    }


def _build(text: str, top: str, defines: dict[str, int | str]) -> Path:
    harness = f"bus/board_harness.cpp bus/{top}_harness.cpp"
    return build_program(text, harness, [f"-D{name}={value}" for name, value in defines.items()])
