"""Performance counters: how many cycles of a program each cause took."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal

from ridgeline.rtl.accelerator import Accelerator
from ridgeline.rtl.bus.register_map import COUNTERS
from ridgeline.rtl.registers import Bits, named

COUNTER_BITS = 32
"""At 100 MHz a counter wraps after 42 seconds."""


class Counters(Elaboratable):
    """A counter for each of COUNTERS, in `values`.

    They begin with the first instruction that is shown while `running`, and end when the core is
    done; `clear` sets them to 0.
    """

    def __init__(self, core: Accelerator) -> None:
        self.core = core
        self.running = Signal()
        self.clear = Signal()
        self.values = [Signal(COUNTER_BITS, name=f"counter_{i}") for i in range(len(COUNTERS))]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        begun = Signal()
        counts = named(m, (begun | core.instruction_valid) & self.running & ~core.done, "counts")
        m.d.sync += begun.eq((begun | core.instruction_valid) & self.running)
        waits = (core.read_valid & ~core.read_ready) | (core.write_valid & ~core.write_ready)
        moves: list[Bits] = [1, waits, *core.causes]
        for value, move in zip(self.values, moves, strict=True):
            with m.If(self.clear):
                m.d.sync += value.eq(0)
            with m.Elif(counts & move):
                m.d.sync += value.eq(value + 1)
        return m


class CountedCore(Elaboratable):
    """The bare core with counters beside it: counter_value is that of counter_index."""

    def __init__(self, core: Accelerator) -> None:
        self.core = core
        self.counters = Counters(core)
        self.counter_index = Signal(range(len(COUNTERS)))
        self.counter_value = Signal(COUNTER_BITS)

    @property
    def pins(self) -> list[Signal]:
        """Every port of the module."""
        return [*self.core.pins, self.counter_index, self.counter_value]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core, m.submodules.counters = self.core, self.counters
        m.d.comb += self.counters.running.eq(1)
        with m.Switch(self.counter_index):
            for place, value in enumerate(self.counters.values):
                with m.Case(place):
                    m.d.comb += self.counter_value.eq(value)
        return m
