"""Who may use the device-memory port next: the one that asked first."""

from __future__ import annotations

from itertools import combinations

from amaranth.hdl import Const, Elaboratable, Module, Signal

from ridgeline.machine.instructions import Unit
from ridgeline.rtl.registers import Bits, named

_TOGETHER, _FIRST, _SECOND = range(3)


class RequestOrder(Elaboratable):
    """Grants one of several units, in order of request; together, in the order of `units`.

    `ready[unit]`: its next instruction could start but for banks and port: this is the request.
    `able[unit]`: banks and port allow it now. `apart[a, b]`: the two need nothing in common, so
    both may be granted at once. `could[unit]`: ready and able if what is late in a cycle comes out
    well; `chosen[unit]`: what is granted then, known earlier.
    """

    def __init__(self, units: tuple[Unit, ...]) -> None:
        self.units = units
        self.ready = {unit: Signal(name=f"{unit.name.lower()}_ready") for unit in units}
        self.able = {unit: Signal(name=f"{unit.name.lower()}_able") for unit in units}
        self.apart = {
            pair: Signal(name=f"{pair[0].name}_{pair[1].name}_apart".lower())
            for pair in combinations(units, 2)
        }
        self.could = {unit: Signal(name=f"{unit.name.lower()}_could") for unit in units}
        self.granted = {unit: Signal(name=f"{unit.name.lower()}_granted") for unit in units}
        self.chosen = {unit: Signal(name=f"{unit.name.lower()}_chosen") for unit in units}

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
        self._grant(m, candidate, precedes, self.granted, "")
        self._grant(m, {**self.could}, precedes, self.chosen, "could_")
        return m

    def _grant(
        self,
        m: Module,
        candidate: dict[Unit, Bits],
        precedes: dict[tuple[Unit, Unit], Bits],
        granted: dict[Unit, Signal],
        name: str,
    ) -> None:
        against = self._against(m, candidate, precedes, name)
        for unit in self.units:
            gets = candidate[unit]
            for other in self.units:
                if other is not unit:
                    gets = gets & ~(against[other, unit] & ~self._loses(against, other, unit))
            m.d.comb += granted[unit].eq(gets)

    def _against(
        self,
        m: Module,
        candidate: dict[Unit, Bits],
        precedes: dict[tuple[Unit, Unit], Bits],
        prefix: str,
    ) -> dict[tuple[Unit, Unit], Bits]:
        """Whether the first goes before the second, and leaves it nothing."""
        found: dict[tuple[Unit, Unit], Bits] = {}
        for first, second in precedes:
            pair = (first, second)
            apart = self.apart[pair if pair in self.apart else (second, first)]
            name = f"{prefix}{first.name}_against_{second.name}".lower()
            found[first, second] = named(
                m, candidate[first] & precedes[first, second] & ~apart, name
            )
        return found

    def _loses(self, against: dict[tuple[Unit, Unit], Bits], unit: Unit, beside: Unit) -> Bits:
        """Whether a third one takes from `unit` what it needs; of three, none can lose to more."""
        lost: Bits = Const(0)
        for third in self.units:
            if third not in (unit, beside):
                lost = lost | against[third, unit]
        return lost
