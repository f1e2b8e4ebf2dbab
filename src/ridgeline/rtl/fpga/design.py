"""A design as Verilog text, and what of the arithmetic in it an FPGA's tools are told."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.description import Machine
from ridgeline.rtl.verilog import TOP, Port, generate


@dataclass(frozen=True, slots=True)
class Design:
    """Verilog whose module `top` has the clock pin `clk` and these other pins.

    `ports` may leave the clock out. `name` is what reports call it.
    """

    name: str
    verilog: str
    top: str
    ports: tuple[Port, ...]

    @property
    def inputs(self) -> tuple[Port, ...]:
        """All inputs but the clock."""
        return tuple(p for p in self.ports if p.direction == "input" and p.name != "clk")

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(p for p in self.ports if p.direction == "output")


def machine_design(machine: Machine) -> Design:
    """The machine's accelerator. Raises RidgelineError for a machine that RTL does not cover."""
    text, ports = generate(machine)
    return Design(machine.name, text, TOP, tuple(ports))
