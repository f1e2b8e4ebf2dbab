"""Lines of the unified buffer as operands of the vector unit: zero points, products, sums of taps.

Five stages from the line to what the requantise lanes take: bank, turn to lane 0, zero point,
product, sum. A preload goes the first three and ends in the weights of the taps, or in the table.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, memory

from ridgeline.machine.instructions.lookup import TABLE_ENTRIES, table_lines
from ridgeline.machine.instructions.vector import MOST_DEPTHWISE_TAPS
from ridgeline.rtl.memories import UnifiedBuffer
from ridgeline.rtl.registers import Bits, named, register
from ridgeline.rtl.shape import SUM_BITS, WEIGHT_BITS, Shape, index_bits

PRODUCT_BITS = 2 * WEIGHT_BITS

PRODUCT_AGE, SUM_AGE = 5, 6
"""Cycles from a line's address to its product with a weight, and to its sum with taps before."""

NO_TAP = -(1 << (PRODUCT_BITS - 1))
"""Below every value that a maximum has."""

TAP_BITS = index_bits(MOST_DEPTHWISE_TAPS)


def line_use(shape: Shape) -> data.StructLayout:
    """What is to be done with a line, known when its address is."""
    return data.StructLayout(
        {
            "lane": shape.lane_bits,
            "signed": 1,
            "zero": signed(WEIGHT_BITS),
            "fills_weights": 1,
            "fills_table": 1,
            "place": max(TAP_BITS, index_bits(table_lines(shape.machine))),
            "inside": 1,
            "looks_up": 1,
            "table_signed": 1,
            "weighs": 1,
            "multiplies": 1,
            "first": 1,
            "greatest": 1,
        }
    )


class VectorOperands(Elaboratable):
    """`use` with a line's address -> `products` PRODUCT_AGE cycles, `sums` SUM_AGE cycles later.

    `products`: of each lane the operand, times the weight of its tap (`weighs`) or times the
    operand of the cycle before (`multiplies`), or its entry in the table (`looks_up`). `sums`: the
    products from the last `first` on added up, or the `greatest` of them; a line that is not
    `inside` counts nothing.
    """

    def __init__(self, shape: Shape, buffer: UnifiedBuffer) -> None:
        self.shape, self.buffer = shape, buffer
        self.use = Signal(line_use(shape))
        lanes = range(shape.cols)
        self.products = [Signal(signed(PRODUCT_BITS), name=f"product_{i}") for i in lanes]
        self.sums = [Signal(signed(SUM_BITS), name=f"sum_{i}") for i in lanes]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        uses: list[Bits] = [self.use]
        for age in range(1, SUM_AGE):
            uses.append(self._later(m, uses[-1], age))
        line = register(m, self.buffer.vector_read.data, "banked")
        turned = register(m, (line >> Cat(Const(0, 3), uses[2].lane)), "turned")
        operands = self._operands(m, turned, uses[3])
        weights = self._weights(m, operands, uses[2], uses[3])
        entries = self._entries(m, turned, uses[3], uses[4])
        floor = Mux(uses[4].greatest, NO_TAP, 0)
        for lane, operand in enumerate(operands):
            now = register(m, operand, f"operand_{lane}")
            factor = Signal(signed(WEIGHT_BITS), name=f"factor_{lane}", reset_less=True)
            other = Mux(uses[3].multiplies, now, 1)
            m.d.sync += factor.eq(Mux(uses[3].weighs, weights[lane], other))
            value = Mux(uses[4].looks_up, entries[lane], now * factor)
            product = Signal(signed(PRODUCT_BITS), name=f"product_kept_{lane}", reset_less=True)
            m.d.sync += product.eq(Mux(uses[4].inside, value, floor))
            total = Signal(signed(SUM_BITS), name=f"sum_kept_{lane}", reset_less=True)
            replaces = uses[5].first | (uses[5].greatest & (product > total))
            added = Mux(uses[5].greatest, 0, product)
            m.d.sync += total.eq(Mux(replaces, product, total + added))
            m.d.comb += [self.products[lane].eq(product), self.sums[lane].eq(total)]
        return m

    def _later(self, m: Module, use: Bits, age: int) -> Bits:
        """`use` a cycle later; memories are written by no other than those that are meant."""
        out = Signal(line_use(self.shape), name=f"use_{age}", reset_less=True)
        m.d.sync += out.eq(use)
        return out

    def _operands(self, m: Module, turned: Bits, use: Bits) -> list[Bits]:
        """Each lane's byte with its sign, less the zero point."""
        found: list[Bits] = []
        for lane in range(self.shape.cols):
            byte = turned.word_select(lane, 8)
            wide = Cat(byte, byte[7] & use.signed).as_signed()
            operand = Signal(signed(WEIGHT_BITS), name=f"offset_{lane}")
            m.d.comb += operand.eq(wide - use.zero)
            found.append(operand)
        return found

    def _weights(self, m: Module, operands: list[Bits], asks: Bits, writes: Bits) -> list[Bits]:
        """The weights of the tap, for each lane: asked for in the second stage, which sees what the
        third writes in that cycle, and there in the third.
        """
        if "depthwise" not in self.shape.machine.vector.operations:
            return [Const(1, signed(WEIGHT_BITS))] * len(operands)
        width = len(operands) * WEIGHT_BITS
        m.submodules.weights = cells = memory.Memory(
            shape=width, depth=MOST_DEPTHWISE_TAPS, init=[]
        )
        writing = cells.write_port()
        reading = cells.read_port(transparent_for=(writing,))
        m.d.comb += [
            writing.addr.eq(writes.place[:TAP_BITS]),
            writing.data.eq(Cat(*operands)),
            writing.en.eq(writes.fills_weights),
            reading.addr.eq(asks.place[:TAP_BITS]),
            reading.en.eq(asks.weighs),
        ]
        return [reading.data.word_select(i, WEIGHT_BITS).as_signed() for i in range(len(operands))]

    def _entries(self, m: Module, turned: Bits, writes: Bits, use: Bits) -> list[Bits]:
        """The table's entry for each lane's byte; every lane has the whole table."""
        lanes = self.shape.cols
        if "lookup" not in self.shape.machine.vector.operations:
            return [Const(0, signed(WEIGHT_BITS))] * lanes
        rows, below = table_lines(self.shape.machine), self.shape.lane_bits
        if self.shape.line_bytes << (rows - 1).bit_length() != TABLE_ENTRIES:
            raise ValueError("a table's lines are not a power of two")
        found: list[Bits] = []
        for lane in range(lanes):
            byte = turned.word_select(lane, 8)
            cells = memory.Memory(shape=self.shape.line_bytes * 8, depth=rows, init=[])
            m.submodules[f"table_{lane}"] = cells
            writing, reading = cells.write_port(), cells.read_port()
            m.d.comb += [
                writing.addr.eq(writes.place[: len(writing.addr)]),
                writing.data.eq(turned),
                writing.en.eq(writes.fills_table),
                reading.addr.eq(byte[below:]),
                reading.en.eq(writes.looks_up),
            ]
            which = register(m, byte[:below], f"entry_{lane}")
            entry = named(m, reading.data.word_select(which, 8), f"table_entry_{lane}")
            found.append(Cat(entry, entry[7] & use.table_signed).as_signed())
        return found
