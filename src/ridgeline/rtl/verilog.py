"""The accelerator as Verilog text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ridgeline.machine.description import Machine

TOP = "ridgeline_accelerator"

_ZEROED = re.compile(r"  initial begin\n((?:    \w+\[\d+\] = \d+'[hd]0+;\n)+)  end\n")
_FIRST = re.compile(r"    (\w+)\[0\] = (\d+)'")


@dataclass(frozen=True, slots=True)
class Port:
    """A pin of the top module: its direction, "input" or "output", width and meaning."""

    name: str
    direction: str
    bits: int
    meaning: str


def emit(machine: Machine) -> str:
    """One Verilog file whose top module is TOP. Raises RidgelineError for what is not covered."""
    return generate(machine)[0]


def generate(machine: Machine) -> tuple[str, list[Port]]:
    """The Verilog of `emit`, and the pins of its module."""
    from amaranth.back import verilog

    from ridgeline.rtl.accelerator import MEANINGS, Accelerator
    from ridgeline.rtl.support import require_machine

    require_machine(machine)
    accelerator = Accelerator(machine)
    text = verilog.convert(accelerator, name=TOP, ports=accelerator.pins, emit_src=False)
    ports = [Port("clk", "input", 1, "clock"), Port("rst", "input", 1, "clears control, no memory")]
    for pin in accelerator.pins:
        name = str(pin.name)
        direction, meaning = MEANINGS["count" if name.startswith("count_") else name]
        ports.append(Port(name, direction, len(pin), meaning))
    return zeros_in_loops(text), ports


def zeros_in_loops(verilog: str) -> str:
    """The same text with memories set to zero by loops."""
    return _ZEROED.sub(_zero_in_a_loop, verilog)


def _zero_in_a_loop(match: re.Match[str]) -> str:
    """A memory's zeros as a loop: a line for every word would be most of the text."""
    lines = match.group(1)
    first = _FIRST.match(lines)
    if first is None:
        return match.group(0)
    name, width = first.groups()
    place = f"{name}_place"
    return (
        f"  integer {place};\n  initial begin\n"
        f"    for ({place} = 0; {place} < {lines.count(chr(10))}; {place} = {place} + 1)\n"
        f"      {name}[{place}] = {width}'d0;\n  end\n"
    )
