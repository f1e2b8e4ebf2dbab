"""One element of the array, of any format: registers around a multiplication and an addition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ridgeline.rtl.mac.format import MacFormat
from ridgeline.rtl.registers import Bits, delay

TakeOver = Callable[[Module, Bits, Signal, Signal], None]


@dataclass(frozen=True, slots=True)
class Passing:
    """What comes from the left and goes on to the right, a cycle later."""

    activation: Bits
    swap: Bits
    enable: Bits


def take_over(m: Module, swap: Bits, held: Signal, shadow: Signal) -> None:
    """The swap wave passes: the shadow weight becomes the weight."""
    with m.If(swap):
        m.d.sync += held.eq(shadow)


def element(
    m: Module,
    mac: MacFormat,
    place: str,
    passing: Passing,
    weight: Bits,
    total: Bits,
    takes_over: TakeOver = take_over,
) -> tuple[Passing, Bits]:
    """An element: what it passes to the right, and its sum.

    `weight` is what passes down the column for the shadow register. `total`, the sum from above, is
    added `mac.product_cycles` after the activation came.
    """

    def data(what: str, bits: int) -> Signal:
        return Signal(bits, name=f"{what}_{place}", reset_less=True)

    held, shadow = data("weight", mac.weight_bits), data("shadow", mac.weight_bits)
    passed = data("activation", mac.activation_bits)
    swap, enable = Signal(name=f"swap_{place}"), Signal(name=f"enable_{place}")
    m.d.sync += [
        passed.eq(passing.activation),
        swap.eq(passing.swap),
        enable.eq(passing.enable),
    ]
    with m.If(passing.enable):
        m.d.sync += shadow.eq(weight)
    takes_over(m, passing.swap, held, shadow)
    product = mac.multiply(m, passing.activation, held, f"product_{place}")
    return Passing(passed, swap, enable), mac.add(m, total, product, f"sum_{place}")


class MacElement(wiring.Component):
    """An element with pins of its own: what synthesis counts.

    In a grid `total_in` comes from the element above, in this very cycle of the addition.
    """

    def __init__(self, mac: MacFormat, rows: int) -> None:
        self.mac = mac
        bits = mac.sum_bits(rows)
        super().__init__(
            {
                "activation": In(mac.activation_bits),
                "swap": In(1),
                "enable": In(1),
                "weight": In(mac.weight_bits),
                "total_in": In(bits),
                "activation_out": Out(mac.activation_bits),
                "swap_out": Out(1),
                "enable_out": Out(1),
                "total_out": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        passing = Passing(self.activation, self.swap, self.enable)
        passed, total = element(m, self.mac, "alone", passing, self.weight, self.total_in)
        m.d.comb += [
            self.activation_out.eq(passed.activation),
            self.swap_out.eq(passed.swap),
            self.enable_out.eq(passed.enable),
            self.total_out.eq(total),
        ]
        return m


class MultiplyAdd(wiring.Component):
    """The arithmetic of a format without its element: what proofs are made of.

    `total` + `activation` * `weight`, all three of the same cycle, product_cycles + sum_cycles
    later, with sums as wide as a column of `rows` makes them. With `restart` in a format that adds
    in one cycle, `total` begins; without, the sum goes on from the one made a cycle before.
    """

    def __init__(self, mac: MacFormat, rows: int) -> None:
        self.mac = mac
        bits = mac.sum_bits(rows)
        super().__init__(
            {
                "activation": In(mac.activation_bits),
                "weight": In(mac.weight_bits),
                "total": In(bits),
                "restart": In(1),
                "result": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mac = self.mac
        product = mac.multiply(m, self.activation, self.weight, "product")
        total = delay(m, self.total, mac.product_cycles, "total")
        goes_on = Signal(self.total.shape())
        if mac.sum_cycles == 1:
            restart = delay(m, self.restart, mac.product_cycles, "restart")
            with m.If(restart):
                m.d.comb += goes_on.eq(total)
            with m.Else():
                m.d.comb += goes_on.eq(self.result)
        else:
            m.d.comb += goes_on.eq(total)
        m.d.comb += self.result.eq(mac.add(m, goes_on, product, "sum"))
        return m
