"""Registers in a row. Data registers have no reset: control bits beside them say what is valid."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

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


def choose(options: list[tuple[Bits, Bits]], otherwise: Bits) -> Bits:
    """The value of the first option whose condition holds."""
    for condition, value in reversed(options):
        otherwise = Mux(condition, value, otherwise)
    return otherwise


def travel(m: Module, fields: dict[str, Bits], cycles: int, name: str) -> dict[str, Bits]:
    """The same fields so many cycles later, side by side in one register a cycle."""
    packed = delay(m, Cat(*fields.values()), cycles, name)
    found: dict[str, Bits] = {}
    start = 0
    for key, value in fields.items():
        part = packed[start : start + len(value)]
        found[key] = part.as_signed() if value.shape().signed else part
        start += len(value)
    return found


def choose_fields(
    m: Module, which: Bits, one: dict[str, Bits], other: dict[str, Bits], name: str
) -> dict[str, Bits]:
    """The fields of `one` where `which` is set, else those of `other`, of the same widths."""
    found: dict[str, Bits] = {}
    for key, value in one.items():
        found[key] = out = Signal(value.shape(), name=f"{name}_{key}")
        m.d.comb += out.eq(Mux(which, value, other[key]))
    return found
