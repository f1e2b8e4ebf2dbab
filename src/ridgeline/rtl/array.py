"""The weight-stationary MAC array: registers in a grid, skewed at its edges, elaborated flat."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.rtl.registers import Bits, delay
from ridgeline.rtl.shape import WEIGHT_BITS, Shape, index_bits


class MacArray(wiring.Component):
    """rows × cols multiply-accumulate elements, each with a weight and a shadow weight.

    `activations` enter all rows in one cycle; the products' sums leave all columns rows + cols
    cycles later, each `sum_bits` wide. `weights` with `weights_valid` go to the shadow registers of
    `weight_row`. `swap`, one cycle ahead of the first activations of a tile, runs through the grid
    as a wave before them and takes each shadow weight over.
    """

    def __init__(self, shape: Shape) -> None:
        self.rows, self.cols = shape.rows, shape.cols
        self.sum_bits = 2 * WEIGHT_BITS + index_bits(shape.rows)
        super().__init__(
            {
                "activations": In(self.rows * WEIGHT_BITS),
                "swap": In(1),
                "weights": In(self.cols * WEIGHT_BITS),
                "weights_valid": In(1),
                "weight_row": In(index_bits(self.rows)),
                "sums": Out(self.cols * self.sum_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = range(self.rows)
        activations = [
            delay(m, self._operand(self.activations, row), row, f"skew_activation_{row}")
            for row in rows
        ]
        swaps = [delay(m, self.swap, row, f"skew_swap_{row}", control=True) for row in rows]
        enables: list[Bits] = []
        for row in rows:
            enable = Signal(name=f"weight_enable_{row}")
            m.d.comb += enable.eq(self.weights_valid & (self.weight_row == row))
            enables.append(enable)
        for col in range(self.cols):
            weight = delay(m, self._operand(self.weights, col), col, f"skew_weight_{col}")
            total: Bits = Const(0, signed(self.sum_bits))
            for row in rows:
                total = self._element(m, row, col, activations, swaps, enables, weight, total)
            out = delay(m, total, self.cols - 1 - col, f"deskew_{col}")
            m.d.comb += self.sums.word_select(col, self.sum_bits).eq(out)
        return m

    @staticmethod
    def _operand(bus: Bits, index: int) -> Bits:
        return bus.word_select(index, WEIGHT_BITS).as_signed()

    def _element(
        self,
        m: Module,
        row: int,
        col: int,
        activations: list[Bits],
        swaps: list[Bits],
        enables: list[Bits],
        weight: Bits,
        total: Bits,
    ) -> Bits:
        """Element (row, col): takes its left neighbour's values, leaves its own in their place."""

        def data(what: str, bits: int) -> Signal:
            return Signal(signed(bits), name=f"{what}_{row}_{col}", reset_less=True)

        held, shadow = data("weight", WEIGHT_BITS), data("shadow", WEIGHT_BITS)
        passed, product = data("activation", WEIGHT_BITS), data("product", 2 * WEIGHT_BITS)
        summed = data("sum", self.sum_bits)
        swap = Signal(name=f"swap_{row}_{col}")
        enable = Signal(name=f"enable_{row}_{col}")
        m.d.sync += [
            passed.eq(activations[row]),
            swap.eq(swaps[row]),
            enable.eq(enables[row]),
            product.eq(activations[row] * held),
            summed.eq(total + product),
        ]
        with m.If(enables[row]):
            m.d.sync += shadow.eq(weight)
        self.take_over(m, swaps[row], held, shadow)
        activations[row], swaps[row], enables[row] = passed, swap, enable
        return summed

    def take_over(self, m: Module, swap: Bits, held: Signal, shadow: Signal) -> None:
        """The swap wave passes: the shadow weight becomes the weight."""
        with m.If(swap):
            m.d.sync += held.eq(shadow)
