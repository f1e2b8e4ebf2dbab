"""The tops as Verilog text with their pins."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.description import Machine
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.verilog import TOP, Port, generate, zeros_in_loops

AXI_TOP = "ridgeline_axi"


@dataclass(frozen=True, slots=True)
class Top:
    """A module with all below it: its name, text and pins."""

    name: str
    text: str
    ports: tuple[Port, ...]


def made(top: str, machine: Machine, bus: BusShape, *, counts: bool = True) -> Top:
    """The top called "axi" or "core". Raises RidgelineError for a machine that is not covered."""
    if top == "axi":
        return axi_verilog(machine, bus, counts=counts)
    text, ports = generate(machine)
    return Top(TOP, text, tuple(ports))


def axi_verilog(
    machine: Machine, bus: BusShape, *, counts: bool = True, name: str = AXI_TOP
) -> Top:
    """The AXI top of a machine. Raises RidgelineError for what is not covered."""
    from amaranth.back import verilog

    from ridgeline.rtl.bus.axi_top import AxiTop, axi_pin_meanings

    top = AxiTop(machine, bus, counts=counts)
    text = verilog.convert(top, name=name, ports=top.pins, emit_src=False)
    meanings = axi_pin_meanings()
    ports = [Port(str(pin.name), meanings[str(pin.name)][0], len(pin), meanings[str(pin.name)][1])
             for pin in top.pins]  # fmt: skip
    return Top(name, zeros_in_loops(text), tuple(ports))
