"""Registers around a design, so that neither pins nor the way to them is in its timing.

Every input bit comes from its own flip-flop in a chain that one pin shifts along, so that nothing
is constant; every output bit goes into one, and a tree of exclusive ors with a register behind
each of its gates leads them all to one pin, so that nothing is unused.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.rtl.fpga.design import Design
from ridgeline.rtl.verilog import Port

HARNESS = "ridgeline_harness"
FAN_IN = 4
"""Inputs of a gate of the tree: those of one lookup table."""


@dataclass(frozen=True, slots=True)
class Harness:
    """The Verilog of module HARNESS around a design, and how many flip-flops it adds."""

    verilog: str
    flip_flops: int


def harness(design: Design) -> Harness:
    """A top module with pins clk, serial_in and serial_out. The design has an input and an output.

    Raises ValueError for a design without inputs or outputs, whose logic would be optimised away.
    """
    into = sum(port.bits for port in design.inputs)
    out = sum(port.bits for port in design.outputs)
    if not into or not out:
        raise ValueError(f"{design.top} has no inputs or no outputs besides its clock")
    tree, tree_bits = _tree(out)
    shifted = "serial_in" if into == 1 else f"{{driven[{into - 2}:0], serial_in}}"
    pins = [".clk(clk)", *_pins(design.inputs, "driven"), *_pins(design.outputs, "seen")]
    lines = [
        f"module {HARNESS}(input clk, input serial_in, output serial_out);",
        f"  reg [{into - 1}:0] driven;",
        f"  always @(posedge clk) driven <= {shifted};",
        f"  wire [{out - 1}:0] seen;",
        f"  {design.top} design (",
        ",\n".join(f"    {pin}" for pin in pins),
        "  );",
        *tree,
        "endmodule",
    ]
    return Harness("\n".join(lines) + "\n", into + out + tree_bits)


def _pins(ports: tuple[Port, ...], wire: str) -> list[str]:
    """Connections of ports to consecutive bits of a wire."""
    places: list[str] = []
    low = 0
    for port in ports:
        places.append(f".{port.name}({wire}[{low + port.bits - 1}:{low}])")
        low += port.bits
    return places


def _tree(bits: int) -> tuple[list[str], int]:
    """Lines that fold `seen` into serial_out, and the flip-flops behind its gates."""
    lines = [f"  reg [{bits - 1}:0] level_0;", "  always @(posedge clk) level_0 <= seen;"]
    level, total = 0, 0
    while bits > 1:
        fewer = -(-bits // FAN_IN)
        lines.append(f"  reg [{fewer - 1}:0] level_{level + 1};")
        lines.append("  always @(posedge clk) begin")
        for gate in range(fewer):
            high, low = min(FAN_IN * gate + FAN_IN, bits) - 1, FAN_IN * gate
            lines.append(f"    level_{level + 1}[{gate}] <= ^level_{level}[{high}:{low}];")
        lines.append("  end")
        level, bits = level + 1, fewer
        total += fewer
    lines.append(f"  assign serial_out = level_{level};")
    return lines, total
