"""The tops as Verilog text with their pins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.machine.description import Machine
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.verilog import TOP, Port, generate, zeros_in_loops

AXI_TOP = "ridgeline_axi"
STREAM_TOP = "ridgeline_stream"


@dataclass(frozen=True, slots=True)
class Top:
    """A module with all below it: its name, text and pins."""

    name: str
    text: str
    ports: tuple[Port, ...]


def made(top: str, machine: Machine, bus: BusShape, *, counts: bool = True) -> Top:
    """The top "axi", "stream" or "core". Raises RidgelineError for what is not covered."""
    if top == "axi":
        return axi_verilog(machine, bus, counts=counts)
    if top == "stream":
        return stream_verilog(machine, counts=counts)
    text, ports = generate(machine)
    return Top(TOP, text, tuple(ports))


def axi_verilog(
    machine: Machine, bus: BusShape, *, counts: bool = True, name: str = AXI_TOP
) -> Top:
    """The AXI top of a machine. Raises RidgelineError for what is not covered."""
    from ridgeline.rtl.bus.axi_top import AxiTop, axi_pin_meanings

    top = AxiTop(machine, bus, counts=counts)
    return _top(top, top.pins, name, axi_pin_meanings())


def stream_verilog(machine: Machine, *, counts: bool = True, name: str = STREAM_TOP) -> Top:
    """The stream top of a machine. Raises RidgelineError for what is not covered."""
    from ridgeline.rtl.bus.stream_top import STREAM_PINS, StreamTop

    top = StreamTop(machine, counts=counts)
    return _top(top, top.pins, name, STREAM_PINS)


def _top(top: Any, pins: list[Any], name: str, meanings: dict[str, tuple[str, str]]) -> Top:
    """`meanings` has pins that come with the clock, of one bit, and those of `pins`."""
    from amaranth.back import verilog

    text = verilog.convert(top, name=name, ports=pins, emit_src=False)
    bits = {str(pin.name): len(pin) for pin in pins}
    ports = [Port(pin, way, bits.get(pin, 1), text) for pin, (way, text) in meanings.items()]
    return Top(name, zeros_in_loops(text), tuple(ports))
