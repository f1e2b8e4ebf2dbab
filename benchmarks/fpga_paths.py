"""Where a machine's slowest paths are on ECP5, from the netlist: minutes before place and route.

    python benchmarks/fpga_paths.py tiny-8 [--set KEY=VALUE ...] [--above NS] [--show START->END]

Cells take what Project Trellis says of speed grade 6; a wire takes 0.75 ns and 0.22 ns for every
doubling of its fan-out, about what nextpnr reached on the 8 × 8 core. So paths are ranked rather
than timed. They are grouped by the registers at their ends, numbers left out.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.machine.loader import load_machine
from ridgeline.rtl.fpga.design import machine_design
from ridgeline.rtl.fpga.parts import part
from ridgeline.rtl.fpga.synthesis import netlist_of, synthesise_in

LUT_NS, MUX_NS, INTO_CARRY_NS, ALONG_CARRY_NS, OUT_OF_CARRY_NS = 0.24, 0.17, 0.45, 0.03, 0.40
MULTIPLIER_NS, BLOCK_RAM_NS, REGISTER_NS, SETUP_NS = 3.93, 5.83, 0.52, 0.30
WIRE_NS, WIRE_NS_PER_DOUBLING = 0.75, 0.22

Bit = int
Arc = tuple[Bit, float, bool]
"""From which bit, how long, and whether over a wire rather than within a slice."""


@dataclass(slots=True)
class Netlist:
    """What leads to each bit, where paths begin, and where they end, with the setup time there."""

    arcs: dict[Bit, list[Arc]] = field(default_factory=dict[Bit, list[Arc]])
    starts: dict[Bit, float] = field(default_factory=dict[Bit, float])
    ends: list[tuple[Bit, float, str]] = field(default_factory=list[tuple[Bit, float, str]])
    fan_out: Counter[Bit] = field(default_factory=Counter[Bit])
    names: dict[Bit, str] = field(default_factory=dict[Bit, str])

    def wire(self, bit: Bit) -> float:
        return WIRE_NS + WIRE_NS_PER_DOUBLING * math.log2(max(self.fan_out[bit], 1))


def read(module: dict[str, Any]) -> Netlist:
    """A module of Yosys' JSON, mapped to ECP5's cells."""
    found = Netlist()
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            if len(name) < len(found.names.get(bit, name + " ")):
                found.names[bit] = name
    for name, cell in module["cells"].items():
        ports = {p: [b for b in bits if isinstance(b, int)]
                 for p, bits in cell["connections"].items()}  # fmt: skip
        for port, bits in ports.items():
            if cell["port_directions"].get(port) == "input":
                found.fan_out.update(bits)
        _add(found, name, cell["type"], ports, cell["port_directions"])
    for name, port in module["ports"].items():
        bits = [b for b in port["bits"] if isinstance(b, int)]
        if port["direction"] == "input":
            found.starts.update(dict.fromkeys(bits, REGISTER_NS))
        else:
            found.ends += [(bit, SETUP_NS, f"pin {name}") for bit in bits]
    return found


def _add(
    net: Netlist, name: str, kind: str, ports: dict[str, list[Bit]], sides: dict[str, str]
) -> None:
    def over(names: str, ns: float) -> list[Arc]:
        return [(bit, ns, True) for port in names.split() for bit in ports.get(port, [])]

    def within(names: str, ns: float) -> list[Arc]:
        return [(bit, ns, False) for port in names.split() for bit in ports.get(port, [])]

    def drive(port: str, arcs: list[Arc]) -> None:
        for bit in ports.get(port, []):
            net.arcs[bit] = arcs

    if kind == "LUT4":
        drive("Z", over("A B C D", LUT_NS))
    elif kind == "PFUMX":
        drive("Z", within("ALUT BLUT", MUX_NS) + over("C0", LUT_NS))
    elif kind == "L6MUX21":
        drive("Z", within("D0 D1", MUX_NS) + over("SD", LUT_NS))
    elif kind == "CCU2C":
        low, high = "A0 B0 C0 D0", "A1 B1 C1 D1"
        carry = within("CIN", OUT_OF_CARRY_NS)
        drive("S0", over(low, LUT_NS) + carry)
        drive("S1", over(high, LUT_NS) + over(low, INTO_CARRY_NS + LUT_NS) + carry)
        drive("COUT", over(f"{low} {high}", INTO_CARRY_NS) + within("CIN", ALONG_CARRY_NS))
    elif kind == "TRELLIS_FF":
        net.starts.update(dict.fromkeys(ports["Q"], REGISTER_NS))
        net.ends += [
            (b, SETUP_NS, name) for p in ("DI", "M", "CE", "LSR") for b in ports.get(p, [])
        ]
    elif kind == "MULT18X18D":
        operands = over(" ".join(p for p in ports if re.fullmatch(r"[AB]\d+", p)), MULTIPLIER_NS)
        for port in ports:
            if re.fullmatch(r"P\d+", port):
                drive(port, operands)
    elif kind == "TRELLIS_DPR16X4":
        drive("DO", over("RAD", SETUP_NS))
        net.ends += [(bit, SETUP_NS, name) for p in ("DI", "WAD", "WRE") for bit in ports[p]]
    else:
        for port, bits in ports.items():
            if sides.get(port) == "output":
                net.starts.update(dict.fromkeys(bits, BLOCK_RAM_NS))
            else:
                net.ends += [(bit, SETUP_NS, name) for bit in bits]


@dataclass(slots=True)
class Group:
    """Paths between the same registers, numbers left out: the slowest, and how many are slow."""

    ns: float
    count: int
    path: list[Bit]


def slow_paths(net: Netlist, above_ns: float) -> dict[tuple[str, str], Group]:
    """Groups of paths that take longer than that, by where they start and end."""
    arrival: dict[Bit, float] = dict(net.starts)
    before: dict[Bit, Bit] = {}

    def at(bit: Bit) -> float:
        if bit not in arrival:
            arrival[bit] = 0.0
            for source, ns, by_wire in net.arcs.get(bit, []):
                there = at(source) + ns + (net.wire(source) if by_wire else 0.0)
                if there > arrival[bit]:
                    arrival[bit], before[bit] = there, source
        return arrival[bit]

    groups: dict[tuple[str, str], Group] = {}
    for bit, setup, cell in net.ends:
        ns = at(bit) + net.wire(bit) + setup
        if ns < above_ns:
            continue
        path = [bit]
        while path[-1] in before:
            path.append(before[path[-1]])
        key = (_plain(net.names[path[-1]]), _plain(cell))
        group = groups.setdefault(key, Group(ns, 0, path))
        group.count += 1
        if ns > group.ns:
            group.ns, group.path = ns, path
    return groups


def _plain(name: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"_TRELLIS_FF_Q.*|\$\d+|\.\d+\.\d+.*", "", name))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("machine")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--above", type=float, default=10.0, metavar="NS")
    parser.add_argument("--show", default="", metavar="START->END")
    chosen = parser.parse_args()
    design = machine_design(load_machine(chosen.machine, chosen.set))
    with tempfile.TemporaryDirectory() as folder:
        made = synthesise_in(Path(folder), design, part("LFE5U-85F"))
        netlist = json.loads(netlist_of(Path(folder)).read_text(encoding="utf-8"))
    print(made.resources)
    sys.setrecursionlimit(1_000_000)
    net = read(netlist["modules"][design.top])
    groups = sorted(slow_paths(net, chosen.above).items(), key=lambda one: -one[1].ns)
    for (start, end), group in groups[:40]:
        print(f"{group.ns:6.2f} ns  {group.count:5,} paths  {start} -> {end}")
        if chosen.show and chosen.show in f"{start}->{end}":
            for bit in reversed(group.path):
                print(f"           fan-out {net.fan_out[bit]:4}  {net.names[bit]}")


if __name__ == "__main__":
    main()
