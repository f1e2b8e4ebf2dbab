"""The accelerator with AXI: a master of AXI4 for memory, a slave of AXI4-Lite for registers."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, Elaboratable, Module, ResetSignal, Signal

from ridgeline.machine.description import Machine
from ridgeline.rtl.bus.axi_lite import LITE_PINS, AxiLite
from ridgeline.rtl.bus.axi_master import AXI_PINS, AxiMaster
from ridgeline.rtl.bus.engine import Engine
from ridgeline.rtl.bus.read_master import ReadMaster
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.bus.write_master import WriteMaster

_INSTRUCTION_PATIENCE = 4
"""Cycles for which a burst of instructions waits to grow."""


class AxiTop(Elaboratable):
    """Pins: aclk, aresetn, irq, s_axi_* (LITE_PINS) and m_axi_* (AXI_PINS)."""

    def __init__(self, machine: Machine, bus: BusShape, *, counts: bool = True) -> None:
        bus.require_room(machine)
        self.bus = bus
        self.engine = engine = Engine(
            machine,
            bus.address_bits,
            fetch_bytes=bus.data_bytes,
            counts=counts,
            writes_answered=True,
        )
        engine.bus_word = bus.data_bytes | bus.burst_beats - 1 << 8 | bus.address_bits << 24
        core, fetch = engine.core, engine.fetch
        shape = core.shape
        self.reads = ReadMaster(
            bus,
            shape.address_bits,
            shape.response_bytes,
            patience=max(int(machine.burst_cycles), 1),
            depth=machine.device_memory.latency_cycles + 4,
        )
        self.fetches = ReadMaster(
            bus, bus.address_bits, fetch.part_bytes, _INSTRUCTION_PATIENCE, fetch.parts
        )
        self.writes = WriteMaster(bus, shape.address_bits, shape.line_bytes)
        self.master = AxiMaster(bus, self.reads, self.fetches, self.writes)
        self.slave = AxiLite()
        self.aclk = Signal()
        self.aresetn = Signal()
        self.irq = Signal()

    @property
    def pins(self) -> list[Signal]:
        """Every port but the clock."""
        return [
            self.aclk,
            self.aresetn,
            self.irq,
            *self.slave.pins.values(),
            *self.master.pins.values(),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        domain = ClockDomain("sync")
        domain.clk = self.aclk
        m.domains.sync = domain
        m.d.comb += ResetSignal().eq(~self.aresetn)
        m.submodules.engine = engine = self.engine
        m.submodules.master = master = self.master
        m.submodules.slave = slave = self.slave
        m.d.comb += [
            engine.write.eq(slave.write),
            engine.write_address.eq(slave.write_address),
            engine.write_data.eq(slave.write_data),
            engine.write_mask.eq(slave.write_mask),
            engine.read_address.eq(slave.read_address),
            slave.read_data.eq(engine.read_data),
            self.irq.eq(engine.irq),
            master.base.eq(engine.base),
            engine.quiet.eq(master.quiet),
            engine.read_fault.eq(master.read_fault),
            engine.write_fault.eq(master.write_fault),
            engine.fetch_fault.eq(master.fetch_fault),
        ]
        self._memory(m)
        return m

    def _memory(self, m: Module) -> None:
        core, fetch, engine = self.engine.core, self.engine.fetch, self.engine
        reads, fetches, writes = self.reads, self.fetches, self.writes
        m.d.comb += [
            reads.hold.eq(engine.hold),
            reads.forget.eq(engine.clear | (core.write_valid & core.write_ready)),
            reads.request_valid.eq(core.read_valid),
            core.read_ready.eq(reads.request_ready),
            reads.request_address.eq(core.read_address),
            reads.request_bytes.eq(core.read_bytes),
            core.response_valid.eq(reads.response_valid),
            core.response_data.eq(reads.response_data),
            fetches.forget.eq(engine.clear),
            fetches.request_valid.eq(fetch.request_valid),
            fetch.request_ready.eq(fetches.request_ready),
            fetches.request_address.eq(fetch.request_address),
            fetches.request_bytes.eq(fetch.part_bytes),
            fetch.response_valid.eq(fetches.response_valid),
            fetch.response_data.eq(fetches.response_data),
            writes.hold.eq(engine.hold),
            writes.flush.eq(engine.flush),
            writes.request_valid.eq(core.write_valid),
            core.write_ready.eq(writes.request_ready),
            writes.request_address.eq(core.write_address),
            writes.request_bytes.eq(core.write_bytes),
            writes.request_data.eq(core.write_data),
            writes.request_last.eq(core.write_last),
            core.write_done.eq(writes.done),
        ]


def axi_pin_meanings() -> dict[str, tuple[str, str]]:
    """Direction and meaning of each pin."""
    meanings = {
        "aclk": ("input", "clock"),
        "aresetn": ("input", "0 clears control, no memory"),
        "irq": ("output", "an enabled bit of INTERRUPT is set"),
    }
    meanings |= {f"s_axi_{name}": (way, text) for name, (way, _, text) in LITE_PINS.items()}
    return meanings | {f"m_axi_{name}": pin for name, pin in AXI_PINS.items()}
