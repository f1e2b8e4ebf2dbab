"""The accelerator for small FPGAs: a host by bytes, memory as streams of requests and answers."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from ridgeline.machine.description import Machine
from ridgeline.rtl.bus.byte_link import ADDRESS_BITS, ByteLink
from ridgeline.rtl.bus.engine import Engine
from ridgeline.rtl.registers import Bits, named

STREAM_PINS: dict[str, tuple[str, str]] = {
    "clk": ("input", "clock"),
    "rst": ("input", "clears control, no memory"),
    "irq": ("output", "an enabled bit of INTERRUPT is set"),
    "in_valid": ("input", "a byte from the host is there"),
    "in_ready": ("output", "it is taken in this cycle"),
    "in_data": ("input", "the byte"),
    "out_valid": ("output", "a byte for the host is there"),
    "out_ready": ("input", "it is taken in this cycle"),
    "out_data": ("output", "the byte"),
    "read_valid": ("output", "memory is to be read"),
    "read_ready": ("input", "the request is taken in this cycle"),
    "read_address": ("output", "its first byte"),
    "read_bytes": ("output", "how many bytes"),
    "response_valid": ("input", "what was asked for is there, in order"),
    "response_data": ("input", "its bytes, the first one lowest"),
    "write_valid": ("output", "memory is to be written"),
    "write_ready": ("input", "it is taken in this cycle; what is read later sees it"),
    "write_address": ("output", "the first byte to write"),
    "write_bytes": ("output", "how many bytes"),
    "write_data": ("output", "the bytes, the first one lowest"),
}
"""Direction and meaning of each pin."""

OUTSTANDING = 64
"""Reads whose answers are awaited, at most; or the machine's latency and a few, if that is more."""

_CORE, _FETCH, _HOST = range(3)


class StreamTop(Elaboratable):
    """Pins: STREAM_PINS. Memory answers in order, and an answer cannot be refused; what is asked
    for after a write was taken is what was written.

    Core, fetch unit and host share the port: who asks first in that order. The host may read and
    write memory while no program runs.
    """

    def __init__(self, machine: Machine, *, counts: bool = True) -> None:
        self.engine = engine = Engine(
            machine, ADDRESS_BITS, fetch_bytes=None, counts=counts, writes_answered=False
        )
        engine.bus_word = ADDRESS_BITS << 24
        shape = engine.core.shape
        self.depth = max(OUTSTANDING, machine.device_memory.latency_cycles + 8)
        self.link = ByteLink()
        self.irq = Signal()
        self.read_valid = Signal()
        self.read_ready = Signal()
        self.read_address = Signal(ADDRESS_BITS)
        self.read_bytes = Signal(shape.request_bits)
        self.response_valid = Signal()
        self.response_data = Signal(shape.response_bytes * 8)
        self.write_valid = Signal()
        self.write_ready = Signal()
        self.write_address = Signal(ADDRESS_BITS)
        self.write_bytes = Signal(shape.extent_bits)
        self.write_data = Signal(shape.line_bytes * 8)

    @property
    def pins(self) -> list[Signal]:
        """Every port but clk and rst."""
        link = self.link
        return [
            self.irq, link.in_valid, link.in_ready, link.in_data,
            link.out_valid, link.out_ready, link.out_data,
            self.read_valid, self.read_ready, self.read_address, self.read_bytes,
            self.response_valid, self.response_data,
            self.write_valid, self.write_ready, self.write_address, self.write_bytes,
            self.write_data,
        ]  # fmt: skip

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, link = self.engine, self.link
        m.submodules.engine, m.submodules.link = engine, link
        m.d.comb += [
            engine.write.eq(link.register_write),
            engine.write_address.eq(link.register_address),
            engine.write_data.eq(link.register_data),
            engine.read_address.eq(link.register_address),
            link.register_value.eq(engine.read_data),
            self.irq.eq(engine.irq),
        ]
        self._reads(m)
        self._writes(m)
        return m

    def _reads(self, m: Module) -> None:
        """One request a cycle; who asked is kept until the answer comes."""
        core, fetch, link = self.engine.core, self.engine.fetch, self.link
        m.submodules.owners = owners = SyncFIFO(width=2, depth=self.depth)
        hold = self.engine.hold
        asks = [core.read_valid & ~hold, fetch.request_valid, link.read_valid]
        owner = named(m, Mux(asks[_CORE], _CORE, Mux(asks[_FETCH], _FETCH, _HOST)), "owner")
        free = named(m, self.read_ready & owners.w_rdy, "read_free")
        addresses: list[Bits] = [
            self.engine.base + core.read_address, fetch.request_address, link.address
        ]  # fmt: skip
        sizes: list[Bits] = [core.read_bytes, fetch.part_bytes, 1]
        asked = Signal(name="read_asked")
        with m.Switch(owner):
            for number in (_CORE, _FETCH, _HOST):
                with m.Case(number):
                    m.d.comb += [
                        asked.eq(asks[number]),
                        self.read_address.eq(addresses[number]),
                        self.read_bytes.eq(sizes[number]),
                    ]
        first: Bits = owners.r_data
        m.d.comb += [
            self.read_valid.eq(asked & owners.w_rdy),
            core.read_ready.eq(free & (owner == _CORE) & ~hold),
            fetch.request_ready.eq(free & (owner == _FETCH)),
            link.read_ready.eq(free & (owner == _HOST)),
            owners.w_en.eq(asked & self.read_ready),
            owners.w_data.eq(owner),
            owners.r_en.eq(self.response_valid),
            core.response_valid.eq(self.response_valid & (first == _CORE)),
            fetch.response_valid.eq(self.response_valid & (first == _FETCH)),
            link.response_valid.eq(self.response_valid & (first == _HOST)),
            core.response_data.eq(self.response_data),
            fetch.response_data.eq(self.response_data),
            link.response_data.eq(self.response_data),
            self.engine.quiet.eq(owners.level == 0),
        ]

    def _writes(self, m: Module) -> None:
        core, link, hold = self.engine.core, self.link, self.engine.hold
        stores = named(m, core.write_valid & ~hold, "core_writes")
        m.d.comb += [
            self.write_valid.eq(stores | link.write_valid),
            self.write_address.eq(Mux(stores, self.engine.base + core.write_address, link.address)),
            self.write_bytes.eq(Mux(stores, core.write_bytes, 1)),
            self.write_data.eq(Mux(stores, core.write_data, link.write_data)),
            core.write_ready.eq(self.write_ready & ~hold),
            link.write_ready.eq(self.write_ready & ~stores),
        ]
