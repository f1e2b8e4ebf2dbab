"""int8 and uint8 less their zero point: 9-bit integers, sums that cannot overflow in a column."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Module, Signal, signed

from ridgeline.rtl.registers import Bits
from ridgeline.rtl.shape import SUM_BITS, WEIGHT_BITS, index_bits


@dataclass(frozen=True, slots=True)
class Int8:
    """Two's complement throughout."""

    name: str = "int8"
    activation_bits: int = WEIGHT_BITS
    weight_bits: int = WEIGHT_BITS
    accumulator_bits: int = SUM_BITS
    product_cycles: int = 1
    sum_cycles: int = 1
    nothing: int = 0
    start: int = 0

    def sum_bits(self, rows: int) -> int:
        return 2 * WEIGHT_BITS + index_bits(rows)

    def multiply(self, m: Module, activation: Bits, weight: Bits, name: str) -> Bits:
        product = Signal(signed(2 * WEIGHT_BITS), name=f"{name}_product", reset_less=True)
        m.d.sync += product.eq(activation.as_signed() * weight.as_signed())
        return product

    def add(self, m: Module, total: Bits, product: Bits, name: str) -> Bits:
        summed = Signal(len(total), name=f"{name}_sum", reset_less=True)
        m.d.sync += summed.eq(total.as_signed() + product)
        return summed
