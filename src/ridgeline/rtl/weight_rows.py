"""Rows of weights: the column at which each begins, and those that lie in the unified buffer."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, signed

from ridgeline.machine.instructions import LoadWeights
from ridgeline.rtl.memories import UnifiedBuffer
from ridgeline.rtl.registers import Bits
from ridgeline.rtl.shape import WEIGHT_BITS, Shape
from ridgeline.rtl.walk import Walk
from ridgeline.rtl.words import field

_WIDTHS = {spec.name: spec.width for spec in LoadWeights.layout()}
COLUMN_BITS = _WIDTHS["column"]
"""Of the column at which a row of weights begins, which may lie outside of the array."""


class Columns:
    """`current`: the column of the row at hand. Each block's last row moves it on."""

    def __init__(self, name: str) -> None:
        rows = _WIDTHS["block_rows"]
        self.current = Signal(signed(COLUMN_BITS), name=f"{name}_column", reset_less=True)
        self.block_rows = Signal(rows, name=f"{name}_block_rows", reset_less=True)
        self.left = Signal(rows, name=f"{name}_block_left", reset_less=True)

    def start(self, word: Bits) -> list[Any]:
        """Assignments for the cycle in which the LoadWeights in `word` begins."""
        rows = field(word, LoadWeights, "block_rows")
        return [
            self.current.eq(field(word, LoadWeights, "column")),
            self.block_rows.eq(rows),
            self.left.eq(rows - field(word, LoadWeights, "block_row")),
        ]

    def step(self, m: Module, columns: Bits) -> None:
        """Behind a row so many columns wide; call it inside an m.If."""
        with m.If(self.left == 1):
            m.d.sync += [self.left.eq(self.block_rows), self.current.eq(self.current + columns)]
        with m.Elif(self.block_rows != 0):
            m.d.sync += self.left.eq(self.left - 1)


class BufferWeights(Elaboratable):
    """A LoadWeights from the unified buffer, a row a cycle.

    `start` takes it from `word`. `valid` with a row's address; then `last`, `target`, `extent`,
    `lane`, `column` and the operands' form are those of its row. `busy` beyond this cycle, and
    `held_banks` with it.
    """

    def __init__(self, shape: Shape, buffer: UnifiedBuffer, word: Bits) -> None:
        self.shape, self.buffer, self.word = shape, buffer, word
        self.start = Signal(name="buffer_weights_start")
        self.busy = Signal(name="buffer_weights_busy")
        self.held_banks = Signal(shape.banks, name="buffer_weights_banks")
        self.valid = Signal(name="buffer_weights_valid")
        self.last = Signal(name="buffer_weights_last")
        self.target = Signal(shape.weight_address_bits, name="buffer_weights_target")
        self.column = Signal(signed(COLUMN_BITS), name="buffer_weights_first_column")
        self.extent = Signal(shape.extent_bits, name="buffer_weights_extent", reset_less=True)
        self.lane = Signal(shape.lane_bits, name="buffer_weights_lane", reset_less=True)
        self.signed = Signal(name="buffer_weights_signed", reset_less=True)
        self.zero_point = Signal(WEIGHT_BITS, name="buffer_weights_zero", reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        shape = self.shape

        def of(name: str) -> Bits:
            return field(self.word, LoadWeights, name)

        walk = Walk(
            m,
            "buffer_weights",
            {"line": shape.line_bits, "target": shape.weight_address_bits},
            (_WIDTHS["k"],),
        )
        columns = Columns("buffer_weights")
        banks = Signal(shape.banks, reset_less=True)
        with m.If(walk.busy):
            walk.step(m)
            columns.step(m, self.extent)
        with m.If(~walk.busy | walk.last):
            m.d.sync += walk.load(
                (of("k"),),
                {
                    "line": (of("address"), (of("row_stride"),)),
                    "target": (Cat(Const(0, shape.row_bits), of("slot")), (Const(1),)),
                },
            )
            m.d.sync += [
                *columns.start(self.word),
                self.extent.eq(of("n")),
                self.lane.eq(of("lane")),
                self.signed.eq(of("signed")),
                self.zero_point.eq(of("zero_point")),
                banks.eq(of("banks")),
            ]
        with m.If(self.start):
            m.d.sync += walk.begin()
        m.d.comb += [
            self.busy.eq(walk.busy & ~walk.last),
            self.held_banks.eq(Mux(self.busy, banks, 0)),
            self.valid.eq(walk.busy),
            self.last.eq(walk.last),
            self.target.eq(walk["target"]),
            self.column.eq(columns.current),
            self.buffer.weights.enable.eq(walk.busy),
            self.buffer.weights.address.eq(walk["line"]),
        ]
        return m
