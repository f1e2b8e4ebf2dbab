"""The on-chip memories: unified-buffer banks, accumulators, weight slots and parameters.

Reading takes one cycle everywhere: an address in one cycle, its data in the next.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import memory

from ridgeline.rtl.registers import Bits, named, register
from ridgeline.rtl.shape import SUM_BITS, WEIGHT_BITS, Shape


class ReadPort:
    """A place to read: with `enable`, `data` is that of `address` in the cycle after."""

    def __init__(self, name: str, address_bits: int, data_bits: int) -> None:
        self.enable = Signal(name=f"{name}_enable")
        self.address = Signal(address_bits, name=f"{name}_address")
        self.data = Signal(data_bits, name=f"{name}_data")


class WritePort:
    """A place to write: `mask` has one bit for each part of the data, all 0 for no write."""

    def __init__(self, name: str, address_bits: int, data_bits: int, parts: int) -> None:
        self.address = Signal(address_bits, name=f"{name}_address")
        self.data = Signal(data_bits, name=f"{name}_data")
        self.mask = Signal(parts, name=f"{name}_mask")


class UnifiedBuffer(Elaboratable):
    """Banks of lines, each bank with one read and one write port.

    Four readers and two writers may work at once as long as they use different banks, which the
    issue logic sees to.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        line = shape.line_bytes * 8
        self.array = ReadPort("buffer_array", shape.line_bits, line)
        self.store = ReadPort("buffer_store", shape.line_bits, line)
        self.vector_read = ReadPort("buffer_vector_read", shape.line_bits, line)
        self.weights = ReadPort("buffer_weights", shape.line_bits, line)
        self.readers = (self.array, self.vector_read, self.weights, self.store)
        self.vector = WritePort("buffer_vector", shape.line_bits, line, shape.line_bytes)
        self.load = WritePort("buffer_load", shape.line_bits, line, shape.line_bytes)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape, below = self.shape, self.shape.bank_line_bits
        outputs: list[Bits] = []
        for bank in range(shape.banks):
            cells = memory.Memory(
                shape=shape.line_bytes * 8,
                depth=shape.machine.unified_buffer.lines_per_bank,
                init=[],
            )
            m.submodules[f"bank_{bank}"] = cells
            reading, writing = cells.read_port(), cells.write_port(granularity=8)
            reads = [
                named(m, port.enable & self._in(port.address, bank), f"{port.address.name}_{bank}")
                for port in self.readers
            ]
            address = self.readers[-1].address
            for port, here in zip(self.readers[:-1], reads[:-1], strict=True):
                address = Mux(here, port.address, address)
            vector = named(m, self._in(self.vector.address, bank), f"vector_{bank}")
            load = named(m, self._in(self.load.address, bank), f"load_{bank}")
            by_vector = named(m, vector & self.vector.mask.any(), f"by_vector_{bank}")
            m.d.comb += [
                reading.en.eq(Cat(*reads).any()),
                reading.addr.eq(address[:below]),
                writing.addr.eq(Mux(by_vector, self.vector.address, self.load.address)[:below]),
                writing.data.eq(Mux(by_vector, self.vector.data, self.load.data)),
                writing.en.eq(Mux(by_vector, self.vector.mask, Mux(load, self.load.mask, 0))),
            ]
            outputs.append(reading.data)
        for port in self.readers:
            chosen = register(m, port.address[below:], f"{port.data.name}_bank")
            m.d.comb += port.data.eq(Array(outputs)[chosen] if shape.banks > 1 else outputs[0])
        return m

    def _in(self, line: Bits, bank: int) -> Bits:
        return line[self.shape.bank_line_bits :] == bank


class Accumulators(Elaboratable):
    """Entries of cols sums, overwritten or added to, also at the same entry in the next cycle.

    `entry`, `accumulate` and `sums` with `valid` in cycle x are written at the end of cycle x + 2.
    `vector` reads entries for the vector unit.
    """

    def __init__(self, shape: Shape, sum_bits: int) -> None:
        self.shape, self.sum_bits = shape, sum_bits
        self.valid = Signal()
        self.accumulate = Signal()
        self.entry = Signal(shape.entry_bits)
        self.sums = Signal(shape.cols * sum_bits)
        self.vector = ReadPort("accumulators_vector", shape.entry_bits, shape.cols * SUM_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cols = range(self.shape.cols)
        cells = memory.Memory(
            shape=self.shape.cols * SUM_BITS,
            depth=self.shape.machine.array.accumulator_entries,
            init=[],
        )
        m.submodules.cells = cells
        writing, adding, leaving = cells.write_port(), cells.read_port(), cells.read_port()
        valid = register(m, self.valid, "valid_1", control=True)
        entry = register(m, self.entry, "entry_1")
        written = register(m, valid, "valid_2", control=True)
        entry_written = register(m, entry, "entry_2")
        sums = register(m, self.sums, "sums_1")
        total = Signal(self.shape.cols * SUM_BITS, reset_less=True)
        before = register(m, total, "total_before")
        # The two elements ahead are not in the memory yet when this one is read. Which sum it adds
        # to is known beforehand: reading takes half of a cycle.
        first = valid & (self.entry == entry)
        second = named(m, written & (self.entry == entry_written) & ~first, "again_second")
        adds_total = register(m, self.accumulate & first, "adds_total")
        adds_before = register(m, self.accumulate & second, "adds_before")
        adds_memory = register(m, self.accumulate & ~first & ~second, "adds_memory")
        for col in cols:
            new = sums.word_select(col, self.sum_bits).as_signed()
            gate: dict[str, Bits] = {
                name: Mux(adds, value.word_select(col, SUM_BITS), 0)
                for name, adds, value in (
                    ("total", adds_total, total),
                    ("before", adds_before, before),
                    ("memory", adds_memory, adding.data),
                )
            }
            added = new + (gate["total"] | gate["before"] | gate["memory"]).as_signed()
            m.d.sync += total.word_select(col, SUM_BITS).eq(added)
        m.d.comb += [
            adding.addr.eq(self.entry),
            adding.en.eq(self.valid),
            writing.en.eq(written),
            writing.addr.eq(entry_written),
            writing.data.eq(total),
            leaving.addr.eq(self.vector.address),
            leaving.en.eq(self.vector.enable),
            self.vector.data.eq(leaving.data),
        ]
        return m


class WeightSlots(Elaboratable):
    """Tiles of rows × cols operands, and how many rows of each were loaded: the rest read as zero.

    The address is the slot above the row. `fill` with `fill_slot` and `fill_rows` notes the rows
    when a load of the slot starts; `rows` answers for the slot of `read` in the same cycle.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        width = shape.cols * WEIGHT_BITS
        self.read = ReadPort("weights_read", shape.weight_address_bits, width)
        self.write = WritePort("weights_write", shape.weight_address_bits, width, 1)
        self.fill = Signal()
        self.fill_slot = Signal(shape.weight_address_bits - shape.row_bits)
        self.fill_rows = Signal(range(shape.rows + 1))
        self.rows = Signal(range(shape.rows + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        slots = shape.machine.array.weight_slots
        m.submodules.cells = cells = memory.Memory(
            shape=shape.cols * WEIGHT_BITS, depth=slots << shape.row_bits, init=[]
        )
        m.submodules.filled = filled = memory.Memory(shape=self.rows.shape(), depth=slots, init=[])
        writing, reading = cells.write_port(), cells.read_port()
        noting, asking = filled.write_port(), filled.read_port(domain="comb")
        m.d.comb += [
            writing.addr.eq(self.write.address),
            writing.data.eq(self.write.data),
            writing.en.eq(self.write.mask),
            reading.addr.eq(self.read.address),
            reading.en.eq(self.read.enable),
            self.read.data.eq(reading.data),
            noting.addr.eq(self.fill_slot),
            noting.data.eq(self.fill_rows),
            noting.en.eq(self.fill),
            asking.addr.eq(self.read.address[shape.row_bits :]),
            self.rows.eq(asking.data),
        ]
        return m


class Parameters(Elaboratable):
    """Bias and scale of every channel, in slots, written a group of channels at a time.

    `bias` and `scale` are read in different cycles, each when the lanes need it.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        width = shape.cols * 32
        self.bias = ReadPort("parameters_bias", shape.parameter_slot_bits, width)
        self.scale = ReadPort("parameters_scale", shape.parameter_slot_bits, width)
        self.slot = Signal(shape.parameter_slot_bits)
        self.group = Signal(shape.group_bits)
        self.count = Signal(shape.extent_bits)
        self.valid = Signal()
        self.records = Signal(shape.group_records * 64)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape
        lanes = range(shape.cols)
        mask = [
            self.valid & (self.group == lane // shape.group_records) & (self.count > lane)
            for lane in lanes
        ]
        for half, port in enumerate((self.bias, self.scale)):
            cells = memory.Memory(
                shape=shape.cols * 32, depth=shape.machine.vector.parameter_slots, init=[]
            )
            m.submodules[port.data.name] = cells
            writing, reading = cells.write_port(granularity=32), cells.read_port()
            words = [
                self.records.word_select(2 * (lane % shape.group_records) + half, 32)
                for lane in lanes
            ]
            m.d.comb += [
                writing.addr.eq(self.slot),
                writing.data.eq(Cat(*words)),
                writing.en.eq(Cat(*mask)),
                reading.addr.eq(port.address),
                reading.en.eq(port.enable),
                port.data.eq(reading.data),
            ]
        return m
