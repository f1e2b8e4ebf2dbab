"""The whole accelerator: its units around their memories, and its pins."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal

from ridgeline.machine.counters import CAUSES
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, Requant, Unit
from ridgeline.machine.instructions.word import COUNT_BITS, WORD_BITS
from ridgeline.rtl.array_unit import ArrayUnit
from ridgeline.rtl.causes import Causes
from ridgeline.rtl.holds import WriteHolds
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import Accumulators, Parameters, UnifiedBuffer, WeightSlots
from ridgeline.rtl.registers import Bits
from ridgeline.rtl.returns import ReturnPath, StorePath
from ridgeline.rtl.shape import UNITS, Shape
from ridgeline.rtl.support import require_machine
from ridgeline.rtl.transfers import Transfers
from ridgeline.rtl.vector_unit import VectorUnit
from ridgeline.rtl.words import field

MEANINGS: dict[str, tuple[str, str]] = {
    "instruction_valid": ("input", "a word of the program is there"),
    "instruction_ready": ("output", "it is taken in this cycle"),
    "instruction_word": ("input", "the program's words in order, Halt last"),
    "read_valid": ("output", "device memory is to be read"),
    "read_ready": ("input", "the request is taken in this cycle"),
    "read_address": ("output", "its first byte"),
    "read_bytes": ("output", "how many bytes"),
    "response_valid": ("input", "what was asked for is there, in order"),
    "response_data": ("input", "its bytes, the first one lowest"),
    "write_valid": ("output", "device memory is to be written"),
    "write_ready": ("input", "it is taken in this cycle"),
    "write_address": ("output", "the first byte to write"),
    "write_bytes": ("output", "how many bytes"),
    "write_data": ("output", "the bytes, the first one lowest"),
    "done": ("output", "Halt found everything drained"),
    "started": ("output", "load, store, weights, array, vector: it starts"),
    "count": ("output", "instructions that the unit has drained"),
}
"""Direction and meaning of each pin; those that begin with count_ share one."""


class Accelerator(Elaboratable):
    """A machine as hardware. Raises RidgelineError for a machine that is not covered.

    Pins, all synchronous to clk, rst clears control but no memory:
    instruction_{valid,ready,word}: the program's words in order, Halt last;
    read_{valid,ready,address,bytes} and response_{valid,data}: `bytes` bytes of device memory from
    `address` on, answered in order, first byte lowest; write_{valid,ready,address,bytes,data};
    done: Halt found everything drained. started (a bit for each of UNITS) and counts tell the world
    what happens, for performance counters and co-simulation.

    For what surrounds the core, and no pins: write_last, the write ends a store; with
    `writes_answered` a store has drained when write_done says so, else once it is written; causes,
    built with `counts`, are those of CAUSES in this cycle.
    """

    def __init__(
        self, machine: Machine, *, writes_answered: bool = False, counts: bool = False
    ) -> None:
        require_machine(machine)
        self.writes_answered, self.counts_causes = writes_answered, counts
        self.shape = shape = Shape(machine)
        self.instruction_valid = Signal()
        self.instruction_ready = Signal()
        self.instruction_word = Signal(WORD_BITS)
        self.read_valid = Signal()
        self.read_ready = Signal()
        self.read_address = Signal(shape.address_bits)
        self.read_bytes = Signal(shape.request_bits)
        self.response_valid = Signal()
        self.response_data = Signal(shape.response_bytes * 8)
        self.write_valid = Signal()
        self.write_ready = Signal()
        self.write_address = Signal(shape.address_bits)
        self.write_bytes = Signal(shape.extent_bits)
        self.write_data = Signal(shape.line_bytes * 8)
        self.write_last = Signal()
        self.write_done = Signal()
        self.causes = Signal(len(CAUSES))
        self.done = Signal()
        self.started = Signal(len(UNITS))
        self.counts = {
            unit: Signal(COUNT_BITS, name=f"count_{unit.name.lower()}") for unit in UNITS
        }

    @property
    def pins(self) -> list[Signal]:
        """Every port of the generated module."""
        return [
            self.instruction_valid,
            self.instruction_ready,
            self.instruction_word,
            self.read_valid,
            self.read_ready,
            self.read_address,
            self.read_bytes,
            self.response_valid,
            self.response_data,
            self.write_valid,
            self.write_ready,
            self.write_address,
            self.write_bytes,
            self.write_data,
            self.done,
            self.started,
            *self.counts.values(),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        m.submodules.issue = issue = Issue(shape)
        m.submodules.buffer = buffer = UnifiedBuffer(shape)
        m.submodules.slots = slots = WeightSlots(shape)
        m.submodules.parameters = parameters = Parameters(shape)
        sums = 2 * 9 + shape.row_bits
        m.submodules.accumulators = accumulators = Accumulators(shape, sums)
        m.submodules.array = array = ArrayUnit(shape, issue, buffer, slots, accumulators)
        m.submodules.vector = vector = VectorUnit(shape, issue, buffer, accumulators, parameters)
        m.submodules.transfers = transfers = Transfers(shape, issue, buffer, slots)
        m.submodules.returns = returns = ReturnPath(
            shape, issue, transfers, buffer, slots, parameters
        )
        m.submodules.stores = stores = StorePath(shape, issue, transfers, buffer)
        self._share_banks(m, issue, array, vector, transfers)
        started: dict[Unit, Bits] = {
            **transfers.started,
            Unit.ARRAY: array.started,
            Unit.VECTOR: vector.started,
        }
        m.d.comb += self.started.eq(Cat(*(started[unit] for unit in UNITS)))
        m.d.comb += [self.counts[unit].eq(issue.counts[unit]) for unit in UNITS]
        if self.counts_causes:
            m.submodules.causes = causes = Causes(issue, array, vector, transfers)
            m.d.comb += self.causes.eq(causes.bits)
        self._connect_pins(m, issue, transfers, returns, stores)
        return m

    def _share_banks(
        self, m: Module, issue: Issue, array: ArrayUnit, vector: VectorUnit, transfers: Transfers
    ) -> None:
        """Tells each unit what the others do with the unified buffer's ports."""
        m.submodules.holds = holds = WriteHolds(self.shape, issue)
        head = {unit: issue.queues[unit].head for unit in (Unit.LOAD, Unit.VECTOR)}
        rows = transfers.from_buffer.held_banks
        m.d.comb += [
            holds.started[Unit.LOAD].eq(transfers.started[Unit.LOAD]),
            holds.started[Unit.VECTOR].eq(vector.started),
            holds.banks[Unit.LOAD].eq(field(head[Unit.LOAD], Load, "banks")),
            holds.banks[Unit.VECTOR].eq(field(head[Unit.VECTOR], Requant, "out_banks")),
            vector.load_banks.eq(holds.held[Unit.LOAD]),
            vector.writes.held_banks.eq(holds.held[Unit.VECTOR]),
            array.others_banks.eq(rows | vector.reads.held_banks),
            vector.others_banks.eq(rows),
        ]
        for seen, use in (
            (vector.array, array.reads),
            (transfers.others[0], array.reads),
            (transfers.others[1], vector.reads),
            (transfers.vector_writes, vector.writes),
        ):
            m.d.comb += seen.follow(use)
        for unit in (array, vector):
            m.d.comb += unit.store.follow(transfers.store)

    def _connect_pins(
        self,
        m: Module,
        issue: Issue,
        transfers: Transfers,
        returns: ReturnPath,
        stores: StorePath,
    ) -> None:
        m.d.comb += [
            issue.valid.eq(self.instruction_valid),
            issue.word.eq(self.instruction_word),
            self.instruction_ready.eq(issue.ready),
            self.done.eq(issue.done),
            self.read_valid.eq(returns.request_valid),
            returns.request_ready.eq(self.read_ready),
            self.read_address.eq(transfers.address),
            self.read_bytes.eq(transfers.read_bytes),
            returns.response_valid.eq(self.response_valid),
            returns.response_data.eq(self.response_data),
            self.write_valid.eq(stores.valid),
            stores.ready.eq(self.write_ready),
            self.write_address.eq(stores.head.address),
            self.write_bytes.eq(stores.head.bytes),
            self.write_data.eq(stores.data),
            self.write_last.eq(stores.head.last),
            stores.completes.eq(self.write_done if self.writes_answered else stores.ends),
        ]
