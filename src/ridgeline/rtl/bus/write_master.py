"""Writes of any address and size as bursts of AXI: neighbours share beats; answers are counted."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from ridgeline.rtl.bus.shape import PAGE_BYTES, BusShape
from ridgeline.rtl.registers import Bits, named

OUTSTANDING = 16
"""Bursts whose answers are awaited; a power of two."""

ADDRESSES = 4
"""Bursts whose addresses wait for the bus."""


class WriteMaster(Elaboratable):
    """Turns writes of `bytes` bytes at `address` into bursts with their strobes.

    A request takes a cycle for every beat that it touches; bytes of one beat that come one after
    the other go out together. `last` ends a store, and with it the burst: `done` says for a cycle
    that a store and all before it have been answered. A burst's data leave once it is whole, so
    that data never stop within one. `flush`: the open burst ends; `hold`: take no further request.
    """

    def __init__(self, bus: BusShape, address_bits: int, widest_bytes: int) -> None:
        self.bus, self.widest_bytes = bus, widest_bytes
        self.hold = Signal()
        self.flush = Signal()
        self.quiet = Signal()
        self.done = Signal()
        self.request_valid = Signal()
        self.request_ready = Signal()
        self.request_address = Signal(address_bits)
        self.request_bytes = Signal(widest_bytes.bit_length())
        self.request_data = Signal(widest_bytes * 8)
        self.request_last = Signal()
        self.beat_bits = address_bits - bus.lane_bits
        self.aw_valid = Signal()
        self.aw_ready = Signal()
        self.aw_beat = Signal(self.beat_bits)
        self.aw_len = Signal(8)
        self.w_valid = Signal()
        self.w_ready = Signal()
        self.w_data = Signal(bus.data_bits)
        self.w_strb = Signal(bus.data_bytes)
        self.w_last = Signal()
        self.b_valid = Signal()
        self.b_ready = Signal()
        self.most_beats = (widest_bytes - 1 + bus.data_bytes - 1) // bus.data_bytes + 1

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        m.submodules.beats = beats = SyncFIFO(
            width=bus.data_bits + bus.data_bytes + 1, depth=2 * bus.burst_beats
        )
        m.submodules.bursts = bursts = SyncFIFO(width=self.beat_bits + 8, depth=ADDRESSES)
        m.submodules.stores = stores = SyncFIFO(width=1, depth=OUTSTANDING)
        part = self._part(m)
        self._merge(m, part, beats, bursts, stores)
        self._channels(m, beats, bursts, stores)
        return m

    def _part(self, m: Module) -> dict[str, Bits]:
        """The request at hand cut to one beat: where it lies, its bytes, whether it ends it."""
        bus, bytes_wide = self.bus, self.widest_bytes
        lanes, address = bus.lane_bits, self.request_address
        first = address[lanes:]
        final = named(m, (address + self.request_bytes - 1)[lanes : len(address)], "final")
        self.step = step = Signal(range(self.most_beats + 1))
        beat = named(m, (first + step)[: len(first)], "beat")
        offset = address[:lanes] if lanes else Const(0, 1)
        used: Bits = Cat(*(self.request_bytes > i for i in range(bytes_wide)))
        mask = named(m, used << offset, "turned_mask")
        turned = named(m, self.request_data << Cat(Const(0, 3), offset), "turned_data")
        data = Signal(bus.data_bits, name="part_data")
        strb = Signal(bus.data_bytes, name="part_strobe")
        with m.Switch(step):
            for number in range(self.most_beats):
                with m.Case(number):
                    m.d.comb += [
                        data.eq(turned[number * bus.data_bits :]),
                        strb.eq(mask[number * bus.data_bytes :]),
                    ]
        ends = named(m, beat == final, "part_ends")
        return {
            "valid": named(m, self.request_valid & ~(self.hold & (step == 0)), "part_valid"),
            "beat": beat,
            "data": data,
            "strb": strb,
            "ends": ends,
            "last": named(m, ends & self.request_last, "part_last"),
        }

    def _merge(
        self, m: Module, part: dict[str, Bits], beats: SyncFIFO, bursts: SyncFIFO, stores: SyncFIFO
    ) -> None:
        """The open beat takes parts; what it leaves behind joins the burst."""
        bus = self.bus
        self.open = opened = Signal(name="beat_open")
        beat = Signal(self.beat_bits, reset_less=True, name="open_beat")
        data = Signal(bus.data_bits, reset_less=True, name="open_data")
        strb = Signal(bus.data_bytes, reset_less=True, name="open_strobe")
        ends_store = Signal(name="open_ends_store")
        start = Signal(self.beat_bits, reset_less=True, name="burst_start")
        count = Signal(range(bus.burst_beats + 1), name="burst_count")
        room = named(m, beats.w_rdy & bursts.w_rdy & stores.w_rdy, "room")
        joins = named(m, opened & ~ends_store & (beat == part["beat"]), "part_joins")
        leaves = named(
            m,
            opened & room & (ends_store | self.flush | (part["valid"] & ~joins)),
            "beat_leaves",
        )
        takes = named(m, part["valid"] & (~opened | joins | leaves), "takes_part")
        page_beats = PAGE_BYTES // bus.data_bytes
        after = named(m, (beat + 1)[: self.beat_bits], "after_beat")
        goes_on = (part["beat"] == after) & ((after & (page_beats - 1)) != 0)
        more = part["valid"] & goes_on & (count != bus.burst_beats - 1)
        closes = named(m, ends_store | ~more, "burst_closes")
        m.d.comb += [
            self.request_ready.eq(takes & part["ends"]),
            beats.w_en.eq(leaves),
            beats.w_data.eq(Cat(data, strb, closes)),
            bursts.w_en.eq(leaves & closes),
            bursts.w_data.eq(Cat(Mux(count == 0, beat, start), count[:8])),
            stores.w_en.eq(leaves & closes),
            stores.w_data.eq(ends_store),
            self.quiet.eq(~opened & (self.step == 0) & (stores.level == 0) & (count == 0)),
        ]
        self.closed = named(m, leaves & closes, "burst_closed")
        with m.If(leaves):
            m.d.sync += [opened.eq(0), ends_store.eq(0)]
            m.d.sync += count.eq(Mux(closes, 0, count + 1))
            with m.If(count == 0):
                m.d.sync += start.eq(beat)
        with m.If(takes):
            m.d.sync += [
                opened.eq(1),
                beat.eq(part["beat"]),
                ends_store.eq(part["last"]),
                strb.eq(Mux(joins, strb, 0) | part["strb"]),
                self.step.eq(Mux(part["ends"], 0, self.step + 1)),
            ]
            self._keep(m, data, part)

    def _keep(self, m: Module, data: Signal, part: dict[str, Bits]) -> None:
        """The bytes of the part, beside those of the open beat that it does not write."""
        for lane in range(self.bus.data_bytes):
            with m.If(part["strb"][lane]):
                m.d.sync += data.word_select(lane, 8).eq(part["data"].word_select(lane, 8))

    def _channels(self, m: Module, beats: SyncFIFO, bursts: SyncFIFO, stores: SyncFIFO) -> None:
        """Addresses, data of whole bursts, and answers, which come in the order of addresses."""
        bus = self.bus
        whole = Signal(range(2 * OUTSTANDING), name="whole_bursts")
        sent = named(m, self.w_valid & self.w_ready & self.w_last, "burst_sent")
        m.d.sync += whole.eq(whole + self.closed - sent)
        m.d.comb += [
            self.aw_valid.eq(bursts.r_rdy),
            bursts.r_en.eq(self.aw_ready),
            self.aw_beat.eq(bursts.r_data[: self.beat_bits]),
            self.aw_len.eq(bursts.r_data[self.beat_bits :]),
            self.w_valid.eq(beats.r_rdy & (whole != 0)),
            beats.r_en.eq(self.w_ready & (whole != 0)),
            self.w_data.eq(beats.r_data[: bus.data_bits]),
            self.w_strb.eq(beats.r_data[bus.data_bits : bus.data_bits + bus.data_bytes]),
            self.w_last.eq(beats.r_data[-1]),
            self.b_ready.eq(1),
            stores.r_en.eq(self.b_valid),
            self.done.eq(self.b_valid & stores.r_data[0]),
        ]
