"""The host's end of the stream top: commands as bytes to registers and memory, answers as bytes.

A command is a letter and its operands, little endian:

| command | bytes | answer |
|---|---|---|
| read a register | `r`, address (2) | value (4) |
| write a register | `w`, address (2), value (4) | none |
| read memory | `R`, address (4), bytes (4) | the bytes |
| write memory | `W`, address (4), bytes (4), the bytes | none |

Other bytes between commands are passed over. A command is begun when the one before has ended.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from ridgeline.rtl.registers import Bits, named

READ_REGISTER, WRITE_REGISTER, READ_MEMORY, WRITE_MEMORY = b"rwRW"

_OPERANDS = {READ_REGISTER: 2, WRITE_REGISTER: 6, READ_MEMORY: 8, WRITE_MEMORY: 8}
_MOST_OPERANDS = max(_OPERANDS.values())
ADDRESS_BITS = 32


class ByteLink(Elaboratable):
    """in_* from the host, out_* to it: a byte while valid and ready.

    Registers as of `Engine`. Memory a byte at a time: read_* asks and is answered by response_*,
    one request at a time; write_* is taken while ready.
    """

    def __init__(self) -> None:
        self.in_valid = Signal()
        self.in_ready = Signal()
        self.in_data = Signal(8)
        self.out_valid = Signal()
        self.out_ready = Signal()
        self.out_data = Signal(8)
        self.register_write = Signal()
        self.register_address = Signal(10)
        self.register_data = Signal(32)
        self.register_value = Signal(32)
        self.read_valid = Signal()
        self.read_ready = Signal()
        self.response_valid = Signal()
        self.response_data = Signal(8)
        self.write_valid = Signal()
        self.write_ready = Signal()
        self.write_data = Signal(8)
        self.address = Signal(ADDRESS_BITS, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.operands = Signal(8 * _MOST_OPERANDS, reset_less=True)
        self.command = Signal(8, reset_less=True)
        self.left = Signal(ADDRESS_BITS)
        self.value = Signal(32, reset_less=True)
        self.taken = named(m, self.in_valid & self.in_ready, "byte_taken")
        self.given = named(m, self.out_valid & self.out_ready, "byte_given")
        operands: Bits = self.operands
        # The operands that have come lie at the upper end.
        word = Mux(self.command == WRITE_REGISTER, operands[-46:-36], operands[-14:-4])
        m.d.comb += [
            self.register_data.eq(operands[-32:]),
            self.write_data.eq(self.in_data),
            self.register_address.eq(word),
        ]
        with m.FSM():
            self._take_command(m)
            self._begin(m)
            self._answer_register(m)
            self._read_memory(m)
            self._write_memory(m)
        return m

    def _take_command(self, m: Module) -> None:
        left, taken = self.left, self.taken
        with m.State("command"):
            m.d.comb += self.in_ready.eq(1)
            m.d.sync += self.command.eq(self.in_data)
            with m.Switch(self.in_data):
                for code, count in _OPERANDS.items():
                    with m.Case(code), m.If(taken):
                        m.d.sync += left.eq(count)
                        m.next = "operands"
        with m.State("operands"):
            m.d.comb += self.in_ready.eq(1)
            with m.If(taken):
                m.d.sync += [
                    self.operands.eq(Cat(self.operands[8:], self.in_data)),
                    left.eq(left - 1),
                ]
                with m.If(left == 1):
                    m.next = "begin"

    def _begin(self, m: Module) -> None:
        left = self.left
        with m.State("begin"):
            m.d.sync += [self.address.eq(self.operands[:32]), left.eq(self.operands[32:])]
            m.next = "command"
            with m.Switch(self.command):
                with m.Case(READ_REGISTER):
                    m.d.sync += [self.value.eq(self.register_value), left.eq(4)]
                    m.next = "value"
                with m.Case(WRITE_REGISTER):
                    m.d.comb += self.register_write.eq(1)
                with m.Case(READ_MEMORY):
                    m.next = "ask"
                with m.Default():
                    m.next = "store"

    def _answer_register(self, m: Module) -> None:
        value, left = self.value, self.left
        with m.State("value"):
            m.d.comb += [self.out_valid.eq(1), self.out_data.eq(value[:8])]
            with m.If(self.given):
                m.d.sync += [value.eq(value >> 8), left.eq(left - 1)]
                with m.If(left == 1):
                    m.next = "command"

    def _read_memory(self, m: Module) -> None:
        value, left = self.value, self.left
        with m.State("ask"):
            m.d.comb += self.read_valid.eq(left != 0)
            with m.If(left == 0):
                m.next = "command"
            with m.Elif(self.read_ready):
                m.next = "answer"
        with m.State("answer"):
            m.d.sync += value.eq(self.response_data)
            with m.If(self.response_valid):
                m.next = "give"
        with m.State("give"):
            m.d.comb += [self.out_valid.eq(1), self.out_data.eq(value[:8])]
            with m.If(self.given):
                m.d.sync += [self.address.eq(self.address + 1), left.eq(left - 1)]
                m.next = "ask"

    def _write_memory(self, m: Module) -> None:
        left = self.left
        with m.State("store"):
            m.d.comb += [
                self.write_valid.eq(self.in_valid & (left != 0)),
                self.in_ready.eq(self.write_ready & (left != 0)),
            ]
            with m.If(left == 0):
                m.next = "command"
            with m.Elif(self.taken):
                m.d.sync += [self.address.eq(self.address + 1), left.eq(left - 1)]
