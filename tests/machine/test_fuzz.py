"""The generator of random programs: repeatable, of the kinds asked for, and held to new rules."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.machine.check import check
from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.fuzz.assembly import assemble
from ridgeline.machine.instructions import Instruction, LoadWeights, MatMul
from ridgeline.machine.loader import load_machine


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("tiny-8")


def test_one_seed_gives_one_program(machine: Machine) -> None:
    first, second = (random_program(machine, np.random.default_rng(9)) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    assert set(random_inputs(first, np.random.default_rng(0))) == {
        tensor.name for tensor in first.inputs + first.device_inputs
    }


def from_device(one: Instruction) -> bool:
    return not (isinstance(one, LoadWeights) and (one.from_buffer or one.transposed))


def test_kinds_and_length(machine: Machine) -> None:
    kinds = frozenset({LoadWeights, MatMul})
    program = random_program(
        machine, np.random.default_rng(1), kinds=kinds, length=37, accepts=from_device
    )
    assert len(program.instructions) == 37
    assert {type(one) for one in program.instructions} == kinds
    assert all(from_device(one) for one in program.instructions)


def checked(machine: Machine, *instructions: Instruction) -> None:
    check(assemble(list(instructions), machine, 8192, np.random.default_rng(0)))


def test_kept_weights_are_those_of_the_slot(machine: Machine) -> None:
    load = LoadWeights(slot=2, address=1024, k=1, n=8)
    first, kept = MatMul(slot=2, banks=1), MatMul(slot=2, keep_weights=1, banks=1)
    checked(machine, load, first, kept)
    with pytest.raises(RidgelineError, match="its slot was loaded after the MatMul before"):
        checked(machine, load, first, load, kept)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (MatMul(zero_point=-1, banks=1), "zero point -1 is not of its element's format, 0 to 255"),
        (MatMul(format=1, zero_point=128, banks=1), "zero point 128 .* -128 to 127"),
        (LoadWeights(address=1024, zero_point=128), "zero point 128 .* -128 to 127"),
        (LoadWeights(address=1024, signed=0, zero_point=-1), "zero point -1 .* 0 to 255"),
    ],
)
def test_zero_points_are_of_their_format(
    machine: Machine, instruction: Instruction, text: str
) -> None:
    with pytest.raises(RidgelineError, match=text):
        checked(machine, instruction)
