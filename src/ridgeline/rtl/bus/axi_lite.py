"""The AXI4-Lite slave: one access to a register at a time."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal

from ridgeline.rtl.registers import named

ADDRESS_BITS = 12
"""A page of 4 KiB, the least that an operating system maps."""

LITE_PINS: dict[str, tuple[str, int, str]] = {
    "awaddr": ("input", ADDRESS_BITS, "register to write, in bytes"),
    "awprot": ("input", 3, "not looked at"),
    "awvalid": ("input", 1, "the address is shown"),
    "awready": ("output", 1, "it is taken"),
    "wdata": ("input", 32, "what to write"),
    "wstrb": ("input", 4, "which of its bytes"),
    "wvalid": ("input", 1, "the data are shown"),
    "wready": ("output", 1, "they are taken"),
    "bresp": ("output", 2, "0"),
    "bvalid": ("output", 1, "it is written"),
    "bready": ("input", 1, "that is seen"),
    "araddr": ("input", ADDRESS_BITS, "register to read, in bytes"),
    "arprot": ("input", 3, "not looked at"),
    "arvalid": ("input", 1, "the address is shown"),
    "arready": ("output", 1, "it is taken"),
    "rdata": ("output", 32, "what it held"),
    "rresp": ("output", 2, "0"),
    "rvalid": ("output", 1, "the data are shown"),
    "rready": ("input", 1, "they are taken"),
}
"""Direction, width and meaning of each pin, without its prefix."""


class AxiLite(Elaboratable):
    """A bus of registers behind `pins`.

    `write` for a cycle with `write_address`, in words, `write_data` and `write_mask`; what
    `read_data` holds in the cycle of `read_address` is answered. Every access is answered OKAY: a
    register that is not there reads as zero, for an error would end a program on most boards.
    """

    def __init__(self) -> None:
        self.pins = {
            name: Signal(bits, name=f"s_axi_{name}") for name, (_, bits, _) in LITE_PINS.items()
        }
        self.write = Signal()
        self.write_address = Signal(ADDRESS_BITS - 2)
        self.write_data = Signal(32)
        self.write_mask = Signal(4)
        self.read_address = Signal(ADDRESS_BITS - 2)
        self.read_data = Signal(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pins = self.pins
        address_held = Signal()
        data_held = Signal()
        answers = Signal()
        write_data = Signal(32, reset_less=True)
        write_mask = Signal(4, reset_less=True)
        address = Signal(ADDRESS_BITS - 2, reset_less=True)
        both = named(m, address_held & data_held & ~answers, "both_held")
        m.d.comb += [
            pins["awready"].eq(~address_held),
            pins["wready"].eq(~data_held),
            pins["bvalid"].eq(answers),
            pins["bresp"].eq(0),
            pins["rresp"].eq(0),
            self.write.eq(both),
            self.write_address.eq(address),
            self.write_data.eq(write_data),
            self.write_mask.eq(write_mask),
        ]
        with m.If(pins["awvalid"] & ~address_held):
            m.d.sync += [address_held.eq(1), address.eq(pins["awaddr"][2:])]
        with m.If(pins["wvalid"] & ~data_held):
            m.d.sync += [
                data_held.eq(1),
                write_data.eq(pins["wdata"]),
                write_mask.eq(pins["wstrb"]),
            ]
        with m.If(both):
            m.d.sync += [address_held.eq(0), data_held.eq(0), answers.eq(1)]
        with m.If(answers & pins["bready"]):
            m.d.sync += answers.eq(0)
        self._read(m)
        return m

    def _read(self, m: Module) -> None:
        pins = self.pins
        asked = Signal()
        shown = Signal()
        address = Signal(ADDRESS_BITS - 2, reset_less=True, name="read_word")
        data = Signal(32, reset_less=True, name="read_register")
        m.d.comb += [
            pins["arready"].eq(~asked & ~shown),
            pins["rvalid"].eq(shown),
            pins["rdata"].eq(data),
            self.read_address.eq(address),
        ]
        with m.If(pins["arvalid"] & pins["arready"]):
            m.d.sync += [asked.eq(1), address.eq(pins["araddr"][2:])]
        with m.If(asked):
            m.d.sync += [asked.eq(0), shown.eq(1), data.eq(self.read_data)]
        with m.If(shown & pins["rready"]):
            m.d.sync += shown.eq(0)
