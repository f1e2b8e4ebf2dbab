"""Parts of the hardware beside plain models of what they must do, proved equal by Yosys.

A part and its model take the same inputs; what must hold in every cycle is an Assert. `prove`
shows it by induction over cycles: from the state at the start, and from every state that has kept
to it for some cycles, whichever inputs come, reset among them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Assert, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import memory

from ridgeline.machine.instructions import HALT_OPCODE, Unit
from ridgeline.rtl.fpga.tools import YOSYS, ToolFailure, run_tool
from ridgeline.rtl.issue import ARRAY_WAITS, InstructionQueue, Issue
from ridgeline.rtl.memories import Accumulators
from ridgeline.rtl.registers import Bits, delay, named
from ridgeline.rtl.shape import SUM_BITS, UNIT_KINDS, UNITS, Shape
from ridgeline.rtl.words import opcode, wait

PROVED = "proved"
REFUTED = "model found for base case: FAIL"
UNDECIDED = "Reached maximum number of time steps"

WORDS_BEFORE_MEMORY = 1
"""A queue's head is a register, so that the word behind it is the first in the memory."""


def prove(design: Any, folder: Path, most_cycles: int) -> str:
    """What Yosys says of a design's assertions: PROVED, REFUTED or UNDECIDED.

    `design.inputs` are free, and so is the reset; `most_cycles`: how long an induction may be.
    """
    text = rtlil.convert(design, name="proof", ports=design.inputs, emit_src=False)
    (folder / "proof.il").write_text(text, encoding="utf-8")
    script = (
        "read_rtlil proof.il; hierarchy -top proof; proc; flatten; memory -nomap; memory_map;"
        " async2sync; chformal -lower; opt -full; opt_clean;"
        f" sat -tempinduct -prove-asserts -verify -maxsteps {most_cycles} proof"
    )
    try:
        run_tool(YOSYS, ["-p", script], folder)
    except ToolFailure as failure:
        for verdict in (REFUTED, UNDECIDED):
            if verdict in failure.log:
                return verdict
        raise
    return PROVED


def signals_of(module: Module) -> dict[str, Signal]:
    """What a module drives, by name: invariants speak of registers that others need not see."""
    return {str(signal.name): signal for signal in module._driving}  # pyright: ignore


def opened(part: Any) -> Module:
    """The part's module, which is also what it becomes in the design that it is put in."""
    module: Module = part.elaborate(None)
    part.elaborate = lambda _: module
    return module


def rows_of(m: Module, cells: memory.Memory) -> list[Bits]:
    """Each row of a memory, read without a cycle."""
    rows: list[Bits] = []
    for row in range(cells.depth):
        port = cells.read_port(domain="comb")
        m.d.comb += port.addr.eq(row)
        rows.append(port.data)
    return rows


class QueueProof(Elaboratable):
    """A queue beside words in a row: the same words in the same order, none lost and none twice.

    Whoever uses it pushes only what there is room for and pops only what is there, as Issue and
    the units do; then it never holds more than `depth` words nor fewer than none.
    """

    def __init__(self, unit: Unit, depth: int, count_bits: int) -> None:
        self.count_bits = count_bits
        self.counts: dict[Unit, Bits] = {
            other: Signal(count_bits, name=f"following_{other.name.lower()}") for other in UNITS
        }
        waits = ARRAY_WAITS.get(unit, UNITS)
        self.queue = InstructionQueue(unit, depth, self.counts, waits)
        self.pushes, self.pops = Signal(), Signal()
        self.inputs = [self.pushes, self.pops, self.queue.word, *self.counts.values()]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        queue = self.queue
        inside = opened(queue)
        m.submodules.queue = queue
        level = Signal(range(queue.depth + 2))
        words = [Signal(queue.bits, name=f"word_{i}") for i in range(queue.depth)]
        left = Signal.like(level)
        m.d.comb += [
            queue.push.eq(self.pushes & ~queue.full),
            queue.pop.eq(self.pops & queue.valid),
            left.eq(level - queue.pop),
        ]
        m.d.sync += level.eq(left + queue.push)
        for place, (one, behind) in enumerate(zip(words, [*words[1:], words[-1]], strict=True)):
            stays = Mux(queue.pop, behind, one)
            m.d.sync += one.eq(Mux(queue.push & (left == place), queue.word, stays))
        m.d.comb += [
            Assert(level <= queue.depth),
            Assert(queue.full == (level == queue.depth)),
            Assert(queue.valid == (level != 0)),
            Assert((level == 0) | (queue.head == words[0])),
        ]
        self._keeps(m, inside, level, words)
        self._meets(m, level)
        return m

    def _keeps(self, m: Module, inside: Module, level: Signal, words: list[Signal]) -> None:
        """What the memory holds; without it nothing is known of a word until it is the head."""
        depth = self.queue.depth
        inner = signals_of(inside)
        rows = rows_of(m, inside.submodules.cells)
        m.d.comb += [Assert(inner["level"] == level), Assert(inner["first"] < depth)]
        # Written out for each place of the first: a division would be most of the proof.
        for first in range(depth):
            here = inner["first"] == first
            for place in range(WORDS_BEFORE_MEMORY, depth):
                row = (first + place - WORDS_BEFORE_MEMORY) % depth
                m.d.comb += Assert(~here | (level <= place) | (rows[row] == words[place]))
            for held in range(depth + 1):
                behind = max(held - WORDS_BEFORE_MEMORY, 0)
                free = inner["next_free"] == (first + behind) % depth
                m.d.comb += Assert(~here | (level != held) | free)

    def _meets(self, m: Module, level: Signal) -> None:
        """`met` speaks of the head and of the counts that the world sees."""
        now = {unit: Signal(self.count_bits, name=f"now_{unit.name.lower()}") for unit in UNITS}
        m.d.sync += [now[unit].eq(self.counts[unit]) for unit in UNITS]
        reached = [now[unit] >= wait(self.queue.head, unit) for unit in self.queue.waits]
        m.d.comb += Assert((level == 0) | (self.queue.met == Cat(*reached).all()))


class AccumulatorsProof(Elaboratable):
    """The accumulators beside a memory that reads, adds and writes in one cycle.

    That one does so two cycles late; both hold the same sums in every cycle.
    """

    def __init__(self, shape: Shape, sum_bits: int) -> None:
        self.dut = dut = Accumulators(shape, sum_bits)
        self.entries = shape.machine.array.accumulator_entries
        self.cols = shape.cols
        self.inputs = [
            dut.valid, dut.accumulate, dut.entry, dut.sums, dut.vector.address, dut.vector.enable,
        ]  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        dut = self.dut
        inside = opened(dut)
        m.submodules.dut = dut
        valid = delay(m, dut.valid, 2, "plain_valid", control=True)
        entry = delay(m, dut.entry, 2, "plain_entry")
        adds = delay(m, dut.accumulate, 2, "plain_adds")
        sums = delay(m, dut.sums, 2, "plain_sums")
        rows = rows_of(m, inside.submodules.cells)
        for place, row in enumerate(rows):
            plain = Signal(len(row), name=f"plain_{place}", reset_less=True)
            for col in range(self.cols):
                new = sums.word_select(col, dut.sum_bits).as_signed()
                before = Mux(adds, plain.word_select(col, SUM_BITS), 0).as_signed()
                with m.If(valid & (entry == place)):
                    m.d.sync += plain.word_select(col, SUM_BITS).eq(new + before)
            m.d.comb += Assert(row == plain)
        return m


class IssueProof(Elaboratable):
    """Issue beside what it must do with each word, and counters of what was sent and has drained.

    The units' part is any that pops only what is there and drains each instruction once, after it
    was popped, with fewer on their way than counts can tell apart.
    """

    def __init__(self, shape: Shape, count_bits: int) -> None:
        self.issue, self.count_bits = Issue(shape), count_bits
        self.pops = {unit: Signal(name=f"pops_{unit.name.lower()}") for unit in UNITS}
        self.drains = {unit: Signal(name=f"drains_{unit.name.lower()}") for unit in UNITS}
        self.inputs = [
            self.issue.valid, self.issue.word, *self.pops.values(), *self.drains.values(),
        ]  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        issue = self.issue
        inner = {unit: signals_of(opened(queue)) for unit, queue in issue.queues.items()}
        registers = signals_of(opened(issue))
        m.submodules.issue = issue
        takes = named(m, issue.valid & issue.ready, "takes")
        room, idle = [], []
        for unit in UNITS:
            dispatched = registers[f"{unit.name.lower()}_dispatched"]
            has_room, is_idle = self._unit(m, unit, takes, inner[unit]["level"], dispatched)
            room.append(has_room)
            idle.append(is_idle)
        halts = named(m, (opcode(issue.word) == HALT_OPCODE) & Cat(*idle).all(), "may_halt")
        done = Signal()
        with m.If(issue.valid & halts):
            m.d.sync += done.eq(1)
        pushes = [issue.queues[unit].push for unit in UNITS]
        m.d.comb += [
            Assert(takes == (issue.valid & (Cat(*room).any() | halts))),
            Assert(sum(pushes) <= 1),
            Assert(issue.done == done),
        ]
        return m

    def _unit(
        self, m: Module, unit: Unit, takes: Bits, level: Bits, dispatched: Bits
    ) -> tuple[Bits, Bits]:
        """One unit's promises and duties: whether the word is its and fits, whether it is idle."""
        issue, name = self.issue, unit.name.lower()
        queue = issue.queues[unit]
        codes = [kind.opcode for kind in UNIT_KINDS[unit]]
        mine = named(m, Cat(*(opcode(issue.word) == code for code in codes)).any(), f"{name}_mine")
        waiting = Signal(range(queue.depth + 2), name=f"{name}_waiting")
        flying = Signal(self.count_bits, name=f"{name}_flying")
        drained = Signal(self.count_bits, name=f"{name}_has_drained")
        most = (1 << self.count_bits) - 1 - queue.depth
        m.d.comb += [
            queue.pop.eq(self.pops[unit] & queue.valid & (flying < most)),
            issue.drained[unit].eq(self.drains[unit] & (flying != 0)),
        ]
        sent = named(m, takes & mine, f"{name}_sent")
        m.d.sync += [
            waiting.eq(waiting + sent - queue.pop),
            flying.eq(flying + queue.pop - issue.drained[unit]),
            drained.eq(drained + issue.drained[unit]),
        ]
        m.d.comb += [
            Assert(queue.push == sent),
            Assert(queue.word == issue.word[: queue.bits]),
            Assert(waiting <= queue.depth),
            Assert((level == waiting) & (queue.valid == (waiting != 0))),
            Assert(flying <= most),
            Assert(issue.counts[unit] == drained),
            Assert(dispatched == (drained + waiting + flying)[: self.count_bits]),
        ]
        return mine & (waiting != queue.depth), (waiting == 0) & (flying == 0)
