"""`ridgeline fpga`: a machine on an FPGA, its resources, clock, frames a second and power."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ridgeline import api
from ridgeline.cli.outputs import say
from ridgeline.cli.show import stage, terminal_width
from ridgeline.machine.check import check
from ridgeline.machine.program import Program, load_program
from ridgeline.render.plain import visible, wrapped
from ridgeline.render.table import aligned
from ridgeline.rtl.fpga.build import Build, place, synthesise
from ridgeline.rtl.fpga.design import machine_design
from ridgeline.rtl.fpga.parts import Part, part
from ridgeline.rtl.fpga.placement import Placement
from ridgeline.rtl.fpga.report import (
    POWER_BASIS,
    FpgaReport,
    Frames,
    report,
    report_to_dict,
    require_same_machine,
)
from ridgeline.rtl.fpga.synthesis import RESOURCES, shortage
from ridgeline.rtl.fpga.tools import YOSYS, require_fpga_tools
from ridgeline.rtl.support import require_machine


@dataclass(frozen=True, slots=True)
class FpgaOptions:
    """What the command line said."""

    machine: str
    part: str
    program: Path | None
    settings: tuple[str, ...]
    clock_mhz: float
    seed: int
    count: bool
    json: bool


def show_fpga(options: FpgaOptions) -> None:
    """Build and say what came out."""
    target = part(options.part)
    machine = api.load_machine(options.machine, options.settings)
    require_machine(machine)
    program = _program(options.program)
    if program is not None:
        require_same_machine(machine, program)
    counted = options.count or not target.is_placed
    require_fpga_tools(*(("amaranth", YOSYS) if counted else ()))
    with ExitStack() as shown:

        def progress(what: str) -> None:
            shown.close()
            shown.enter_context(stage(f"{what} (minutes)"))

        progress("generating")
        design = machine_design(machine)
        if counted:
            build = synthesise(design, target, progress)
        else:
            build = place(
                design,
                target,
                target_hz=options.clock_mhz * 1e6,
                seed=options.seed,
                progress=progress,
            )
    made = report(machine, target, build, program, options.settings)
    if options.json:
        say(json.dumps(report_to_dict(made), indent=2))
        return
    for line in _text(made, options.clock_mhz):
        say(line)


def _program(path: Path | None) -> Program | None:
    if path is None:
        return None
    program = load_program(path)
    check(program)
    return program


def _text(made: FpgaReport, asked_mhz: float) -> list[str]:
    width = terminal_width()
    array = made.machine.array
    lines = [f"{visible(made.machine.name)} ({array.rows}x{array.cols}) on {made.part.full_name}"]
    lines += _resources(made.build, made.part)
    moved = made.build.synthesis.multipliers_in_logic
    if moved:
        lines.append(f"multipliers built of lookup tables: {moved}")
    placed = made.build.placement
    if placed is None:
        lines += wrapped(f"{made.part.name}: {_why_counted(made)}", width, "  ")
        return lines
    lines += ["", *_clock(made, placed, asked_mhz, width)]
    if made.frames is not None:
        lines += _frames(made.frames, width)
    return lines


def _why_counted(made: FpgaReport) -> str:
    """What a build without placement says, and what not."""
    told = "counted by synthesis, not placed: no clock"
    short = shortage(made.build.synthesis.resources, made.part)
    if short:
        too_few = ", ".join(RESOURCES[name] for name in short)
        return f"{told}; it does not fit: too few {too_few}"
    return told


def _resources(build: Build, target: Part) -> list[str]:
    placed = build.placement
    head = ("", "design", *(("placed",) if placed else ()), "part", "used")
    rows: list[tuple[str, ...]] = [head]
    for name, called in RESOURCES.items():
        count, there = int(getattr(build.synthesis.resources, name)), target.holds(name)
        sites = () if placed is None else (f"{placed.used[name]:,}",)
        used = count if placed is None else max(count, placed.used[name])
        rows.append((called, f"{count:,}", *sites, f"{there:,}", f"{100 * used / there:.1f} %"))
    return aligned(rows)


def _clock(made: FpgaReport, placed: Placement, asked_mhz: float, width: int) -> list[str]:
    path = placed.critical
    period = path.logic_seconds + path.routing_seconds
    operations = made.most_operations_per_s or 0.0
    resources = made.build.synthesis.resources
    lines = wrapped(
        f"clock    {placed.most_hz / 1e6:.1f} MHz of {asked_mhz:g} asked for (seed {placed.seed});"
        f" the slowest path takes {period * 1e9:.1f} ns, {path.logic_seconds * 1e9:.1f} of it in"
        f" logic, from {path.start} to {path.end}",
        width,
        "         ",
    )
    per_dsp = operations / 1e9 / max(resources.multipliers, 1)
    lines += wrapped(
        f"peak     {operations / 1e9:.1f} GOPS: {per_dsp:.3f} for each DSP block,"
        f" {operations / 1e6 / resources.luts:.2f} for each 1,000 lookup tables",
        width,
        "         ",
    )
    if placed.most_hz < made.machine.clock_hz:
        lines += wrapped(
            f"note     the machine file says {made.machine.clock_hz / 1e6:g} MHz, which this build"
            " does not reach",
            width,
            "         ",
        )
    return lines


def _frames(frames: Frames, width: int) -> list[str]:
    many = f" for {frames.samples} at once" if frames.samples > 1 else ""
    lines = wrapped(
        f"frames   {frames.frames_per_s:,.0f} a second: {visible(frames.program)} takes"
        f" {frames.cycles:,} cycles{many}, {frames.seconds * 1e6:,.1f} us",
        width,
        "         ",
    )
    parts = [
        (watts, what)
        for watts, what in (
            (frames.static_watts, "static"),
            (frames.dynamic_watts, "of the program"),
        )
        if watts is not None
    ]
    if parts:
        told = " + ".join(f"{watts:.3f} {what}" for watts, what in parts)
        beside = frames.outside_watts
        more = "" if beside is None else f"; beside it, memory and link {beside:.3f} W"
        lines += wrapped(
            f"power    {told} = {sum(w for w, _ in parts):.3f} W{more}", width, " " * 9
        )
        lines += wrapped(f"         {POWER_BASIS}", width, "         ")
    return lines
