"""Performance counters: how many cycles of a program each cause took."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal

from ridgeline.rtl.accelerator import Accelerator
from ridgeline.rtl.bus.register_map import COUNTERS
from ridgeline.rtl.registers import Bits

COUNTER_BITS = 32
"""At 100 MHz a counter wraps after 42 seconds."""


class Counters(Elaboratable):
    """A counter for each of COUNTERS, in `values`; they move while `enable`."""

    def __init__(self, core: Accelerator) -> None:
        self.core = core
        self.enable = Signal()
        self.clear = Signal()
        self.values = [Signal(COUNTER_BITS, name=f"counter_{i}") for i in range(len(COUNTERS))]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        waits = (core.read_valid & ~core.read_ready) | (core.write_valid & ~core.write_ready)
        moves: list[Bits] = [1, waits]
        for value, move in zip(self.values, moves, strict=True):
            with m.If(self.clear):
                m.d.sync += value.eq(0)
            with m.Elif(self.enable):
                m.d.sync += value.eq(value + move)
        return m
