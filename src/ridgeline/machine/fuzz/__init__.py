"""Random legal programs: random instructions of every kind, ordered by `order.synchronise`.

They provoke what compiled programs seldom do: padding on every side, slots and entries reused at
once, sums accumulated back to back, bank conflicts, contention for the port, scattered bursts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz.assembly import assemble
from ridgeline.machine.fuzz.draw import Draw
from ridgeline.machine.fuzz.maker import ALL_KINDS, Maker
from ridgeline.machine.instructions import Instruction
from ridgeline.machine.program import Program


def random_program(
    machine: Machine,
    rng: np.random.Generator,
    *,
    kinds: frozenset[type[Instruction]] | None = None,
    length: int | None = None,
    accepts: Callable[[Instruction], bool] | None = None,
) -> Program:
    """A legal program of `length` instructions (default 10 to 60) of the given kinds (default all).

    Its inputs are made by `random_inputs`; its device output "memory" is the whole device memory,
    its host output "host" the whole host memory. `accepts`: which instructions may be in it.
    """
    maker = Maker(machine, Draw(rng), kinds or ALL_KINDS, accepts)
    for _ in range(length or maker.draw.between(10, 60)):
        maker.add()
    maker.close()
    return assemble(maker.instructions, machine, maker.device_bytes, rng)


def random_inputs(program: Program, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """Random arrays for every input of `program`: integers of the whole range, floats normal."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for tensor in program.inputs + program.device_inputs:
        kind = tensor.dtype.numpy
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            arrays[tensor.name] = rng.integers(
                limits.min, limits.max, tensor.shape, dtype=kind, endpoint=True
            )
        else:
            arrays[tensor.name] = rng.standard_normal(tensor.shape).astype(kind)
    return arrays


__all__ = ["ALL_KINDS", "random_inputs", "random_program"]
