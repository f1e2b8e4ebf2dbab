"""Reads of any address and size as bursts of AXI: neighbours share beats, and bursts grow."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from ridgeline.rtl.bus.shape import PAGE_BYTES, BusShape
from ridgeline.rtl.registers import Bits, named, register


class ReadMaster(Elaboratable):
    """Turns requests of `bytes` bytes at `address` into bursts, and their beats into answers.

    A request takes a cycle for every beat that it adds. One that begins in the beat with which the
    last one ended uses that again, unless `forget` came in between (device memory was written). A
    burst is open to the beat that follows it until it is as long as allowed, would cross a page, or
    `patience` cycles brought nothing; it waits no longer than that, so that bursts are short where
    memory is idle and long where it is busy. Answers come in order, the first byte lowest, each in
    the cycle after its last beat. `hold`: take no further request. `quiet`: nothing is under way.
    """

    def __init__(
        self, bus: BusShape, address_bits: int, widest_bytes: int, patience: int, depth: int
    ) -> None:
        self.bus, self.widest_bytes = bus, widest_bytes
        self.patience, self.depth = patience, depth
        self.hold = Signal()
        self.forget = Signal()
        self.quiet = Signal()
        self.request_valid = Signal()
        self.request_ready = Signal()
        self.request_address = Signal(address_bits)
        self.request_bytes = Signal(widest_bytes.bit_length())
        self.response_valid = Signal()
        self.response_data = Signal(widest_bytes * 8)
        self.ar_valid = Signal()
        self.ar_ready = Signal()
        self.ar_beat = Signal(address_bits - bus.lane_bits, reset_less=True)
        self.ar_len = Signal(8, reset_less=True)
        self.r_valid = Signal()
        self.r_ready = Signal()
        self.r_data = Signal(bus.data_bits)
        # A request that begins at the last byte of a beat touches the most.
        self.most_beats = (widest_bytes - 1 + bus.data_bytes - 1) // bus.data_bytes + 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entry = [
            Signal(range(self.most_beats + 1), name="new_beats"),
            Signal(range(self.most_beats + 1), name="covered_beats"),
            Signal(self.bus.lane_bits or 1, name="offset"),
        ]
        m.submodules.elements = elements = SyncFIFO(
            width=sum(len(part) for part in entry), depth=self.depth
        )
        m.d.comb += elements.w_data.eq(Cat(*entry))
        self._request(m, elements, *entry)
        self._answer(m, elements, [len(part) for part in entry])
        return m

    def _request(
        self, m: Module, elements: SyncFIFO, new: Signal, covered: Signal, offset: Signal
    ) -> None:
        """A beat of the request at hand in each cycle."""
        lanes = self.bus.lane_bits
        address = self.request_address
        first = address[lanes:]
        final = named(m, (address + self.request_bytes - 1)[lanes : len(address)], "final")
        step = Signal(range(self.most_beats + 1))
        tail = Signal(len(first), reset_less=True)
        tail_valid = Signal()
        begins = named(m, step == 0, "begins")
        shares = named(m, begins & tail_valid & (tail == first), "shares")
        after_tail = named(m, (tail + 1)[: len(first)], "after_tail")
        beat = named(m, Mux(begins & ~shares, first, after_tail), "beat")
        needs = named(m, ~(shares & (first == final)), "needs")
        follows = named(m, beat == after_tail, "follows")
        wants = named(
            m,
            self.request_valid & elements.w_rdy & ~(self.hold & begins),
            "wants",
        )
        adds = Signal()
        blocked = self._burst(m, wants & needs, adds, beat, follows)
        moves = named(m, wants & ~(needs & blocked), "moves")
        ends = named(m, moves & (~needs | (beat == final)), "ends")
        m.d.comb += [
            adds.eq(moves & needs),
            self.request_ready.eq(ends),
            new.eq(step + needs),
            covered.eq(final - first + 1),
            offset.eq(address[:lanes]),
            elements.w_en.eq(ends),
        ]
        with m.If(ends):
            m.d.sync += step.eq(0)
        with m.Elif(adds):
            m.d.sync += step.eq(step + 1)
        with m.If(adds):
            m.d.sync += [tail.eq(beat), tail_valid.eq(1)]
        with m.If(self.forget):
            m.d.sync += tail_valid.eq(0)
        m.d.comb += self.quiet.eq(
            begins & (elements.level == 0) & ~self.ar_valid & ~self.open & ~self.response_valid
        )

    def _burst(self, m: Module, wanted: Bits, adds: Signal, beat: Bits, follows: Bits) -> Bits:
        """The open burst, and its way to the address channel; whether a beat finds no room."""
        most = self.bus.burst_beats
        self.open = opened = Signal(name="burst_open")
        start = Signal(len(beat), reset_less=True, name="burst_start")
        count = Signal(range(most + 1), reset_less=True, name="burst_count")
        waited = Signal(range(self.patience + 1), reset_less=True)
        page_beats = PAGE_BYTES // self.bus.data_bytes
        in_page = (beat & (page_beats - 1)) != 0
        full = named(m, count == most, "burst_full")
        extends = named(m, opened & follows & ~full & in_page, "burst_extends")
        free = named(m, ~self.ar_valid | self.ar_ready, "address_free")
        due = (waited == self.patience) | full | (wanted & ~extends)
        closes = named(m, opened & free & due, "burst_closes")
        with m.If(adds):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != self.patience):
            m.d.sync += waited.eq(waited + 1)
        with m.If(self.ar_ready):
            m.d.sync += self.ar_valid.eq(0)
        with m.If(closes):
            m.d.sync += [
                self.ar_valid.eq(1),
                self.ar_beat.eq(start),
                self.ar_len.eq(count - 1),
                opened.eq(0),
            ]
        with m.If(adds):
            with m.If(extends & ~closes):
                m.d.sync += count.eq(count + 1)
            with m.Else():
                m.d.sync += [opened.eq(1), start.eq(beat), count.eq(1)]
        return named(m, opened & ~extends & ~closes, "burst_blocked")

    def _answer(self, m: Module, elements: SyncFIFO, widths: list[int]) -> None:
        """Beats into a window of the last ones, from which each element is cut."""
        bits, most = self.bus.data_bits, self.most_beats
        entry: Bits = elements.r_data
        new = entry[: widths[0]]
        covered = entry[widths[0] : widths[0] + widths[1]]
        offset = entry[widths[0] + widths[1] :]
        taken = Signal(range(most + 1))
        left = named(m, (new - taken)[: len(taken)], "beats_left")
        takes = named(m, self.r_valid & self.r_ready, "takes_beat")
        ends = named(
            m, elements.r_rdy & ((left == 0) | ((left == 1) & self.r_valid)), "element_ends"
        )
        window = Signal(bits * most, reset_less=True)
        m.d.comb += [
            self.r_ready.eq(elements.r_rdy & (left != 0)),
            elements.r_en.eq(ends),
        ]
        with m.If(takes):
            m.d.sync += window.eq(Cat(window, self.r_data)[bits:])
        with m.If(ends):
            m.d.sync += taken.eq(0)
        with m.Elif(takes):
            m.d.sync += taken.eq(taken + 1)
        older = register(m, (most - covered)[: len(taken)], "older_beats")
        place = register(m, offset, "element_offset")
        self_valid = register(m, ends, "element_valid", control=True)
        beats = Signal(bits * most, name="element_beats")
        with m.Switch(older):
            for number in range(most):
                with m.Case(number):
                    m.d.comb += beats.eq(window[number * bits :])
        shift = Cat(Const(0, 3), place) if self.bus.lane_bits else Const(0)
        m.d.comb += [
            self.response_valid.eq(self_valid),
            self.response_data.eq(beats >> shift),
        ]
