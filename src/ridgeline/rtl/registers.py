"""Registers in a row. Data registers have no reset: control bits beside them say what is valid."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value


def register(m: Module, value: Value, name: str, *, control: bool = False) -> Signal:
    """`value` one cycle later; `control` registers are cleared by reset."""
    out = Signal(value.shape(), name=name, reset_less=not control)
    m.d.sync += out.eq(value)
    return out


def delay(m: Module, value: Value, cycles: int, name: str, *, control: bool = False) -> Value:
    """`value` so many cycles later."""
    for stage in range(cycles):
        value = register(m, value, f"{name}_{stage + 1}", control=control)
    return value


def named(m: Module, value: Value, name: str) -> Signal:
    """A wire for `value`, so that an expression used several times is built once."""
    out = Signal(value.shape(), name=name)
    m.d.comb += out.eq(value)
    return out
