"""A design through Yosys: how much of an FPGA it takes, and a netlist for place and route.

Multipliers that the part does not have are built of lookup tables, those whose operands are
narrowest for each DSP block that it frees first: products of 9 bits, the elements', of ECP5's carry
cells (`data/soft_multiplier.v`), others by Booth's recoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import ceil
from pathlib import Path

from ridgeline.rtl.fpga.design import Design
from ridgeline.rtl.fpga.harness import HARNESS, harness
from ridgeline.rtl.fpga.parts import ECP5, Part
from ridgeline.rtl.fpga.tools import YOSYS, ToolFailure, run_tool

RESOURCES = {
    "luts": "lookup tables",
    "flip_flops": "flip-flops",
    "multipliers": "DSP blocks",
    "block_rams": "block RAMs",
}
"""What is counted, and what messages call it."""

_COSTS: dict[str, dict[str, dict[str, float]]] = {
    # A 16 x 4 memory takes two slices and the lookup tables of a third to write (FPGA-DS-02012).
    "ecp5": {
        "luts": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
        "flip_flops": {"TRELLIS_FF": 1},
        "multipliers": {"MULT18X18D": 1},
        "block_rams": {"DP16KD": 1, "PDPW16KD": 1},
    },
    # Memories of lookup tables and shift registers by their primitives (UG953).
    "xc7": {
        "luts": {
            **{f"LUT{n}": 1 for n in range(1, 7)},
            "INV": 1,
            "RAM32X1D": 2,
            "RAM64X1D": 2,
            "RAM128X1D": 4,
            "RAM32M": 4,
            "RAM64M": 4,
            "SRL16E": 1,
            "SRLC32E": 1,
        },
        "flip_flops": {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1},
        "multipliers": {"DSP48E1": 1},
        "block_rams": {"RAMB36E1": 1, "RAMB18E1": 0.5},
    },
}

_NETLIST = "netlist.json"
_IN_LOGIC = "ridgeline_in_logic"
_SOFT = "soft_multiplier.v"
_DSP_BITS = {"ecp5": (18, 18), "xc7": (24, 17)}
"""Of a DSP block's operands without their sign."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a design takes of a part; half a 36-kbit block RAM counts as one."""

    luts: int
    flip_flops: int
    multipliers: int
    block_rams: int


@dataclass(frozen=True, slots=True)
class Synthesis:
    """What Yosys made of a design, the harness left out.

    `cells` are the family's own, by name. `multipliers_in_logic` were built of lookup tables.
    """

    resources: Resources
    cells: Mapping[str, int]
    multipliers_in_logic: int


def resources_of(cells: Mapping[str, int], family: str) -> Resources:
    """The part's resources behind counts of its cells."""
    sums = {
        name: ceil(sum(cells.get(cell, 0) * cost for cell, cost in costs.items()))
        for name, costs in _COSTS[family].items()
    }
    return Resources(**sums)


def shortage(resources: Resources, part: Part) -> dict[str, tuple[int, int]]:
    """Resources of which the part has too little: needed and there."""
    found = {name: (int(getattr(resources, name)), part.holds(name)) for name in RESOURCES}
    return {name: pair for name, pair in found.items() if pair[0] > pair[1]}


def synthesise_in(folder: Path, design: Design, part: Part) -> Synthesis:
    """Synthesise for the part in an empty folder, which then holds the netlist of ECP5 parts.

    Raises RidgelineError with Yosys' message where it fails.
    """
    (folder / "design.v").write_text(design.verilog, encoding="utf-8")
    try:
        moved = _elaborate(folder, design, part)
        cells = _map(folder, design, part)
    except ToolFailure as failure:
        raise failure.as_error(f"synthesis of {design.name}") from failure
    return Synthesis(resources_of(cells, part.family), cells, moved)


def netlist_of(folder: Path) -> Path:
    """Where `synthesise_in` leaves what place and route reads."""
    return folder / _NETLIST


def _elaborate(folder: Path, design: Design, part: Part) -> int:
    """Flatten the design, and mark the multipliers to build of logic; how many."""
    lines = (
        "read_verilog design.v",
        f"hierarchy -check -top {design.top}",
        "proc",
        "flatten",
        "opt_expr",
        "opt_clean",
        "wreduce",
        "opt_clean",
        "write_rtlil flat.il",
    )
    _yosys(folder, lines)
    flat = folder / "flat.il"
    text = flat.read_text(encoding="utf-8")
    marked, moved = _mark(text, part)
    flat.write_text(marked, encoding="utf-8")
    return moved


_MULTIPLIER = re.compile(r"^  cell \$mul \S+\n((?:    parameter .*\n)*)", re.MULTILINE)
_WIDTH = re.compile(r"parameter \\([AB])_WIDTH (\d+)")


def _mark(text: str, part: Part) -> tuple[str, int]:
    """RTLIL in which the multipliers to build of logic carry an attribute; how many."""
    found = list(_MULTIPLIER.finditer(text))
    widths = [{name: int(n) for name, n in _WIDTH.findall(cell[1])} for cell in found]
    chosen = multipliers_in_logic([(w["A"], w["B"]) for w in widths], part)
    parts: list[str] = []
    end = 0
    for place in sorted(chosen):
        start = found[place].start()
        parts += [text[end:start], f"  attribute \\{_IN_LOGIC} 1\n"]
        end = start
    return "".join([*parts, text[end:]]), len(chosen)


def multipliers_in_logic(widths: list[tuple[int, int]], part: Part) -> set[int]:
    """Which multipliers of these operand widths to build of lookup tables, so that the part's DSP
    blocks suffice for the others.
    """
    most = _DSP_BITS[part.family]
    blocks = [ceil(a / most[0]) * ceil(b / most[1]) for a, b in widths]
    short = sum(blocks) - part.multipliers
    by_cost = sorted(range(len(widths)), key=lambda i: (widths[i][0] * widths[i][1] / blocks[i], i))
    chosen: set[int] = set()
    for place in by_cost:
        if short <= 0:
            break
        chosen.add(place)
        short -= blocks[place]
    return chosen


def _map(folder: Path, design: Design, part: Part) -> dict[str, int]:
    """Map to the part's cells; those of the design without the harness."""
    soft: tuple[str, ...] = ("read_rtlil flat.il",)
    if part.family == ECP5:
        (folder / _SOFT).write_text(soft_multiplier(), encoding="utf-8")
        # Rows are a template of their own, met only when the products are there.
        soft += (f"techmap -map {_SOFT} a:{_IN_LOGIC}=1", f"techmap -map {_SOFT} t:ridgeline_rows")
    soft += (f"select a:{_IN_LOGIC}=1", "booth", "select -clear")
    if part.family == ECP5:
        (folder / "harness.v").write_text(harness(design).verilog, encoding="utf-8")
        target = (
            "read_verilog harness.v",
            # Not flattened once more, so that the design's cells are counted without the harness'.
            f"synth_ecp5 -noflatten -top {HARNESS} -json {_NETLIST}",
        )
    else:
        target = (f"synth_xilinx -family xc7 -noiopad -noclkbuf -top {design.top}",)
    _yosys(folder, (*soft, *target, "tee -o stat.json stat -json"))
    return cells_of((folder / "stat.json").read_text(encoding="utf-8"), design.top)


def cells_of(stat: str, module: str) -> dict[str, int]:
    """The cells of a module in what Yosys' `stat -json` prints, without its notes on scopes."""
    cells = json.loads(stat)["modules"][f"\\{module}"]["num_cells_by_type"]
    return {name: int(count) for name, count in cells.items() if not name.startswith("$")}


def soft_multiplier() -> str:
    """The Verilog that Yosys maps a product to which gets no DSP block."""
    here = resources.files("ridgeline.rtl.fpga")
    return here.joinpath(f"data/{_SOFT}").read_text(encoding="utf-8")


def _yosys(folder: Path, lines: tuple[str, ...]) -> None:
    (folder / "script.ys").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_tool(YOSYS, ["-q", "-s", "script.ys"], folder)
