"""Registers in a row. Data registers have no reset: control bits beside them say what is valid."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal

Bits = Any
"""A value of the hardware. Amaranth's own types are unions that no operator of it accepts."""


def register(m: Module, value: Bits, name: str, *, control: bool = False) -> Signal:
    """`value` one cycle later; `control` registers are cleared by reset."""
    out = Signal(value.shape(), name=name, reset_less=not control)
    m.d.sync += out.eq(value)
    return out


def delay(m: Module, value: Bits, cycles: int, name: str, *, control: bool = False) -> Bits:
    """`value` so many cycles later."""
    for stage in range(cycles):
        value = register(m, value, f"{name}_{stage + 1}", control=control)
    return value


def named(m: Module, value: Bits, name: str) -> Signal:
    """A wire for `value`, so that an expression used several times is built once."""
    out = Signal(value.shape(), name=name)
    m.d.comb += out.eq(value)
    return out
