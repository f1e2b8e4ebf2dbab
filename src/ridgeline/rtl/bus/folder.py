"""All that someone needs to put a machine on a board: Verilog, registers, machine file, pins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ridgeline.machine.description import Machine
from ridgeline.machine.toml_text import machine_to_toml
from ridgeline.rtl.bus.register_map import as_c_header, as_json, as_markdown, register_map
from ridgeline.rtl.bus.shape import BusShape
from ridgeline.rtl.bus.verilog import Top, made

TOPS = ("axi", "stream", "core")
"""What may be generated, in the order in which it is shown."""

MANIFEST = "ridgeline.json"
"""Names the files of a folder, and that it is one of ours."""

GENERATOR = "ridgeline rtl"

_WHAT = {
    "axi": "AXI4 master for memory, AXI4-Lite slave for registers, a program fetched from memory",
    "stream": "for small FPGAs: a host by bytes, memory as streams of requests and answers",
    "core": "the bare core: a stream of instructions, requests to memory and answers",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """Text by file name, and the tops among them."""

    files: dict[str, str]
    tops: tuple[Top, ...]


def folder(machine: Machine, bus: BusShape, tops: Sequence[str], *, counts: bool) -> Folder:
    """The files for `tops`. Raises RidgelineError for a machine that is not covered."""
    generated = tuple(made(name, machine, bus, counts=counts) for name in tops)
    files = {f"{top.name}.v": top.text for top in generated}
    if any(name != "core" for name in tops):
        registers = register_map(counts=counts)
        files |= {
            "registers.md": f"# Registers of machine {machine.name}\n\n{as_markdown(registers)}",
            "registers.json": json.dumps(as_json(registers), indent=2) + "\n",
            "ridgeline_registers.h": as_c_header(registers),
        }
    files["machine.toml"] = machine_to_toml(machine)
    files["README.md"] = _readme(machine, tops, generated, files)
    manifest = {
        "generator": GENERATOR,
        "machine": machine.name,
        "bus": asdict(bus),
        "counters": counts,
        "tops": {top.name: [asdict(port) for port in top.ports] for top in generated},
        "files": sorted([*files, MANIFEST]),
    }
    files[MANIFEST] = json.dumps(manifest, indent=2) + "\n"
    return Folder(files, generated)


def _readme(
    machine: Machine, names: Sequence[str], tops: Sequence[Top], files: dict[str, str]
) -> str:
    """What each file is, and the pins of each top."""
    lines = [f"# {machine.name} in Verilog", "", f"{machine.description}".rstrip("."), ""]
    lines += ["Written by `ridgeline rtl`; see docs/board.md of Ridgeline.", ""]
    about = {
        "registers.md": "the register map",
        "registers.json": "the same as data",
        "ridgeline_registers.h": "the same for C",
        "machine.toml": "the machine file: compile programs with `--machine machine.toml`",
        MANIFEST: "these files and pins as data",
    }
    about |= {f"{top.name}.v": _WHAT[name] for name, top in zip(names, tops, strict=True)}
    lines += ["| file | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {about[name]} |" for name in [*files, MANIFEST]]
    for top in tops:
        lines += ["", f"## Pins of `{top.name}`", "", "| pin | bits | name | meaning |"]
        lines.append("|---|---|---|---|")
        lines += [f"| {p.direction} | {p.bits} | `{p.name}` | {p.meaning} |" for p in top.ports]
    return "\n".join(lines) + "\n"
