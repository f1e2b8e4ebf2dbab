"""The weight-stationary MAC array: registers in a grid, skewed at its edges, elaborated flat."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.rtl.mac.element import Passing, element, take_over
from ridgeline.rtl.mac.format import MacFormat
from ridgeline.rtl.mac.formats import MAC_FORMATS
from ridgeline.rtl.registers import Bits, delay
from ridgeline.rtl.shape import index_bits


class MacArray(wiring.Component):
    """rows × cols multiply-accumulate elements, each with a weight and a shadow weight.

    `activations` enter all rows in one cycle; the products' sums leave all columns
    `mac.array_cycles` later (rows + cols for int8), each `sum_bits` wide. `weights` with
    `weights_valid` go to the shadow registers of `weight_row`. `swap`, one cycle ahead of the first
    activations of a tile, runs through the grid as a wave before them and takes each shadow weight
    over: it is `sum_cycles` later in each row.
    """

    def __init__(self, rows: int, cols: int, mac: MacFormat = MAC_FORMATS["int8"]) -> None:
        self.rows, self.cols, self.mac = rows, cols, mac
        self.sum_bits = mac.sum_bits(rows)
        super().__init__(
            {
                "activations": In(rows * mac.activation_bits),
                "swap": In(1),
                "weights": In(cols * mac.weight_bits),
                "weights_valid": In(1),
                "weight_row": In(index_bits(rows)),
                "sums": Out(cols * self.sum_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = [self._edge(m, row) for row in range(self.rows)]
        for col in range(self.cols):
            word = self.weights.word_select(col, self.mac.weight_bits)
            weight = delay(m, word, col, f"skew_weight_{col}")
            total: Bits = Const(self.mac.start, self.sum_bits)
            for row in range(self.rows):
                left[row], total = element(
                    m, self.mac, f"{row}_{col}", left[row], weight, total, self.take_over
                )
            out = delay(m, total, self.cols - 1 - col, f"deskew_{col}")
            m.d.comb += self.sums.word_select(col, self.sum_bits).eq(out)
        return m

    def _edge(self, m: Module, row: int) -> Passing:
        """What enters a row: as late as the sums from above need."""
        late = row * self.mac.sum_cycles
        word = self.activations.word_select(row, self.mac.activation_bits)
        enable = Signal(name=f"weight_enable_{row}")
        m.d.comb += enable.eq(self.weights_valid & (self.weight_row == row))
        return Passing(
            delay(m, word, late, f"skew_activation_{row}"),
            delay(m, self.swap, late, f"skew_swap_{row}", control=True),
            enable,
        )

    def take_over(self, m: Module, swap: Bits, held: Signal, shadow: Signal) -> None:
        """The swap wave passes: the shadow weight becomes the weight."""
        take_over(m, swap, held, shadow)
