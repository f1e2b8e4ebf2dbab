"""The tables of docs/fpga.md, from the reports of docs/fpga and what others published.

A report is what `ridgeline fpga MACHINE --program P.rlp --json` printed.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ridgeline.rtl.fpga.parts import part

FOLDER = Path(__file__).parent / "fpga"
BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->\n"


def reports() -> list[dict[str, Any]]:
    """The committed reports, by name."""
    found = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(FOLDER.glob("*.json"))]
    return sorted(found, key=lambda r: (r["rows"], r["machine"], r["part"]))


def section() -> str:
    """The tables, as they stand in the page."""
    made = reports()
    placed = [r for r in made if r["placement"]]
    return "\n".join([*_taken(made), "", *_reached(placed), "", *_rates(placed), ""])


def _name(one: dict[str, Any]) -> str:
    """The machine, its array, and whether settings changed it."""
    changed = " ¹" if one["settings"] else ""
    return f"{one['machine']}, {one['rows']} × {one['cols']}{changed}"


def _taken(made: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| machine | part | lookup tables | flip-flops | DSP blocks | block RAMs"
        " | multipliers in logic |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in made:
        needs, there = one["synthesis"]["resources"], part(one["part"])
        cells = [
            f"{needs[name]:,} ({100 * needs[name] / there.holds(name):.0f} %)"
            for name in ("luts", "flip_flops", "multipliers", "block_rams")
        ]
        moved = one["synthesis"]["multipliers_in_logic"]
        lines.append(f"| {_name(one)} | {there.full_name} | {' | '.join(cells)} | {moved} |")
    told = [f"- {_name(r)}: `{' '.join(r['settings'])}`" for r in made if r["settings"]]
    return [*lines, "", "¹ With settings:", "", *told] if told else lines


def _reached(made: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| machine | part | clock | slowest path | program | frames a second | power, estimated |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in made:
        placed, run = one["placement"], one["frames"]
        path = placed["critical"]
        told = ["–", "–", "–"]
        if run is not None:
            watts = run["static_watts"] + run["dynamic_watts"]
            told = [
                f"{run['program']}, {run['cycles']:,} cycles",
                f"{run['frames_per_s']:,.0f}",
                f"{watts:.2f} W, {run['static_watts']:.2f} of it static",
            ]
        lines.append(
            f"| {_name(one)} | {one['part']} | **{placed['most_hz'] / 1e6:.1f} MHz**"
            f" | {path['logic_seconds'] * 1e9:.1f} ns logic, {path['routing_seconds'] * 1e9:.1f} ns"
            f" routing | {' | '.join(told)} |"
        )
    return lines


def _rates(made: list[dict[str, Any]]) -> list[str]:
    """Peak rates beside what they take, ours and others'."""
    lines = [
        "| design | part | clock | peak | DSP blocks | lookup tables | GOPS a DSP block"
        " | GOPS per 1,000 lookup tables |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in made:
        needs = one["synthesis"]["resources"]
        name = f"Ridgeline {_name(one)}, int8"
        mhz, gops = one["placement"]["most_hz"] / 1e6, one["operations_per_s"] / 1e9
        lines.append(_rate(name, one["part"], mhz, gops, needs["multipliers"], needs["luts"]))
    sources: list[str] = []
    for name, peer in peers().items():
        gops = 2 * peer["rows"] * peer["cols"] * peer["clock_mhz"] / 1e3
        shown = name.replace(" x ", " × ")
        lines.append(
            _rate(
                shown,
                peer["part"],
                peer["clock_mhz"],
                gops,
                peer.get("multipliers"),
                peer.get("luts"),
            )
        )
        sources.append(f"- {shown}: {peer['source']}.")
    return [*lines, "", "Sources:", "", *sources]


def peers() -> dict[str, dict[str, Any]]:
    """What others published."""
    return tomllib.loads((FOLDER / "peers.toml").read_text(encoding="utf-8"))


def _rate(
    name: str, where: str, mhz: float, gops: float, multipliers: int | None, luts: int | None
) -> str:
    cells = [
        f"{multipliers:,}" if multipliers else "–",
        f"{luts:,}" if luts else "–",
        f"{gops / multipliers:.3f}" if multipliers else "–",
        f"{1e3 * gops / luts:.2f}" if luts else "–",
    ]
    return f"| {name} | {where} | {round(mhz, 1):g} MHz | {gops:.1f} GOPS | {' | '.join(cells)} |"


def text(page: str) -> str:
    """The page with its tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + section() + "\n" + END + after


if __name__ == "__main__":
    page = Path(__file__).parent / "fpga.md"
    page.write_text(text(page.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
