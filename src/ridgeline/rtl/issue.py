"""Issue: one instruction a cycle into the queue of its unit, and the counts that waits look at."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import memory

from ridgeline.machine.instructions import HALT_OPCODE, Unit
from ridgeline.machine.instructions.word import COUNT_BITS, WORD_BITS
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import UNIT_KINDS, UNITS, Shape
from ridgeline.rtl.words import opcode, word_bits


class InstructionQueue(Elaboratable):
    """A unit's queue: `head` is shown while `valid`; `pop` makes room from the next cycle on."""

    def __init__(self, unit: Unit, depth: int) -> None:
        self.depth = depth
        self.bits = word_bits(UNIT_KINDS[unit])
        name = unit.name.lower()
        self.push = Signal(name=f"{name}_push")
        self.pop = Signal(name=f"{name}_pop")
        self.full = Signal(name=f"{name}_full")
        self.valid = Signal(name=f"{name}_valid")
        self.word = Signal(self.bits, name=f"{name}_word")
        self.head = Signal(self.bits, name=f"{name}_head")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cells = cells = memory.Memory(shape=self.bits, depth=self.depth, init=[])
        writing, reading = cells.write_port(), cells.read_port(domain="comb")
        level = Signal(range(self.depth + 1))
        first = Signal(range(self.depth))
        next_free = Signal(range(self.depth))
        m.d.comb += [
            self.full.eq(level == self.depth),
            self.valid.eq(level != 0),
            writing.addr.eq(next_free),
            writing.data.eq(self.word),
            writing.en.eq(self.push),
            reading.addr.eq(first),
            self.head.eq(reading.data),
        ]
        m.d.sync += level.eq(level + self.push - self.pop)
        for place, moves in ((next_free, self.push), (first, self.pop)):
            with m.If(moves):
                with m.If(place == self.depth - 1):
                    m.d.sync += place.eq(0)
                with m.Else():
                    m.d.sync += place.eq(place + 1)
        return m


class Issue(Elaboratable):
    """The instruction stream's end: queues, counts of drained instructions, and Halt.

    Units read `queues[unit]` and `counts`, and raise `drained[unit]` for a cycle when an
    instruction's last effect is in its memory. `wanted`: whose instruction the word is. `done` once
    Halt found everything drained.
    """

    def __init__(self, shape: Shape) -> None:
        self.valid = Signal()
        self.ready = Signal()
        self.done = Signal()
        self.word = Signal(WORD_BITS)
        depth = shape.machine.queue_depth
        self.queues = {unit: InstructionQueue(unit, depth) for unit in UNITS}
        self.drained = {unit: Signal(name=f"{unit.name.lower()}_drained") for unit in UNITS}
        self.wanted = {unit: Signal(name=f"{unit.name.lower()}_wanted") for unit in UNITS}
        self.counts: dict[Unit, Bits] = {
            unit: Signal(COUNT_BITS, name=f"{unit.name.lower()}_count") for unit in UNITS
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code = opcode(self.word)
        pushes: list[Bits] = []
        idle: list[Bits] = []
        for unit, queue in self.queues.items():
            name = unit.name.lower()
            m.submodules[f"{name}_queue"] = queue
            codes = [code == kind.opcode for kind in UNIT_KINDS[unit]]
            m.d.comb += self.wanted[unit].eq(Cat(*codes).any())
            push = named(m, self.valid & self.wanted[unit] & ~queue.full, f"{name}_accepts")
            dispatched = Signal(COUNT_BITS, name=f"{name}_dispatched")
            m.d.comb += [queue.push.eq(push), queue.word.eq(self.word[: queue.bits])]
            m.d.sync += dispatched.eq(dispatched + push)
            m.d.sync += self.counts[unit].eq(self.counts[unit] + self.drained[unit])
            pushes.append(push)
            idle.append(dispatched == self.counts[unit])
        halts = named(m, (code == HALT_OPCODE) & self.is_idle(idle), "halts")
        m.d.comb += self.ready.eq(Cat(*pushes).any() | halts)
        with m.If(self.valid & halts):
            m.d.sync += self.done.eq(1)
        return m

    def is_idle(self, idle: list[Bits]) -> Bits:
        """Whether all units have drained all that they were sent."""
        return Cat(*idle).all()
