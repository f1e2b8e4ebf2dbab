"""Who uses which banks of the unified buffer, and for how long: what may start beside what.

In one cycle the array goes before the vector unit, and both before what moves data. Late in a cycle
comes only whether the descriptor at hand is finishing, which frees a Store's banks: what depends on
it is decided for both cases beforehand.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal

from ridgeline.machine.instructions import Unit
from ridgeline.machine.instructions.word import COUNT_BITS
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.registers import Bits
from ridgeline.rtl.shape import Shape


class BankUse:
    """What a unit does with one kind of port, as those see it that come after it in a cycle.

    `held_banks` it uses beyond this cycle, whatever starts; `next_banks` too if it `starts` in this
    cycle. `could`: whether it starts if the descriptor at hand is finishing, known earlier.
    """

    def __init__(self, shape: Shape, name: str) -> None:
        self.held_banks = Signal(shape.banks, name=f"{name}_held_banks")
        self.next_banks = Signal(shape.banks, name=f"{name}_next_banks")
        self.starts = Signal(name=f"{name}_starts")
        self.could = Signal(name=f"{name}_could")

    def follow(self, use: BankUse) -> list[Any]:
        """Assignments that make this the view of another's `use`."""
        return [
            self.held_banks.eq(use.held_banks),
            self.next_banks.eq(use.next_banks),
            self.starts.eq(use.starts),
            self.could.eq(use.could),
        ]

    def meets(self, banks: Bits, *, early: bool) -> Bits:
        """Whether one of these banks is taken, `early` if the descriptor at hand is finishing."""
        starts = self.could if early else self.starts
        return (banks & self.held_banks).any() | (starts & (banks & self.next_banks).any())


class StoreUse:
    """The Store at hand: the `banks` that it reads, no longer if it is `finishing`."""

    def __init__(self, shape: Shape) -> None:
        self.banks = Signal(shape.banks, name="store_banks")
        self.finishing = Signal(name="store_finishing")

    def follow(self, use: StoreUse) -> list[Any]:
        """Assignments that make this the view of another's `use`."""
        return [self.banks.eq(use.banks), self.finishing.eq(use.finishing)]

    def meets(self, banks: Bits) -> Bits:
        """Whether one of these banks is its beyond this cycle."""
        return (banks & self.banks).any() & ~self.finishing


def count_starts(m: Module, starts: Bits, name: str) -> Signal:
    """The number of the instruction that starts next, the first is 1."""
    number = Signal(COUNT_BITS, name=f"{name}_number", init=1)
    with m.If(starts):
        m.d.sync += number.eq(number + 1)
    return number


class WriteHolds(Elaboratable):
    """Banks whose write port a unit holds until its last instruction that writes there has drained.

    For each unit and bank, the number of that instruction; instructions of a unit drain in order.
    """

    def __init__(self, shape: Shape, issue: Issue) -> None:
        self.shape, self.issue = shape, issue
        self.started: dict[Unit, Signal] = {}
        self.banks: dict[Unit, Signal] = {}
        self.held: dict[Unit, Signal] = {}
        for unit in (Unit.LOAD, Unit.VECTOR):
            name = unit.name.lower()
            self.started[unit] = Signal(name=f"{name}_starts")
            self.banks[unit] = Signal(shape.banks, name=f"{name}_banks")
            self.held[unit] = Signal(shape.banks, name=f"{name}_held")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for unit, started in self.started.items():
            name = unit.name.lower()
            number = count_starts(m, started, name)
            for bank in range(self.shape.banks):
                until = Signal(COUNT_BITS, name=f"{name}_until_{bank}")
                writes = started & self.banks[unit][bank]
                with m.If(writes):
                    m.d.sync += until.eq(number)
                later = self.is_held(until, self.issue.following[unit])
                m.d.sync += self.held[unit][bank].eq(writes | later)
        return m

    def is_held(self, until: Bits, count: Bits) -> Bits:
        """Whether instruction number `until` has yet to drain."""
        return until > count
