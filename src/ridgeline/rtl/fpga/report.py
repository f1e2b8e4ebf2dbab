"""What an FPGA build means for a machine: peak rate, frames a second of a program, power."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.energy import activity_table, counts_by_layer, joules_by_level
from ridgeline.machine.loader import machine_to_dict
from ridgeline.machine.program import Program
from ridgeline.machine.simulate import simulate
from ridgeline.results.energy import IDLE, sum_by_name
from ridgeline.rtl.fpga.build import Build, build_to_dict
from ridgeline.rtl.fpga.parts import Part

OUTSIDE = ("device memory", "host link")
"""Levels of energy that are spent beside the FPGA."""

POWER_BASIS = (
    "static: the part's data sheet; dynamic: what the program does, counted, times the machine"
    " file's joules, at this clock; an estimate, not measured"
)


@dataclass(frozen=True, slots=True)
class Frames:
    """A program at the clock that was reached.

    `cycles` are those of the cycle-exact simulation, for `samples` at once: with device memory as
    many bytes a cycle as the machine says. Watts are None where the machine file or the part does
    not say what is needed.
    """

    program: str
    cycles: int
    samples: int
    seconds: float
    static_watts: float | None
    dynamic_watts: float | None
    outside_watts: float | None

    @property
    def frames_per_s(self) -> float:
        return self.samples / self.seconds


@dataclass(frozen=True, slots=True)
class FpgaReport:
    """A machine on a part, with the settings that changed its file. `most_operations_per_s`: two
    for each multiplier and cycle; None where it was only counted.
    """

    machine: Machine
    part: Part
    build: Build
    frames: Frames | None
    settings: tuple[str, ...] = ()

    @property
    def most_hz(self) -> float | None:
        placed = self.build.placement
        return None if placed is None else placed.most_hz

    @property
    def most_operations_per_s(self) -> float | None:
        array = self.machine.array
        return None if self.most_hz is None else 2 * array.rows * array.cols * self.most_hz


def report(
    machine: Machine,
    part: Part,
    build: Build,
    program: Program | None,
    settings: tuple[str, ...] = (),
) -> FpgaReport:
    """What the build means; frames a second where a program is given and the build was placed.

    Raises RidgelineError for a program of another machine.
    """
    if program is not None:
        require_same_machine(machine, program)
    placed = build.placement
    frames = None
    if program is not None and placed is not None:
        frames = frames_at(program, placed.most_hz, part)
    return FpgaReport(machine, part, build, frames, settings)


def require_same_machine(machine: Machine, program: Program) -> None:
    """Raise RidgelineError for a program that was compiled for another machine."""
    if machine_to_dict(program.machine) != machine_to_dict(machine):
        raise RidgelineError(
            f"was compiled for another machine ({program.machine.name}) than {machine.name},"
            " or for other settings of it",
            where=f"program {program.name}",
            fix=f"Compile it with --machine {machine.name} and the same --set",
        )


def frames_at(program: Program, clock_hz: float, part: Part) -> Frames:
    """A program's rate and power at a clock."""
    cycles = simulate(program).cycles
    seconds = cycles / clock_hz
    inputs = program.inputs + program.device_inputs
    samples = inputs[0].shape[0] if inputs and len(inputs[0].shape) > 1 else 1
    instructions = program.instructions
    table = activity_table(instructions, program.machine)
    counts = sum_by_name(counts_by_layer(table, [-1] * len(instructions), 0))
    joules = joules_by_level(counts, program.machine, cycles)
    inside = outside = None
    if joules is not None:
        inside = sum(j for level, j in joules.items() if level not in (*OUTSIDE, IDLE)) / seconds
        outside = sum(joules.get(level, 0.0) for level in OUTSIDE) / seconds
    return Frames(
        program=program.name,
        cycles=cycles,
        samples=samples,
        seconds=seconds,
        static_watts=part.static_watts,
        dynamic_watts=inside,
        outside_watts=outside,
    )


def report_to_dict(made: FpgaReport) -> dict[str, Any]:
    """For JSON: the build as kept, and what is worked out from it."""
    array, frames = made.machine.array, made.frames
    return {
        "machine": made.machine.name,
        "settings": list(made.settings),
        "rows": array.rows,
        "cols": array.cols,
        **build_to_dict(made.build),
        "part": made.part.full_name,
        "operations_per_s": made.most_operations_per_s,
        "frames": None
        if frames is None
        else {**asdict(frames), "frames_per_s": frames.frames_per_s, "power_basis": POWER_BASIS},
    }
