"""Issue: one instruction a cycle into the queue of its unit, and the counts that waits look at."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import memory

from ridgeline.machine.instructions import HALT_OPCODE, Unit
from ridgeline.machine.instructions.word import COUNT_BITS, WORD_BITS
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import UNIT_KINDS, UNITS, Shape
from ridgeline.rtl.words import opcode, waits_met, word_bits

ARRAY_WAITS = {Unit.ARRAY: (Unit.WEIGHTS,)}
"""What an array instruction at the head of its queue waits for: the rest it does a stage later."""


class InstructionQueue(Elaboratable):
    """A unit's queue: `head` is shown while `valid`; `pop` makes room from the next cycle on.

    The head is a register, and so is `met`: whether the counts of `waits` have reached what it
    waits for. `following` are all counts as they will be in the next cycle; `staying`: whether all
    the head waits for will be met then, if it stays.
    """

    def __init__(
        self, unit: Unit, depth: int, following: dict[Unit, Bits], waits: tuple[Unit, ...]
    ) -> None:
        self.depth, self.following, self.waits = depth, following, waits
        self.bits = word_bits(UNIT_KINDS[unit])
        name = unit.name.lower()
        self.push = Signal(name=f"{name}_push")
        self.pop = Signal(name=f"{name}_pop")
        self.full = Signal(name=f"{name}_full")
        self.valid = Signal(name=f"{name}_valid")
        self.met = Signal(name=f"{name}_met")
        self.staying = Signal(name=f"{name}_staying")
        self.word = Signal(self.bits, name=f"{name}_word")
        self.head = Signal(self.bits, name=f"{name}_head", reset_less=True)

    @property
    def ready(self) -> Bits:
        """Whether there is a head, and what it waits for is met."""
        return self.valid & self.met

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.cells = cells = memory.Memory(shape=self.bits, depth=self.depth, init=[])
        writing, reading = cells.write_port(), cells.read_port(domain="comb")
        level = Signal(range(self.depth + 1))
        first = Signal(range(self.depth))
        next_free = Signal(range(self.depth))
        behind = named(m, level > 1, "behind_head")
        # What is pushed goes past the memory where nothing is to come before it.
        leads = named(m, (level == 0) | (self.pop & ~behind), "leads")
        after = named(m, Mux(behind, reading.data, self.word), "after_head")
        moves = named(m, self.pop | ~self.valid, "head_moves")
        m.d.comb += [
            self.full.eq(level == self.depth),
            writing.addr.eq(next_free),
            writing.data.eq(self.word),
            writing.en.eq(self.push),
            reading.addr.eq(first),
        ]
        m.d.sync += [
            level.eq(level + self.push - self.pop),
            self.valid.eq(behind | self.push | (self.valid & ~self.pop)),
        ]
        with m.If(moves):
            m.d.sync += self.head.eq(after)
        for place, steps in ((next_free, self.push & ~leads), (first, self.pop & behind)):
            with m.If(steps):
                m.d.sync += place.eq(Mux(place == self.depth - 1, 0, place + 1))
        self._compare(m, moves, after)
        return m

    def _compare(self, m: Module, moves: Bits, after: Bits) -> None:
        """Both possible heads of the next cycle with the counts of the next cycle."""
        m.d.comb += self.staying.eq(waits_met(self.head, self.following, UNITS))
        stays = self.staying
        if self.waits != UNITS:
            stays = named(m, waits_met(self.head, self.following, self.waits), "stays_met")
        comes = named(m, waits_met(after, self.following, self.waits), "comes_met")
        m.d.sync += self.met.eq(Mux(moves, comes, stays))


class Issue(Elaboratable):
    """The instruction stream's end: queues, counts of drained instructions, and Halt.

    Units read `queues[unit]` and `following`, the counts of the next cycle, and raise
    `drained[unit]` for a cycle when an instruction's last effect is in its memory. `wanted`: whose
    instruction the word is. `done` once Halt found everything drained.
    """

    def __init__(self, shape: Shape) -> None:
        self.valid = Signal()
        self.ready = Signal()
        self.done = Signal()
        self.word = Signal(WORD_BITS)
        depth = shape.machine.queue_depth
        self.following: dict[Unit, Bits] = {
            unit: Signal(COUNT_BITS, name=f"{unit.name.lower()}_following") for unit in UNITS
        }
        self.queues = {
            unit: InstructionQueue(unit, depth, self.following, ARRAY_WAITS.get(unit, UNITS))
            for unit in UNITS
        }
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
            m.d.comb += self.following[unit].eq(self.counts[unit] + self.drained[unit])
            m.d.sync += self.counts[unit].eq(self.following[unit])
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
