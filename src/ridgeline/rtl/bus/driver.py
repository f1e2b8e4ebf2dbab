"""The host's side: programs loaded, run and read back through a transport."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.machine.execute import Arrays, checked_inputs
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.rtl.bus.image import image
from ridgeline.rtl.bus.register_map import (
    COUNTERS,
    COUNTERS_OFFSET,
    ERRORS,
    IDENTITY,
    MAP_VERSION,
    machine_digest,
    offsets,
    register_map,
)
from ridgeline.rtl.bus.transports import Transport
from ridgeline.rtl.support import require_program

_OFFSETS = offsets(register_map(counts=True))
_START, _STOP = 1, 2
_BUSY, _DONE = 1, 2
_PAGE_BYTES = 4096


class Driver:
    """An accelerator that a program can be loaded into and run on, again and again.

    Raises RidgelineError where the transport leads to no accelerator, or to one that this driver
    does not know.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.program: Program | None = None
        self.images: list[tuple[int, int]] = []
        """Address and bytes of each part of the loaded program, to be run one after the other."""
        found = self._read("IDENTITY")
        if found != IDENTITY:
            raise RidgelineError(
                f"no Ridgeline accelerator answers: its first register reads {found:#010x},"
                f" not {IDENTITY:#010x}",
                fix="Check the address of the registers, and that the FPGA is configured",
            )
        version = self._read("MAP_VERSION")
        if version >> 16 != MAP_VERSION >> 16:
            raise RidgelineError(
                f"the accelerator's register map is version {version >> 16}, and this driver knows"
                f" {MAP_VERSION >> 16}",
                fix="Use the Ridgeline that generated it",
            )

    def _read(self, name: str) -> int:
        return self.transport.read32(_OFFSETS[name])

    def _write(self, name: str, value: int) -> None:
        self.transport.write32(_OFFSETS[name], value)

    def load(self, program: Program) -> None:
        """Put a program's constants and instructions into memory.

        Raises RidgelineError for a program of another machine, with work for the host, or for which
        the memory is too small.
        """
        require_program(program)
        built, wanted = self._read("MACHINE"), machine_digest(program.machine)
        if built != wanted:
            raise RidgelineError(
                f"the program is for machine {program.machine.name} ({wanted:#010x}), and the"
                f" accelerator was generated from another machine file ({built:#010x})",
                where=f"program {program.name}",
                fix="Compile it for the machine file beside the accelerator's Verilog",
            )
        base = -(-self.transport.memory_address // _PAGE_BYTES) * _PAGE_BYTES
        address = base + -(-program.device_bytes // _PAGE_BYTES) * _PAGE_BYTES
        parts = [
            image(one.instructions) for one in program.segments if isinstance(one, DeviceSegment)
        ]
        end = address + sum(map(len, parts))
        room = self.transport.memory_address + self.transport.memory_bytes
        if end > room:
            raise RidgelineError(
                f"needs {end - self.transport.memory_address:,} bytes of memory, and the transport"
                f" has {self.transport.memory_bytes:,}",
                where=f"program {program.name}",
                fix="Give the accelerator more memory",
            )
        self.images = []
        for part in parts:
            self.transport.write_memory(address, part)
            self.images.append((address, len(part)))
            address += len(part)
        self.transport.write_memory(base, program.constants.tobytes())
        for name, value in (("BASE_LOW", base & 0xFFFF_FFFF), ("BASE_HIGH", base >> 32)):
            self._write(name, value)
        self.program, self._base = program, base

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], timeout_seconds: float = 60.0) -> Arrays:
        """The program's outputs by name, for inputs by name as `execute` takes them.

        Raises RidgelineError without a program, for inputs that do not fit, and where the program
        does not end in time or not with Halt.
        """
        program = self._loaded()
        arrays = checked_inputs(program, inputs)
        for tensor in program.device_inputs:
            packed = tensor.packing.pack(arrays[tensor.name]).tobytes()
            self.transport.write_memory(self._base + tensor.address, packed)
        for address, size in self.images:
            self.start(address, size)
            self.wait(timeout_seconds)
        outputs: Arrays = {}
        for tensor in program.device_outputs:
            found = self.transport.read_memory(self._base + tensor.address, tensor.bytes)
            stored = np.frombuffer(found, np.uint8)
            outputs[tensor.name] = tensor.packing.unpack(stored, tensor.shape, tensor.dtype)
        return outputs

    def _loaded(self) -> Program:
        if self.program is None:
            raise RidgelineError("no program is loaded", fix="Call load(program) first")
        return self.program

    def start(self, address: int, size: int) -> None:
        """Run the image of `size` bytes at `address` on the bus."""
        self._write("PROGRAM_LOW", address & 0xFFFF_FFFF)
        self._write("PROGRAM_HIGH", address >> 32)
        self._write("PROGRAM_BYTES", size)
        self._write("CONTROL", _START)

    def wait(self, timeout_seconds: float = 60.0) -> None:
        """Until the program has ended. Raises RidgelineError where it fails, or takes longer."""
        status = self._until_idle(
            timeout_seconds, "the program did not end", "Call stop(), and check memory and its bus"
        )
        if not status & _DONE:
            raise RidgelineError("the program failed: " + "; ".join(self.errors()))

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """End the program that runs, if one does, once its accesses to memory are over.

        Raises RidgelineError where memory does not answer them in time.
        """
        self._write("CONTROL", _STOP)
        self._until_idle(
            timeout_seconds, "memory did not answer", "Check its clock and bus, then reset both"
        )

    def _until_idle(self, timeout_seconds: float, late: str, fix: str) -> int:
        """STATUS once nothing runs any more."""
        until = time.monotonic() + timeout_seconds
        while (status := self._read("STATUS")) & _BUSY:
            if time.monotonic() > until:
                raise RidgelineError(f"{late} within {timeout_seconds:g} seconds", fix=fix)
            self.transport.pause()
        return status

    def errors(self) -> list[str]:
        """Why the last program did not end with Halt."""
        held = self._read("ERROR")
        return [error.meaning for error in ERRORS if held >> error.bit & 1]

    def counters(self) -> dict[str, int]:
        """The performance counters of the last program by name; empty where none were built."""
        built = self._read("COUNTERS")
        return {
            name: self.transport.read32(COUNTERS_OFFSET + 4 * place)
            for place, (name, _) in enumerate(COUNTERS[:built])
        }
