"""What a MAC format declares, and the times that follow from its latency."""

from __future__ import annotations

from typing import Protocol

from amaranth.hdl import Module

from ridgeline.rtl.registers import Bits


class MacFormat(Protocol):
    """One number format as the arithmetic of an element.

    Operands, products and sums are words of bits; only the format knows what they mean. An element
    multiplies in `product_cycles` and adds in `sum_cycles`, each at least 1, and takes new
    operands every cycle.
    """

    @property
    def name(self) -> str: ...

    @property
    def activation_bits(self) -> int: ...

    @property
    def weight_bits(self) -> int: ...

    @property
    def accumulator_bits(self) -> int:
        """What holds the sum of a whole layer; `sum_bits` holds that of a tile."""
        ...

    @property
    def product_cycles(self) -> int: ...

    @property
    def sum_cycles(self) -> int: ...

    @property
    def nothing(self) -> int:
        """The activation that adds nothing, whatever the weight: of rows that a tile leaves."""
        ...

    @property
    def start(self) -> int:
        """The sum of no products, which enters every column at the top."""
        ...

    def sum_bits(self, rows: int) -> int:
        """The width of the sum of up to `rows` products."""
        ...

    def multiply(self, m: Module, activation: Bits, weight: Bits, name: str) -> Bits:
        """The product, `product_cycles` later. `name` begins those of its signals."""
        ...

    def add(self, m: Module, total: Bits, product: Bits, name: str) -> Bits:
        """total + product, `sum_cycles` later, as wide as `total`."""
        ...


def array_cycles(mac: MacFormat, rows: int, cols: int) -> int:
    """From activations at the array's edge to the sums of all columns.

    Each row is `sum_cycles` behind the row above, because that is when the sum from there is ready
    for its product; each column is 1 cycle behind the column to its left.
    """
    return rows * mac.sum_cycles + mac.product_cycles + cols - 1


def shift_after_stream_cycles(mac: MacFormat, rows: int) -> int:
    """From a tile's first activations to the first row of the next tile's weights, the earliest.

    Weights come down one row a cycle, the swap wave takes `sum_cycles` a row. The last of the next
    tile's `rows` rows of weights must not overtake the wave, which entered one cycle ahead of the
    activations. Negative where the weights may come before the activations.
    """
    return (rows - 1) * (mac.sum_cycles - 1) - 1
