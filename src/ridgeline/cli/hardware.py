"""`ridgeline cosim`: a program on the generated hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ridgeline.cli.arrays import fit_arrays, read_arrays, sample_count
from ridgeline.cli.outputs import say
from ridgeline.cli.show import stage, terminal_width
from ridgeline.machine.check import check
from ridgeline.machine.fuzz import random_inputs
from ridgeline.machine.program import Program, load_program
from ridgeline.render.plain import visible, wrapped
from ridgeline.rtl.build import require_tools
from ridgeline.rtl.compare import Compared, compared
from ridgeline.rtl.cosim import CosimCase, cosimulate_many
from ridgeline.rtl.support import require_program

DIFFERS = 1
"""Exit code when the hardware differs; a fault is 2."""


def cosim(path: Path, input: Path | None, stalls: int | None, seed: int, as_json: bool) -> int:
    """Run a program on the generated hardware and say what differs from `execute` and `simulate`.

    Returns the exit code.
    """
    program = load_program(path)
    check(program)
    require_program(program)
    require_tools()
    cases = [CosimCase(program, given, stalls) for given in _inputs(program, input, seed)]
    with stage("building and running the hardware"):
        results = cosimulate_many(cases)
    found = [
        compared(program, case.inputs, result, stalled=stalls is not None)
        for case, result in zip(cases, results, strict=True)
    ]
    if as_json:
        say(json.dumps(_as_json(program, found), indent=2))
    else:
        for line in _text(program, found):
            say(line)
    return 0 if all(one.is_equal for one in found) else DIFFERS


def _inputs(program: Program, input: Path | None, seed: int) -> list[dict[str, Any]]:
    """Each sample of the file; without one, random integers."""
    if input is None:
        return [random_inputs(program, np.random.default_rng(seed))]
    tensors = program.device_inputs
    data = fit_arrays(
        read_arrays(input), {t.name: (t.shape, t.dtype.numpy) for t in tensors}, input
    )
    batch = {t.name: t.shape[0] if t.shape else 1 for t in tensors}
    return [
        {name: array[place : place + batch[name]].reshape(tensors[i].shape)
         for i, (name, array) in enumerate(data.items())}
        for place in range(0, sample_count(data), max(batch.values(), default=1))
    ]  # fmt: skip


def _text(program: Program, found: list[Compared]) -> list[str]:
    width = terminal_width()
    runs = f"{len(found)} runs" if len(found) > 1 else "one run"
    lines = wrapped(
        f"{program.name} on the hardware of {program.machine.name}: {runs},"
        f" {len(program.instructions):,} instructions",
        width,
    )
    wrong = [one for one in found if one.bits]
    lines.append(f"bits    {'equal' if not wrong else f'{len(wrong)} runs differ'}")
    for difference in wrong[0].bits if wrong else ():
        where = f", in output {visible(difference.output)}" if difference.output else ""
        lines += wrapped(
            f"  {difference.memory}: {difference.count:,} bytes, first at"
            f" {difference.address:#x}{where}: executed {difference.executed}, hardware"
            f" {difference.hardware}",
            width,
            "    ",
        )
    first = found[0]
    if first.cycles is None:
        lines.append(f"cycles  {first.hardware_cycles:,} with random stalls: not compared")
    elif first.cycles == first.hardware_cycles and first.timing is None:
        lines.append(f"cycles  equal: {first.cycles:,}, and every instruction's start and end")
    else:
        lines.append(f"cycles  simulated {first.cycles:,}, hardware {first.hardware_cycles:,}")
    if first.timing is not None:
        one = first.timing
        lines += wrapped(
            f"  {one.count:,} instructions, the first number {one.number}: simulated"
            f" {one.simulated[0]} to {one.simulated[1]}, hardware {one.hardware[0]} to"
            f" {one.hardware[1]}: {visible(str(one.instruction))}",
            width,
            "    ",
        )
    return lines


def _as_json(program: Program, found: list[Compared]) -> dict[str, Any]:
    return {
        "program": program.name,
        "machine": program.machine.name,
        "instructions": len(program.instructions),
        "equal": all(one.is_equal for one in found),
        "runs": [
            {
                "hardware_cycles": one.hardware_cycles,
                "simulated_cycles": one.cycles,
                "bits": [
                    {"memory": x.memory, "bytes": x.count, "address": x.address,
                     "executed": x.executed, "hardware": x.hardware, "output": x.output}
                    for x in one.bits
                ],
                "first_instruction": None if one.timing is None else {
                    "number": one.timing.number,
                    "instruction": str(one.timing.instruction),
                    "simulated": list(one.timing.simulated),
                    "hardware": list(one.timing.hardware),
                },
            }
            for one in found
        ],
    }  # fmt: skip
