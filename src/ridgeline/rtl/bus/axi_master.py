"""The AXI4 master: data and instructions read under two IDs, data written, errors told."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal

from ridgeline.rtl.bus.read_master import ReadMaster
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.bus.write_master import WriteMaster
from ridgeline.rtl.registers import Bits, named

DATA_ID, INSTRUCTION_ID = 0, 1
"""IDs of reads. Writes have DATA_ID. Answers of one ID come in order, as AXI has it."""

_INCREMENTING = 1
_MODIFIABLE_BUFFERABLE = 0b0011

AXI_PINS: dict[str, tuple[str, str]] = {
    "awid": ("output", "0"),
    "awaddr": ("output", "first byte of a burst to write"),
    "awlen": ("output", "its beats, less one"),
    "awsize": ("output", "bytes of a beat, as a power of two"),
    "awburst": ("output", "incrementing"),
    "awlock": ("output", "0"),
    "awcache": ("output", "modifiable, bufferable"),
    "awprot": ("output", "0"),
    "awqos": ("output", "0"),
    "awvalid": ("output", "the burst is shown"),
    "awready": ("input", "it is taken"),
    "wdata": ("output", "a beat"),
    "wstrb": ("output", "which of its bytes are written"),
    "wlast": ("output", "it ends its burst"),
    "wvalid": ("output", "the beat is shown"),
    "wready": ("input", "it is taken"),
    "bid": ("input", "0"),
    "bresp": ("input", "0: written; else an error"),
    "bvalid": ("input", "a burst is answered"),
    "bready": ("output", "the answer is taken"),
    "arid": ("output", "0: data, 1: instructions"),
    "araddr": ("output", "first byte of a burst to read"),
    "arlen": ("output", "its beats, less one"),
    "arsize": ("output", "bytes of a beat, as a power of two"),
    "arburst": ("output", "incrementing"),
    "arlock": ("output", "0"),
    "arcache": ("output", "modifiable, bufferable"),
    "arprot": ("output", "0"),
    "arqos": ("output", "0"),
    "arvalid": ("output", "the burst is shown"),
    "arready": ("input", "it is taken"),
    "rid": ("input", "0: data, 1: instructions"),
    "rdata": ("input", "a beat"),
    "rresp": ("input", "0: read; else an error"),
    "rlast": ("input", "it ends its burst"),
    "rvalid": ("input", "the beat is shown"),
    "rready": ("output", "it is taken"),
}
"""Direction and meaning of each pin of the master, without its prefix."""


def pin_bits(bus: BusShape) -> dict[str, int]:
    """Width of each pin of AXI_PINS."""
    widths = dict.fromkeys(AXI_PINS, 1)
    for letter in "aw", "ar":
        widths |= {f"{letter}{name}": bits for name, bits in _ADDRESS_BITS.items()}
        widths[f"{letter}addr"] = bus.address_bits
    widths |= {"wdata": bus.data_bits, "rdata": bus.data_bits, "wstrb": bus.data_bytes}
    return widths | {"bresp": 2, "rresp": 2}


_ADDRESS_BITS = {"len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3, "qos": 4}


class AxiMaster(Elaboratable):
    """Bus signals, by the names of AXI_PINS in `pins`, of two readers and a writer.

    Addresses of the core's data are moved by `base`, a multiple of 4 KiB; instructions' are not.
    `read_fault`, `fetch_fault`, `write_fault`: for a cycle, an answer that tells of an error.
    """

    def __init__(
        self, bus: BusShape, data: ReadMaster, instructions: ReadMaster, writes: WriteMaster
    ) -> None:
        self.bus, self.data, self.instructions, self.writes = bus, data, instructions, writes
        self.base = Signal(bus.address_bits)
        self.pins = {
            name: Signal(bits, name=f"m_axi_{name}") for name, bits in pin_bits(bus).items()
        }
        self.read_fault = Signal()
        self.fetch_fault = Signal()
        self.write_fault = Signal()
        self.quiet = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.data, m.submodules.instructions = self.data, self.instructions
        m.submodules.writes = self.writes
        pins = self.pins
        for letter in "aw", "ar":
            m.d.comb += [
                pins[f"{letter}size"].eq(self.bus.size_code),
                pins[f"{letter}burst"].eq(_INCREMENTING),
                pins[f"{letter}cache"].eq(_MODIFIABLE_BUFFERABLE),
                *(pins[f"{letter}{name}"].eq(0) for name in ("lock", "prot", "qos")),
            ]
        m.d.comb += pins["awid"].eq(DATA_ID)
        waits = self._read_addresses(m)
        self._read_data(m)
        waits = waits | self._writes(m)
        m.d.comb += self.quiet.eq(
            self.data.quiet & self.instructions.quiet & self.writes.quiet & ~waits
        )
        return m

    def _address(self, beat: Bits, base: Bits) -> Bits:
        return (base + Cat(Const(0, self.bus.lane_bits), beat))[: self.bus.address_bits]

    def _read_addresses(self, m: Module) -> Bits:
        """One burst at a time, held until it is taken; readers in turn when both ask."""
        pins, data, instructions = self.pins, self.data, self.instructions
        valid = Signal(name="read_shown")
        fetches = Signal(name="read_fetches", reset_less=True)
        address = Signal(self.bus.address_bits, name="read_address", reset_less=True)
        length = Signal(8, name="read_length", reset_less=True)
        free = named(m, ~valid | pins["arready"], "read_free")
        turn = named(m, instructions.ar_valid & (~fetches | ~data.ar_valid), "fetches_next")
        m.d.comb += [
            data.ar_ready.eq(free & ~turn),
            instructions.ar_ready.eq(free & turn),
            pins["arvalid"].eq(valid),
            pins["araddr"].eq(address),
            pins["arlen"].eq(length),
            pins["arid"].eq(fetches),
        ]
        with m.If(free):
            m.d.sync += valid.eq(data.ar_valid | instructions.ar_valid)
            with m.If(data.ar_valid | instructions.ar_valid):
                m.d.sync += [
                    fetches.eq(turn),
                    address.eq(
                        Mux(
                            turn,
                            self._address(instructions.ar_beat, Const(0)),
                            self._address(data.ar_beat, self.base),
                        )
                    ),
                    length.eq(Mux(turn, instructions.ar_len, data.ar_len)),
                ]
        return valid

    def _read_data(self, m: Module) -> None:
        pins, fetched = self.pins, self.pins["rid"]
        taken = named(m, pins["rvalid"] & pins["rready"], "read_taken")
        fault = named(m, taken & pins["rresp"][1], "read_faulty")
        m.d.comb += [
            self.data.r_valid.eq(pins["rvalid"] & ~fetched),
            self.instructions.r_valid.eq(pins["rvalid"] & fetched),
            pins["rready"].eq(Mux(fetched, self.instructions.r_ready, self.data.r_ready)),
            self.data.r_data.eq(pins["rdata"]),
            self.instructions.r_data.eq(pins["rdata"]),
            self.read_fault.eq(fault & ~fetched),
            self.fetch_fault.eq(fault & fetched),
        ]

    def _writes(self, m: Module) -> Bits:
        pins, writes = self.pins, self.writes
        valid = Signal(name="write_shown")
        address = Signal(self.bus.address_bits, name="write_address", reset_less=True)
        length = Signal(8, name="write_length", reset_less=True)
        free = named(m, ~valid | pins["awready"], "write_free")
        m.d.comb += [
            writes.aw_ready.eq(free),
            pins["awvalid"].eq(valid),
            pins["awaddr"].eq(address),
            pins["awlen"].eq(length),
            pins["wvalid"].eq(writes.w_valid),
            writes.w_ready.eq(pins["wready"]),
            pins["wdata"].eq(writes.w_data),
            pins["wstrb"].eq(writes.w_strb),
            pins["wlast"].eq(writes.w_last),
            writes.b_valid.eq(pins["bvalid"]),
            pins["bready"].eq(writes.b_ready),
            self.write_fault.eq(pins["bvalid"] & writes.b_ready & pins["bresp"][1]),
        ]
        with m.If(free):
            m.d.sync += valid.eq(writes.aw_valid)
            with m.If(writes.aw_valid):
                m.d.sync += [
                    address.eq(self._address(writes.aw_beat, self.base)),
                    length.eq(writes.aw_len),
                ]
        return valid
