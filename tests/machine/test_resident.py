"""What a second run leaves out: by every byte of the memories, on random and compiled programs."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from compile_cases import small_machine
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.check import check
from ridgeline.machine.execute import run_on_host, started
from ridgeline.machine.fuzz import random_inputs, random_program
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, MatMul, Requant
from ridgeline.machine.instructions.state import State
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.resident import COPIES, still_there, warm_program
from ridgeline.machine.simulate import simulate
from ridgeline.machine.steady import steady_cycles, warm_cycles


def _run(program: Program, state: State) -> None:
    for segment in program.segments:
        if isinstance(segment, DeviceSegment):
            for one in segment.instructions:
                one.apply(state)
        else:
            run_on_host(segment, state, OnnxRuntimeExecutor())


def _hold_to_the_bits(program: Program, seed: int) -> int:
    """A warm run right behind a run leaves the memories as a whole run there does; what it omits.

    "memory" of a random program is an input all over device memory, so inputs go to host memory.
    """
    rng = np.random.default_rng(seed)
    warm = warm_program(program)
    check(warm)
    state = started(program, random_inputs(program, rng))
    _run(program, state)
    state.host[:] = started(program, random_inputs(program, rng)).host
    again = deepcopy(state)
    _run(program, state)
    _run(warm, again)
    for field in fields(State):
        if field.name != "machine":
            left, right = getattr(state, field.name), getattr(again, field.name)
            np.testing.assert_array_equal(left, right, err_msg=field.name)
    return len(program.instructions) - len(warm.instructions)


@pytest.mark.parametrize("flow", ["weight-stationary", "output-stationary", "input-stationary"])
def test_random_programs(flow: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng([seed, len(flow)])
        _hold_to_the_bits(random_program(small_machine(flow), rng), seed)


@pytest.mark.parametrize("slots", [2, 64])
def test_networks(slots: int) -> None:
    omitted = 0
    for seed in range(12):
        machine = small_machine("weight-stationary", f"array.weight_slots={slots}")
        omitted += _hold_to_the_bits(compile(random_network(seed, varied=True), machine), seed)
    assert omitted > 12


def _program(*instructions: Any) -> Program:
    """These for tiny-8, without waits, on 256 bytes of constants."""
    return Program(
        name="small",
        machine=load_machine("tiny-8"),
        segments=(DeviceSegment(instructions),),
        layers=(),
        constants=np.arange(256).astype(np.uint8),
        device_bytes=512,
        host_bytes=0,
        inputs=(),
        outputs=(),
    )


LOAD = Load(element_bytes=8, count_0=8, device_stride_0=8, line_stride_0=1, banks=1)
FROM_BUFFER = LoadWeights(k=8, n=8, row_stride=1, from_buffer=1, slot=1, banks=1)
PRODUCT = MatMul(count_0=8, stride_0=1, k=8, n=8, x_limit=8, x_step=1, banks=1)


@pytest.mark.parametrize(
    ("instructions", "omitted"),
    [
        ((LOAD,), (True,)),
        ((replace(LOAD, device_address=256),), (False,)),
        ((LOAD, replace(LOAD, device_address=64)), (False, False)),
        ((LOAD, replace(LOAD, device_address=64, line=8)), (True, True)),
        ((replace(LOAD, element_bytes=4), replace(LOAD, element_bytes=4, lane=4)), (True, True)),
        ((replace(LOAD, element_bytes=4), replace(LOAD, element_bytes=4, lane=2)), (False,) * 2),
        ((LoadWeights(k=8, n=8, row_stride=8), PRODUCT), (True, False)),
        ((LoadWeights(k=8, n=8, row_stride=8, address=256), PRODUCT), (False, False)),
        ((LOAD, FROM_BUFFER), (True, True)),
        ((replace(LOAD, device_address=256), FROM_BUFFER), (False, False)),
        ((LoadParams(count=8),), (True,)),
        ((LOAD, Requant(channels=8, count_0=1, out_banks=1)), (False, False)),
        ((LOAD, Requant(channels=8, count_0=1, out_banks=1, out_line=8)), (True, False)),
    ],
)
def test_what_is_left_out(instructions: tuple[Any, ...], omitted: tuple[bool, ...]) -> None:
    assert tuple(still_there(_program(*instructions))) == omitted


def test_only_copies_are_left_out() -> None:
    program = compile(random_network(3), small_machine())
    kinds = {
        type(one)
        for one, omitted in zip(program.instructions, still_there(program), strict=True)
        if omitted
    }
    assert kinds
    assert kinds <= set(COPIES)


def test_warm_runs_are_no_slower(made: Program) -> None:
    warm = warm_program(made)
    assert warm_cycles(made) == simulate(warm).cycles <= simulate(made).cycles
    assert steady_cycles(made) <= simulate(warm).cycles


@pytest.fixture(scope="module")
def made() -> Program:
    return compile(random_network(5), small_machine("weight-stationary", "array.weight_slots=64"))


def test_a_program_that_brings_nothing_twice_is_its_own_warm_one() -> None:
    program = _program(replace(LOAD, device_address=256))
    assert warm_program(program) is program
