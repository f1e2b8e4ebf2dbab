"""Random programs for the hardware, and how far its answer is from execution and simulation."""

from __future__ import annotations

import numpy as np

from ridgeline.machine.check import check
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import execute
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.instructions import Instruction, State
from ridgeline.machine.loader import load_machine
from ridgeline.machine.simulate import simulate
from ridgeline.rtl.cosim import CosimCase, CosimResult
from ridgeline.rtl.shape import COVERED_KINDS
from ridgeline.rtl.support import unsupported_instruction


def square_machine(side: int, *settings: str) -> Machine:
    """A side × side array with a small unified buffer, so that programs collide in it."""
    return load_machine(
        "tiny-8",
        [
            f"array.rows={side}",
            f"array.cols={side}",
            f"vector.lanes={side}",
            f"unified_buffer.bytes={side * 256}",
            *settings,
        ],
    )


def is_covered(one: Instruction) -> bool:
    """Whether the hardware has this instruction in this form."""
    return not unsupported_instruction(one)


def random_cases(machine: Machine, seeds: range, length: int | None = None) -> list[CosimCase]:
    """Legal programs of instructions that hardware has, with random inputs and no stalls."""
    cases: list[CosimCase] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        program = random_program(
            machine, rng, kinds=COVERED_KINDS, length=length, accepts=is_covered
        )
        check(program)
        cases.append(CosimCase(program, random_inputs(program, rng)))
    return cases


def stalled(cases: list[CosimCase]) -> list[CosimCase]:
    """The same cases, each with its own random stalls."""
    return [CosimCase(case.program, case.inputs, seed) for seed, case in enumerate(cases)]


def bit_differences(case: CosimCase, result: CosimResult) -> list[str]:
    """Which memories and outputs differ from those of `execute`."""
    states: list[State] = []
    outputs = execute(case.program, case.inputs, watch=lambda _, state: states.append(state))
    found = [
        f"output {name}"
        for name, array in outputs.items()
        if not np.array_equal(array, result.outputs[name])
    ]
    # The state is one object, so the first entry shows the end as well.
    if not np.array_equal(states[0].device, result.memory):
        found.append("device memory")
    if not np.array_equal(states[0].buffer, result.buffer):
        found.append("unified buffer")
    return found


def cycle_differences(case: CosimCase, result: CosimResult) -> list[str]:
    """Which totals and instructions differ in time from those of `simulate`."""
    trace = simulate(case.program)
    events = [event for segment in trace.segments for event in segment.events]
    found = [] if trace.cycles == result.cycles else [f"total {trace.cycles}: {result.cycles}"]
    times = zip(events, result.started, result.drained, strict=True)
    for number, (event, started, drained) in enumerate(times):
        if (event.start, event.drained) != (started, drained):
            expected = f"{event.start} to {event.drained}"
            found.append(f"instruction {number}, {expected}: {started} to {drained}")
    return found
