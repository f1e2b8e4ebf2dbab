"""A netlist through nextpnr: the sites that it takes, the clock that it reaches, what limits it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.rtl.fpga.parts import Part
from ridgeline.rtl.fpga.synthesis import netlist_of
from ridgeline.rtl.fpga.tools import NEXTPNR, ToolFailure, run_tool

_USED = {
    "luts": ("TRELLIS_COMB",),
    "flip_flops": ("TRELLIS_FF",),
    "multipliers": ("MULT18X18D",),
    "block_rams": ("DP16KD",),
}
"""nextpnr's names for the sites of each resource."""

_PACKAGE = "CABGA381"
"""One that every size comes in; three of its pins are used."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The slowest way from register to register: its ends and what it takes, in seconds."""

    start: str
    end: str
    logic_seconds: float
    routing_seconds: float


@dataclass(frozen=True, slots=True)
class Placement:
    """What place and route reached.

    `most_hz` is the highest clock at the part's speed grade, slowest silicon, 85 °C, by the delays
    of Project Trellis. `used` counts sites of the part, the harness included.
    """

    most_hz: float
    used: Mapping[str, int]
    critical: CriticalPath
    seed: int


def place_in(folder: Path, name: str, part: Part, target_hz: float, seed: int) -> Placement:
    """Place and route the netlist that `synthesise_in` left in this folder.

    Raises RidgelineError with nextpnr's message where it fails.
    """
    arguments = [
        part.nextpnr,
        *("--package", _PACKAGE),
        *("--speed", str(part.speed)),
        *("--json", netlist_of(folder).name),
        *("--freq", f"{target_hz / 1e6:g}"),
        *("--seed", str(seed)),
        *("--report", "report.json"),
        *("--timing-allow-fail", "--quiet"),
    ]
    try:
        run_tool(NEXTPNR, arguments, folder)
    except ToolFailure as failure:
        raise failure.as_error(f"place and route of {name} on {part.full_name}") from failure
    return read_report((folder / "report.json").read_text(encoding="utf-8"), seed)


def read_report(text: str, seed: int) -> Placement:
    """What nextpnr's report says. The design has one clock."""
    report = json.loads(text)
    (clock,) = report["fmax"].values()
    used = report["utilization"]
    return Placement(
        most_hz=clock["achieved"] * 1e6,
        used={
            name: sum(used[site]["used"] for site in sites if site in used)
            for name, sites in _USED.items()
        },
        critical=_critical(report["critical_paths"]),
        seed=seed,
    )


def _critical(paths: list[dict[str, Any]]) -> CriticalPath:
    """The path from a register to a register of the one clock; others lead to pins."""
    (path,) = [p["path"] for p in paths if p["from"] == p["to"]]
    delays = {"logic": 0.0, "routing": 0.0}
    for step in path:
        kind = "routing" if step["type"] == "routing" else "logic"
        delays[kind] += float(step["delay"]) * 1e-9
    return CriticalPath(
        start=str(path[0]["from"]["cell"]),
        end=str(path[-1]["to"]["cell"]),
        logic_seconds=delays["logic"],
        routing_seconds=delays["routing"],
    )
