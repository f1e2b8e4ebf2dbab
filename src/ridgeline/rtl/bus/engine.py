"""The accelerator with what runs programs on it: fetch unit, registers, run control."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, ResetInserter, Signal

from ridgeline.machine.description import Machine
from ridgeline.rtl.accelerator import Accelerator
from ridgeline.rtl.bus.counters import Counters
from ridgeline.rtl.bus.fetch import Fetch
from ridgeline.rtl.bus.image import CHUNK_BYTES
from ridgeline.rtl.bus.register_map import (
    COUNTERS,
    ERRORS,
    IDENTITY,
    MAP_VERSION,
    counter_register,
    machine_digest,
    register_map,
)
from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import UNITS

_WORD_BITS = 32


class Engine(Elaboratable):
    """A machine behind registers. Raises RidgelineError for a machine that is not covered.

    The memory ports are those of `core` and `fetch`, which the surroundings serve; `base` is to be
    added to the core's addresses. `hold` and `flush` ask them to end what has begun and begin no
    more, until `quiet` says that nothing is under way. `read_fault`, `write_fault` and
    `fetch_fault` end the program. `write` for a cycle writes a register, at a word's address;
    `read_data` is what lies at `read_address`. `bus_word` is what register BUS reads. The program
    is fetched `fetch_bytes` at a time, None: as many as memory answers at once.
    """

    def __init__(
        self,
        machine: Machine,
        address_bits: int,
        *,
        fetch_bytes: int | None,
        counts: bool,
        writes_answered: bool,
    ) -> None:
        self.machine = machine
        self.core = core = Accelerator(machine, writes_answered=writes_answered, counts=counts)
        self.fetch = Fetch(address_bits, fetch_bytes or core.shape.response_bytes)
        self.counters = Counters(core) if counts else None
        self.registers = register_map(counts=counts)
        self.base = Signal(address_bits)
        self.hold = Signal()
        self.flush = Signal()
        self.quiet = Signal()
        self.clear = Signal()
        self.read_fault = Signal()
        self.write_fault = Signal()
        self.fetch_fault = Signal()
        self.bus_word = 0
        self.write = Signal()
        self.write_address = Signal(10)
        self.write_data = Signal(_WORD_BITS)
        self.write_mask = Signal(4, init=0xF)
        self.read_address = Signal(10)
        self.read_data = Signal(_WORD_BITS)
        self.irq = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core, fetch = self.core, self.fetch
        m.submodules.core = ResetInserter(self.clear)(core)
        m.submodules.fetch = ResetInserter(self.clear)(fetch)
        self.values: dict[str, Bits] = {}
        self.written: dict[str, Bits] = {}
        self._decode_writes(m)
        self._settings(m)
        self._run(m)
        m.d.comb += [
            core.instruction_valid.eq(fetch.valid & ~fetch.unknown & self.running),
            core.instruction_word.eq(fetch.word),
            fetch.ready.eq(core.instruction_ready & ~fetch.unknown & self.running),
            fetch.hold.eq(self.hold),
        ]
        self._describe()
        self._count(m)
        with m.Switch(self.read_address):
            for register in self.registers:
                with m.Case(register.offset // 4):
                    m.d.comb += self.read_data.eq(self.values[register.name])
        return m

    def _decode_writes(self, m: Module) -> None:
        """`written[name]`: that register is written in this cycle."""
        for register in self.registers:
            if register.access != "read":
                here = self.write & (self.write_address == register.offset // 4)
                self.written[register.name] = named(m, here, f"writes_{register.name.lower()}")
        lanes: Bits = Cat(*(bit.replicate(8) for bit in self.write_mask))
        self.bits_written = named(m, lanes, "bits_written")
        self.ones = named(m, self.write_data & self.bits_written, "ones_written")

    def _setting(self, m: Module, name: str, bits: int = _WORD_BITS) -> Signal:
        """A register that software writes and reads."""
        held = Signal(bits, name=name.lower())
        written: Bits = self.bits_written[:bits]
        with m.If(self.written[name]):
            m.d.sync += held.eq((held & ~written) | self.ones[:bits])
        self.values[name] = held
        return held

    def _settings(self, m: Module) -> None:
        high = max(len(self.base) - _WORD_BITS, 0)
        addresses: dict[str, Bits] = {}
        for name in "PROGRAM", "BASE":
            addresses[name] = self._setting(m, f"{name}_LOW")
            if high:
                addresses[name] = Cat(addresses[name], self._setting(m, f"{name}_HIGH", high))
            else:
                self.values[f"{name}_HIGH"] = Const(0)
        m.d.comb += [
            self.fetch.address.eq(addresses["PROGRAM"]),
            self.base.eq(Cat(Const(0, 12), addresses["BASE"][12:])),
            self.fetch.length.eq(self._setting(m, "PROGRAM_BYTES")),
        ]

    def _run(self, m: Module) -> None:
        """Idle, running, or ending: waiting until the bus is quiet. Then the core is cleared."""
        self.running = running = Signal()
        ending = Signal()
        done = Signal()
        errors = Signal(len(ERRORS))
        busy = named(m, running | ending, "busy")
        command = named(m, Mux(self.written["CONTROL"], self.ones[:2], 0), "command")
        starts = named(m, command[0] & ~busy, "starts")
        raised = self._raised(m, busy, starts, command[1])
        fails = named(m, raised.any(), "fails")
        halts = named(m, running & self.core.done, "halts")
        finished = named(m, ending & self.quiet, "finished")
        begins = Signal()
        m.d.sync += begins.eq(starts & ~fails)
        m.d.comb += [
            self.hold.eq(ending),
            self.flush.eq(ending),
            self.clear.eq(finished | starts),
            self.fetch.start.eq(begins),
        ]
        with m.If(starts):
            m.d.sync += [done.eq(0), errors.eq(raised), running.eq(~fails), ending.eq(fails)]
        with m.Else():
            cleared = Mux(self.written["ERROR"], self.ones[: len(errors)], 0)
            m.d.sync += errors.eq((errors & ~cleared) | raised)
            with m.If(running & (fails | halts)):
                m.d.sync += [running.eq(0), ending.eq(1), done.eq(halts & ~fails)]
            with m.If(finished):
                m.d.sync += ending.eq(0)
            with m.If(ending & fails):
                m.d.sync += done.eq(0)
        self._interrupt(m, named(m, finished & done, "ended"), finished & ~done)
        self.values |= {
            "CONTROL": Const(0),
            "STATUS": Cat(busy, done & ~busy, errors.any() & ~busy),
            "ERROR": errors,
        }

    def _raised(self, m: Module, busy: Bits, starts: Bits, stops: Bits) -> Signal:
        """Which of ERRORS come about in this cycle."""
        fetch = self.fetch
        broken = (fetch.length == 0) | ((fetch.length & (CHUNK_BYTES - 1)) != 0)
        causes = {
            "read_fault": self.read_fault & busy,
            "write_fault": self.write_fault & busy,
            "fetch_fault": self.fetch_fault & busy,
            "unknown_instruction": self.running & fetch.unknown,
            "no_halt": self.running & fetch.exhausted,
            "bad_length": starts & broken,
            "stopped": stops & self.running,
        }
        return named(m, Cat(*(causes[error.name] for error in ERRORS)), "errors_raised")

    def _interrupt(self, m: Module, done: Bits, failed: Bits) -> None:
        enable = self._setting(m, "INTERRUPT_ENABLE", 2)
        raised = Signal(2, name="interrupts")
        cleared = Mux(self.written["INTERRUPT"], self.ones[:2], 0)
        m.d.sync += raised.eq((raised & ~cleared) | Cat(done, failed))
        m.d.comb += self.irq.eq((raised & enable).any())
        self.values["INTERRUPT"] = raised

    def _describe(self) -> None:
        """Registers that say what was built."""
        machine = self.machine
        buffer = machine.unified_buffer
        self.values |= {
            "IDENTITY": Const(IDENTITY, _WORD_BITS),
            "MAP_VERSION": Const(MAP_VERSION, _WORD_BITS),
            "MACHINE": Const(machine_digest(machine), _WORD_BITS),
            "ARRAY": Const(machine.array.rows | machine.array.cols << 16, _WORD_BITS),
            "BUFFER": Const(buffer.line_bytes | buffer.banks << 16, _WORD_BITS),
            "BUFFER_LINES": Const(buffer.lines, _WORD_BITS),
            "MEMORY_BYTES": Const(machine.device_memory.bytes % 2**32, _WORD_BITS),
            "BUS": Const(self.bus_word, _WORD_BITS),
        }

    def _count(self, m: Module) -> None:
        """Counts of drained instructions and of stalls, kept from a program's end to the next."""
        core = self.core
        last = {
            unit: Signal(len(core.counts[unit]), name=f"last_{unit.name.lower()}") for unit in UNITS
        }
        for unit in UNITS:
            with m.If(self.running):
                m.d.sync += last[unit].eq(core.counts[unit])
            self.values[f"DRAINED_{unit.name}"] = last[unit]
        self.values["COUNTERS"] = Const(len(COUNTERS) if self.counters else 0, _WORD_BITS)
        if self.counters is None:
            return
        m.submodules.counters = counters = self.counters
        m.d.comb += [
            counters.running.eq(self.running),
            counters.clear.eq(self.clear & ~self.flush),
        ]
        for (name, _), value in zip(COUNTERS, counters.values, strict=True):
            self.values[counter_register(name)] = value
