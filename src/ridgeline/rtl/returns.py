"""Both ends of device memory: data that come back find their place, stored lines find their way."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, memory

from ridgeline.machine.instructions import Unit
from ridgeline.rtl.depths import spare
from ridgeline.rtl.issue import Issue
from ridgeline.rtl.memories import Parameters, UnifiedBuffer, WeightSlots
from ridgeline.rtl.registers import Bits, delay, named, register
from ridgeline.rtl.shape import WEIGHT_BITS, Shape
from ridgeline.rtl.transfers import (
    LOAD,
    PARAMETERS,
    WEIGHTS,
    Transfers,
    tag_layout,
    turn_to,
)

STORE_DEPTH = 4
"""Lines between the unified buffer and device memory: one read, one waiting, room for a refusal."""


class ReturnPath(Elaboratable):
    """Remembers what each read request was for, and writes its data there.

    Data are registered in the cycle after they come and written in the next.
    """

    def __init__(
        self,
        shape: Shape,
        issue: Issue,
        transfers: Transfers,
        buffer: UnifiedBuffer,
        slots: WeightSlots,
        parameters: Parameters,
    ) -> None:
        self.shape, self.issue, self.transfers = shape, issue, transfers
        self.buffer, self.slots, self.parameters = buffer, slots, parameters
        self.request_valid = Signal()
        self.request_ready = Signal()
        self.response_valid = Signal()
        self.response_data = Signal(shape.response_bytes * 8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        tag = self._remember(m)
        valid = register(m, self.response_valid, "valid", control=True)
        on_chip, row, shift = self._row(m, tag)
        own = register(m, on_chip, "row_on_chip", control=True)
        answer: Bits = register(m, self.response_data, "answer")
        # A Load's data may come in the same cycle as a row that is on chip.
        line: Bits = register(m, self.buffer.weights.data, "line")
        loads = named(m, valid & (tag.kind == LOAD), "loads")
        weighs = named(m, (valid & (tag.kind == WEIGHTS)) | own, "weighs")
        sets = named(m, valid & (tag.kind == PARAMETERS), "sets")
        line_bytes = self.shape.line_bytes
        used: Bits = Cat(*(tag.extent > i for i in range(line_bytes)))
        m.d.comb += [
            self.buffer.load.address.eq(tag.target),
            self.buffer.load.data.eq(answer[: line_bytes * 8] << Cat(Const(0, 3), tag.lane)),
            self.buffer.load.mask.eq(Mux(loads, used << tag.lane, 0)),
            self.slots.write.address.eq(row.target),
            self.slots.write.mask.eq(weighs),
            self.parameters.valid.eq(sets),
            self.parameters.group.eq(tag.target[: self.shape.group_bits]),
            self.parameters.slot.eq(tag.target[self.shape.group_bits :]),
            self.parameters.count.eq(tag.extent),
            self.parameters.records.eq(answer),
            self.issue.drained[Unit.LOAD].eq(
                delay(m, loads & tag.last, spare("load"), "loaded", control=True)
            ),
            self.issue.drained[Unit.WEIGHTS].eq(
                delay(m, (weighs | sets) & row.last, spare("weights"), "weighed", control=True)
            ),
        ]
        self._weights(m, row, shift, Mux(own, line, answer[: line_bytes * 8]))
        return m

    def _row(self, m: Module, tag: Bits) -> tuple[Bits, Bits, Bits]:
        """Whether a row from the unified buffer comes in this cycle; the tag of the row, from there
        or from device memory, that is at hand, and by how many bytes to turn it.
        """
        rows, layout = self.transfers.from_buffer, tag_layout(self.shape)
        read = Signal(layout, name="row_read", reset_less=True)
        kept = Signal(layout, name="row_kept", reset_less=True)
        row = Signal(layout, name="row")
        m.d.sync += [
            read.last.eq(rows.last),
            read.target.eq(rows.target),
            read.extent.eq(rows.extent),
            read.lane.eq(rows.lane),
            read.zero_point.eq(rows.zero_point),
            read.signed.eq(rows.signed),
            read.turn.eq(turn_to(self.shape, rows.column)),
            kept.eq(read),
        ]
        on_chip = register(m, rows.valid, "row_comes", control=True)
        shift = Signal(len(tag.turn), name="row_shift")
        kept_shift = register(m, (read.turn + read.lane)[: len(shift)], "row_kept_shift")
        m.d.comb += [row.eq(tag), shift.eq(tag.turn)]
        with m.If(register(m, on_chip, "row_came", control=True)):
            m.d.comb += [row.eq(kept), shift.eq(kept_shift)]
        return on_chip, row, shift

    def _weights(self, m: Module, tag: Bits, shift: Bits, answer: Bits) -> None:
        """A row of weights turned to its column: left of it as many zeros as the array is wide."""
        used = Cat(*(tag.extent > i for i in range(self.shape.line_bytes)))
        cols = self.shape.cols
        padded = named(m, Cat(Const(0, cols * 8), answer[: cols * 8]), "padded")
        row: Bits = padded >> Cat(Const(0, 3), shift)
        filled: Bits = named(m, Cat(Const(0, cols), used[:cols]), "padded_used") >> tag.turn
        for col in range(cols):
            byte = row.word_select(col, 8)
            wide = Cat(byte, byte[7] & tag.signed).as_signed()
            operand = Mux(filled[col], wide - tag.zero_point.as_signed(), 0)
            m.d.comb += self.slots.write.data.word_select(col, WEIGHT_BITS).eq(operand)

    def _remember(self, m: Module) -> Bits:
        """A queue of tags as deep as the memory's latency; the tag of the answer registered."""
        transfers = self.transfers
        layout = tag_layout(self.shape)
        depth = self.shape.machine.device_memory.latency_cycles + 4
        m.submodules.tags = cells = memory.Memory(shape=layout, depth=depth, init=[])
        writing, reading = cells.write_port(), cells.read_port()
        level = Signal(range(depth + 1))
        newest = Signal(range(depth))
        oldest = Signal(range(depth))
        room = named(m, level != depth, "room")
        asks = named(m, transfers.read_valid & room & self.request_ready, "asks")
        m.d.comb += [
            self.request_valid.eq(transfers.read_valid & room),
            transfers.read_ready.eq(self.request_ready & room),
            writing.addr.eq(newest),
            writing.data.eq(transfers.tag),
            writing.en.eq(asks),
            reading.addr.eq(oldest),
            reading.en.eq(self.response_valid),
        ]
        m.d.sync += level.eq(level + asks - self.response_valid)
        for place, moves in ((newest, asks), (oldest, self.response_valid)):
            with m.If(moves):
                m.d.sync += place.eq(Mux(place == depth - 1, 0, place + 1))
        return reading.data


class StorePath(Elaboratable):
    """Lines from the unified buffer, queued and turned so that the element begins at byte 0.

    `ends`: the last line of a store leaves in this cycle; `completes`: a store is done.
    """

    def __init__(
        self, shape: Shape, issue: Issue, transfers: Transfers, buffer: UnifiedBuffer
    ) -> None:
        self.shape, self.issue, self.transfers, self.buffer = shape, issue, transfers, buffer
        self.valid = Signal()
        self.ready = Signal()
        self.ends = Signal()
        self.completes = Signal()
        self.layout = data.StructLayout(
            {
                "address": shape.address_bits,
                "bytes": shape.extent_bits,
                "last": 1,
                "lane": shape.lane_bits,
                "data": shape.line_bytes * 8,
            }
        )
        self.head = Signal(self.layout)
        self.data = Signal(shape.line_bytes * 8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        transfers, tag = self.transfers, self.transfers.tag
        m.submodules.lines = cells = memory.Memory(shape=self.layout, depth=STORE_DEPTH, init=[])
        writing, reading = cells.write_port(), cells.read_port(domain="comb")
        level = Signal(range(STORE_DEPTH + 1))
        newest = Signal(range(STORE_DEPTH))
        oldest = Signal(range(STORE_DEPTH))
        moves = named(m, transfers.store_valid & transfers.store_ready, "moves")
        read = register(m, moves, "read", control=True)
        leaves = named(m, self.valid & self.ready, "leaves")
        m.d.comb += [
            transfers.store_ready.eq(level + read < STORE_DEPTH),
            # A line that is not taken is read again.
            self.buffer.store.enable.eq(transfers.store_valid),
            self.buffer.store.address.eq(tag.target),
            writing.addr.eq(newest),
            writing.en.eq(read),
            writing.data.address.eq(register(m, transfers.address, "address")),
            writing.data.bytes.eq(register(m, tag.extent, "bytes")),
            writing.data.last.eq(register(m, tag.last, "last")),
            writing.data.lane.eq(register(m, tag.lane, "lane")),
            # As it comes out of its bank, which takes half of a cycle; it is turned on its way out.
            writing.data.data.eq(self.buffer.store.data),
            reading.addr.eq(oldest),
            self.head.eq(reading.data),
            self.data.eq(self.head.data >> Cat(Const(0, 3), self.head.lane)),
            self.valid.eq(level != 0),
            self.issue.drained[Unit.STORE].eq(
                delay(m, self.completes, spare("store"), "stored", control=True)
            ),
            self.ends.eq(leaves & self.head.last),
        ]
        m.d.sync += level.eq(level + read - leaves)
        m.d.sync += [newest.eq(newest + read), oldest.eq(oldest + leaves)]
        return m
