"""Who may use the device-memory port next: the one that asked first."""

from __future__ import annotations

from itertools import combinations

from amaranth.hdl import Elaboratable, Module, Signal

from ridgeline.machine.instructions import Unit
from ridgeline.rtl.registers import Bits

_TOGETHER, _FIRST, _SECOND = range(3)


class RequestOrder(Elaboratable):
    """Grants one of several units, in order of request; together, in the order of `units`.

    `ready[unit]`: its next instruction could start but for banks and port: this is the request.
    `able[unit]`: banks and port allow it now. At most one of `granted` is set.
    """

    def __init__(self, units: tuple[Unit, ...]) -> None:
        self.units = units
        self.ready = {unit: Signal(name=f"{unit.name.lower()}_ready") for unit in units}
        self.able = {unit: Signal(name=f"{unit.name.lower()}_able") for unit in units}
        self.granted = {unit: Signal(name=f"{unit.name.lower()}_granted") for unit in units}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        candidate: dict[Unit, Bits] = {}
        for unit in self.units:
            candidate[unit] = Signal(name=f"{unit.name.lower()}_candidate")
            m.d.comb += candidate[unit].eq(self.ready[unit] & self.able[unit])
        precedes: dict[tuple[Unit, Unit], Bits] = {}
        for first, second in combinations(self.units, 2):
            name = f"{first.name}_{second.name}".lower()
            order = Signal(range(3), name=f"order_{name}")
            precedes[first, second] = order != _SECOND
            precedes[second, first] = order == _SECOND
            waits_first = self.ready[first] & ~self.granted[first]
            waits_second = self.ready[second] & ~self.granted[second]
            with m.If(~waits_first & ~waits_second):
                m.d.sync += order.eq(_TOGETHER)
            with m.Elif(~waits_second):
                m.d.sync += order.eq(_FIRST)
            with m.Elif(~waits_first):
                m.d.sync += order.eq(_SECOND)
        for unit in self.units:
            granted = candidate[unit]
            for other in self.units:
                if other is not unit:
                    granted = granted & ~(candidate[other] & precedes[other, unit])
            m.d.comb += self.granted[unit].eq(granted)
        return m
