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
    """Both tables, as they stand in the page."""
    made = reports()
    placed = [r for r in made if r["placement"]]
    return "\n".join([*_placed(placed), "", *_rates(placed), ""])


def _placed(made: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| machine | part | clock | lookup tables | flip-flops | DSP blocks | block RAMs"
        " | multipliers in logic | slowest path |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in made:
        needs, placed = one["synthesis"]["resources"], one["placement"]
        path = placed["critical"]
        share = 100 * placed["used"]["luts"] / part(one["part"]).luts
        lines.append(
            f"| {one['machine']}, {one['rows']} × {one['cols']} | {one['part']}"
            f" | **{placed['most_hz'] / 1e6:.1f} MHz** | {needs['luts']:,} ({share:.0f} % placed)"
            f" | {needs['flip_flops']:,} | {needs['multipliers']} | {needs['block_rams']}"
            f" | {one['synthesis']['multipliers_in_logic']}"
            f" | {path['logic_seconds'] * 1e9:.1f} ns logic, {path['routing_seconds'] * 1e9:.1f} ns"
            " routing |"
        )
    lines += ["", "| machine | program | cycles | frames a second | power, estimated |"]
    lines.append("|---|---|---|---|---|")
    for one in made:
        run = one["frames"]
        if run is not None:
            watts = run["static_watts"] + run["dynamic_watts"]
            lines.append(
                f"| {one['machine']} | {run['program']} | {run['cycles']:,}"
                f" | {run['frames_per_s']:,.0f} | {watts:.2f} W, {run['static_watts']:.2f} of it"
                " static |"
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
        name = f"Ridgeline {one['machine']}, {one['rows']} × {one['cols']} int8"
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
    return f"| {name} | {where} | {mhz:g} MHz | {gops:.1f} GOPS | {' | '.join(cells)} |"


def text(page: str) -> str:
    """The page with its tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + section() + "\n" + END + after


if __name__ == "__main__":
    page = Path(__file__).parent / "fpga.md"
    page.write_text(text(page.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
