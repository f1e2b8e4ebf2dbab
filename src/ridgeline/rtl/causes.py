"""Why each unit stands still in this cycle, as `machine.counters` says it: a bit for each cause."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal

from ridgeline.machine.counters import ARRAY_CAUSES, CAUSES, OF_UNIT, OTHER_UNITS
from ridgeline.machine.instructions import HALT_OPCODE, MatMul, Unit
from ridgeline.rtl.array_unit import ArrayUnit
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import UNITS
from ridgeline.rtl.transfers import Transfers
from ridgeline.rtl.vector_unit import VectorUnit
from ridgeline.rtl.words import field, opcode, wait, waits_met


class Causes(Elaboratable):
    """`bits`: of CAUSES, those of this cycle, one of the array's and one of each other unit's."""

    def __init__(
        self, issue: Issue, array: ArrayUnit, vector: VectorUnit, transfers: Transfers
    ) -> None:
        self.issue, self.array, self.transfers = issue, array, transfers
        self.vector_banks = vector.reads.held_banks
        self.active: dict[Unit, Bits] = {
            **transfers.active,
            Unit.VECTOR: vector.active,
            Unit.ARRAY: array.active,
        }
        self.bits = Signal(len(CAUSES))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits: list[Bits] = list(self._array(m))
        for unit in OTHER_UNITS:
            queue = self.issue.queues[unit]
            waits = ~waits_met(queue.head, self.issue.counts, UNITS)
            bits += self._first(m, [self.active[unit], ~queue.valid, waits, 1], unit.name.lower())
        m.d.comb += self.bits.eq(Cat(*bits))
        return m

    def _first(self, m: Module, order: list[Bits], name: str) -> list[Bits]:
        """The first of `order` that holds, alone."""
        found = [Signal(name=f"{name}_cause_{place}") for place in range(len(order))]
        with m.If(order[0]):
            m.d.comb += found[0].eq(1)
        for flag, cause in zip(order[1:], found[1:], strict=True):
            with m.Elif(flag):
                m.d.comb += cause.eq(1)
        return list(found)

    def _array(self, m: Module) -> list[Bits]:
        """By name in the order of ARRAY_CAUSES, from causes in the order of their priority."""
        array, queue = self.array, self.issue.queues[Unit.ARRAY]
        head = Signal(queue.bits, name="array_next")
        with m.If(array.waiting):
            m.d.comb += head.eq(array.word)
        with m.Else():
            m.d.comb += head.eq(queue.head)
        waits = {
            unit: named(
                m, self.issue.counts[unit] < wait(head, unit), f"array_lacks_{unit.name.lower()}"
            )
            for unit in UNITS
        }
        banks = field(head, MatMul, "banks")[: len(self.vector_banks)]
        there = named(m, array.waiting | queue.valid, "array_has_instruction")
        causes: list[tuple[Bits, str]] = [(self.active[Unit.ARRAY], "active")]
        causes += [(~there & flag, name) for flag, name in self._dispatcher(m)]
        causes += [
            (waits[Unit.WEIGHTS], "weight stall"),
            (~array.waiting, "weight shift"),
            (waits[Unit.VECTOR] & self.active[Unit.VECTOR], "vector"),
            (waits[Unit.VECTOR], "read-after-write"),
            (waits[Unit.LOAD], "input"),
            (waits[Unit.STORE], "store"),
            (waits[Unit.ARRAY], "issue"),
            ((banks & self.transfers.from_buffer.held_banks).any(), "weight stall"),
            ((banks & self.vector_banks).any(), "vector"),
            (1, "store"),
        ]
        first = self._first(m, [flag for flag, _ in causes], "array")
        by_name: dict[str, list[Bits]] = {name: [] for name, _ in ARRAY_CAUSES}
        for bit, (_, name) in zip(first, causes, strict=True):
            by_name[name].append(bit)
        return [Cat(*found).any() for found in by_name.values()]

    def _dispatcher(self, m: Module) -> list[tuple[Bits, str]]:
        """What the array lacks while it has no instruction."""
        issue = self.issue
        shows = issue.valid & (opcode(issue.word) == HALT_OPCODE)
        halted = named(m, shows | issue.done, "halt_shown")
        stands = named(m, issue.valid & ~halted & ~issue.ready, "dispatcher_stands")
        found: list[tuple[Bits, str]] = [
            (stands & issue.wanted[unit], name) for unit, name in OF_UNIT.items()
        ]
        found.append((~halted, "issue"))
        found += [(self.active[unit], name) for unit, name in OF_UNIT.items()]
        return [*found, (1, "drain")]
