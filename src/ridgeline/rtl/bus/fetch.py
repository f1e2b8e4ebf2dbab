"""The fetch unit: a program's image from memory, chunk by chunk, to instruction words."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from ridgeline.machine.instructions import HALT_OPCODE
from ridgeline.machine.instructions.word import OPCODE_BITS, WORD_BITS
from ridgeline.rtl.bus.image import CHUNK_BYTES, chunks_by_opcode
from ridgeline.rtl.registers import named

AHEAD_BYTES = 512
"""Of the program that are read before they are needed: as many as come in a usual memory's latency,
so that a 64-bit bus stays busy."""

LENGTH_BITS = 32
"""Of a program's length in bytes."""


class Fetch(Elaboratable):
    """Reads `length` bytes from `address` on and shows them as instructions.

    `start` for a cycle begins; both are multiples of CHUNK_BYTES. `word` is one instruction while
    `valid`; bits that its kind does not use are any. `unknown`: its opcode is no instruction's.
    `exhausted`: all was shown and taken, and none of it was Halt. `hold`: ask for nothing more.
    """

    def __init__(self, address_bits: int, widest_bytes: int) -> None:
        # No wider than what memory answers at once.
        self.part_bytes = 1 << (min(widest_bytes, CHUNK_BYTES).bit_length() - 1)
        self.parts = AHEAD_BYTES // self.part_bytes
        self.hold = Signal()
        self.start = Signal()
        self.address = Signal(address_bits)
        self.length = Signal(LENGTH_BITS)
        self.request_valid = Signal()
        self.request_ready = Signal()
        self.request_address = Signal(address_bits, reset_less=True)
        self.response_valid = Signal()
        self.response_data = Signal(self.part_bytes * 8)
        self.valid = Signal()
        self.ready = Signal()
        self.word = Signal(WORD_BITS, reset_less=True)
        self.unknown = Signal()
        self.exhausted = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = self.part_bytes
        m.submodules.parts = queue = SyncFIFO(width=size * 8, depth=self.parts)
        room = Signal(range(self.parts + 1), init=self.parts)
        unasked = Signal(LENGTH_BITS)
        unseen = Signal(LENGTH_BITS)
        asks = named(m, self.request_valid & self.request_ready, "asks")
        m.d.comb += [
            self.request_valid.eq((unasked != 0) & (room != 0) & ~self.hold),
            queue.w_en.eq(self.response_valid),
            queue.w_data.eq(self.response_data),
        ]
        takes = self._assemble(m, queue)
        m.d.sync += room.eq(room + takes - asks)
        with m.If(asks):
            m.d.sync += [
                self.request_address.eq(self.request_address + size),
                unasked.eq(unasked - size),
            ]
        with m.If(takes):
            m.d.sync += unseen.eq(unseen - size)
        running = Signal()
        m.d.comb += self.exhausted.eq(running & (unseen == 0) & ~self.valid)
        with m.If(self.valid & (self.word[:OPCODE_BITS] == HALT_OPCODE)):
            m.d.sync += running.eq(0)
        with m.If(self.start):
            m.d.sync += [
                running.eq(1),
                self.request_address.eq(self.address),
                unasked.eq(self.length),
                unseen.eq(self.length),
            ]
        return m

    def _assemble(self, m: Module, queue: SyncFIFO) -> Signal:
        """Parts into the word, as many as the opcode of the first one says."""
        size = self.part_bytes
        each = CHUNK_BYTES // size
        chunks = chunks_by_opcode()
        most = max(chunks.values()) * each
        have = Signal(range(most + 1))
        needed = Signal(range(most + 1))
        code = named(m, Mux(have == 0, queue.r_data[:OPCODE_BITS], self.word[:OPCODE_BITS]), "code")
        with m.Switch(code):
            for opcode, count in chunks.items():
                with m.Case(opcode):
                    m.d.comb += needed.eq(count * each)
            with m.Default():
                m.d.comb += [needed.eq(each), self.unknown.eq(self.valid)]
        takes = named(m, queue.r_rdy & ~self.valid, "takes")
        m.d.comb += queue.r_en.eq(takes)
        with m.If(takes):
            m.d.sync += have.eq(have + 1)
            with m.Switch(have):
                for number in range(most):
                    with m.Case(number):
                        m.d.sync += self.word[number * size * 8 : (number + 1) * size * 8].eq(
                            queue.r_data
                        )
            with m.If(have + 1 == needed):
                m.d.sync += self.valid.eq(1)
        with m.If(self.valid & self.ready):
            m.d.sync += [self.valid.eq(0), have.eq(0)]
        return takes
