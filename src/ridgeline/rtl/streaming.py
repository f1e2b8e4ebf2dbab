"""A component alone in Verilator: millions of cycles of its pins, as arrays of words."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.back import verilog
from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Flow

from ridgeline.errors import RidgelineError
from ridgeline.rtl.build import build_program
from ridgeline.rtl.verilog import TOP

Words = npt.NDArray[np.uint64]
"""[cycles, ceil(bits / 64)], the lowest 64 bits first."""


class _Packed(Elaboratable):
    """The component behind two wide pins."""

    def __init__(self, inside: wiring.Component) -> None:
        self.inside = inside
        self.ports = {Flow.In: list[Signal](), Flow.Out: list[Signal]()}
        for name, member in inside.signature.members.items():
            self.ports[member.flow].append(getattr(inside, name))
        self.stimulus = Signal(sum(len(one) for one in self.ports[Flow.In]))
        self.response = Signal(sum(len(one) for one in self.ports[Flow.Out]))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inside = self.inside
        m.d.comb += Cat(*self.ports[Flow.In]).eq(self.stimulus)
        m.d.comb += self.response.eq(Cat(*self.ports[Flow.Out]))
        return m


class Stream:
    """A component as a program that is given all its inputs and gives back all its outputs.

    Built by Verilator once for each content. Raises RidgelineError where there are no tools.
    `beside`: Verilog of modules that the component has instances of.
    """

    def __init__(self, component: wiring.Component, beside: str = "") -> None:
        packed = _Packed(component)
        self.inputs = _places(packed.ports[Flow.In])
        self.outputs = _places(packed.ports[Flow.Out])
        ports = [packed.stimulus, packed.response]
        text = verilog.convert(packed, name=TOP, ports=ports, emit_src=False)
        self.program = build_program(text + beside, "stream.cpp", [])

    def run(self, stimulus: Mapping[str, npt.NDArray[Any]]) -> dict[str, Words]:
        """Each output in each cycle, given each input in each: integers [cycles], or Words.

        An input that is not named stays 0. Outputs are [cycles] where 64 bits hold them. Raises
        RidgelineError when the simulation fails.
        """
        cycles = max(len(values) for values in stimulus.values())
        bits = np.zeros((cycles, stored_bytes(_width(self.inputs))), np.uint8)
        for name, values in stimulus.items():
            _put(bits, *self.inputs[name], np.asarray(values))
        with tempfile.TemporaryDirectory() as folder:
            given, made = Path(folder) / "stimulus", Path(folder) / "response"
            bits.tofile(given)
            done = subprocess.run([str(self.program), str(given), str(made)])
            if done.returncode:
                raise RidgelineError(f"the simulation ended with code {done.returncode}")
            answer = np.fromfile(made, np.uint8).reshape(cycles, -1)
        return {name: _taken(answer, *place) for name, place in self.outputs.items()}


def _places(ports: list[Signal]) -> dict[str, tuple[int, int]]:
    """Where each port begins, and how wide it is."""
    found: dict[str, tuple[int, int]] = {}
    start = 0
    for port in ports:
        found[str(port.name)] = (start, len(port))
        start += len(port)
    return found


def _width(places: dict[str, tuple[int, int]]) -> int:
    return sum(bits for _, bits in places.values())


def stored_bytes(bits: int) -> int:
    """How many bytes Verilator keeps a port of so many bits in."""
    for size in (1, 2, 4, 8):
        if bits <= 8 * size:
            return size
    return 4 * -(-bits // 32)


def _put(memory: npt.NDArray[np.uint8], start: int, bits: int, values: npt.NDArray[Any]) -> None:
    """OR the lowest `bits` of each value into each row, from bit `start` on."""
    words = values.reshape(len(values), -1)
    for column in range(words.shape[1]):
        first = 64 * column
        width = min(64, bits - first)
        word = words[:, column].astype(np.uint64)
        if width < 64:
            word &= np.uint64((1 << width) - 1)
        byte, within = divmod(start + first, 8)
        for step in range((within + width + 7) // 8):
            moved = 8 * step - within
            part = word << np.uint64(-moved) if moved < 0 else word >> np.uint64(moved)
            memory[: len(words), byte + step] |= part.astype(np.uint8)


def _taken(memory: npt.NDArray[np.uint8], start: int, bits: int) -> Words:
    words = np.zeros((len(memory), -(-bits // 64)), np.uint64)
    for column in range(words.shape[1]):
        width = min(64, bits - 64 * column)
        byte, within = divmod(start + 64 * column, 8)
        for step in range((within + width + 7) // 8):
            part = memory[:, byte + step].astype(np.uint64)
            moved = 8 * step - within
            shifted = part >> np.uint64(-moved) if moved < 0 else part << np.uint64(moved)
            words[:, column] |= shifted
        if width < 64:
            words[:, column] &= np.uint64((1 << width) - 1)
    return words[:, 0] if words.shape[1] == 1 else words
