"""Walks as views: the same lines as the index arrays of instructions, and walks that join."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layer_programs import with_banks, with_constants
from ridgeline.machine.execute import Execution, memories_singly
from ridgeline.machine.execution import plan
from ridgeline.machine.execution.steps import Batch
from ridgeline.machine.execution.walks import LeavesMemory, Lines, apart
from ridgeline.machine.execution.windows import window_of
from ridgeline.machine.fuzz.assembly import assemble
from ridgeline.machine.fuzz.draw import Draw
from ridgeline.machine.instructions import Elementwise, Load, MatMul
from ridgeline.machine.instructions.state import nested
from ridgeline.machine.loader import load_machine

SHAPE = (300, 8)
BUFFER = np.arange(300 * 8).astype(np.uint8).reshape(SHAPE)


def drawn(rng: np.random.Generator, format_code: int = 0) -> Lines:
    draw = Draw(rng)
    walk = draw.walk(0, 298, draw.line_strides(draw.choice((1, 2))))
    width = draw.between(1, 8)
    lane = draw.between(0, 8 - width)
    return Lines.checked(SHAPE, walk.start, walk.counts, walk.strides, lane, width, format_code)


def places(walk: Lines) -> list[int]:
    return nested(walk.line, walk.counts, walk.strides).tolist()


@pytest.mark.parametrize("seed", range(200))
def test_views_are_the_lines_of_the_walk(seed: int) -> None:
    walk = drawn(np.random.default_rng(seed), seed % 3)
    lanes = slice(walk.lane, walk.lane + walk.width)
    low = BUFFER[places(walk), lanes]
    expected = low if walk.format == 0 else low.view(np.int8)
    if walk.format == 2:
        high = BUFFER[[p + 1 for p in places(walk)], lanes].view(np.int8)
        expected = high.astype(int) * 256 + low
    read = walk.read(BUFFER)
    np.testing.assert_array_equal(read.reshape(walk.m, walk.width), expected)
    assert (walk.first, walk.last) == (min(places(walk)), max(places(walk)) + (walk.format == 2))


@pytest.mark.parametrize("seed", range(200))
def test_what_is_said_to_lie_apart_does(seed: int) -> None:
    walk = drawn(np.random.default_rng(seed))
    for width in (1, 2):
        if apart(walk.counts, walk.strides, width):
            touched = [p + i for p in places(walk) for i in range(width)]
            assert len(set(touched)) == len(touched)


def test_walks_that_join_are_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    joined = 0
    for _ in range(2000):
        first = drawn(rng)
        delta = int(rng.integers(-20, 20))
        counts = (*first.counts[:2], 1)
        line = first.line + delta
        try:
            second = Lines.checked(SHAPE, line, counts, first.strides, first.lane, first.width, 0)
        except LeavesMemory:
            continue
        both = first.followed_by(second)
        if both is not None:
            joined += 1
            assert places(both) == places(first) + places(second)
            assert (both.first, both.last) == (min(places(both)), max(places(both)))
            assert both.lie_apart == apart(both.counts, both.strides, 1)
    assert joined > 200


@pytest.mark.parametrize("seed", range(200))
def test_windows_are_those_of_the_instruction(seed: int) -> None:
    draw = Draw(np.random.default_rng(seed))
    walk = draw.window(SHAPE[0], 1, 40)
    one = MatMul(**walk.operands(), k=8, zero_point=7)
    window = window_of(one, 8, SHAPE)
    target = np.full((one.m, 8), -1.0, np.float32)
    window.copy_stored(BUFFER, target)
    lines = np.where(one.inside(), one.lines(), 0)
    expected = np.where(one.inside()[:, None], BUFFER[lines], 7)
    np.testing.assert_array_equal(target, expected)


def test_blocks_of_an_addition_become_one_walk_each() -> None:
    machine = load_machine("tiny-8")
    load = Load(device_address=1024, element_bytes=8, count_0=64, device_stride_0=8)
    blocks = [
        Elementwise(
            a_line=8 * i,
            b_line=32 + 8 * i,
            out_line=64 + 8 * i,
            count_0=8,
            a_stride_0=1,
            b_stride_0=1,
            out_stride_0=1,
            channels=8,
            high=255,
            scale_a=0.5,
            scale_b=0.25,
        )
        for i in range(4)
    ]
    # One that writes over the second block, before the third: these two must not be one walk.
    over = replace(blocks[1], scale_a=0.75)
    rng = np.random.default_rng(0)
    for code, writes in ((blocks, 1), ([*blocks[:2], over, *blocks[2:]], 3)):
        whole = [with_banks(one, machine) for one in (replace(load, line_stride_0=1), *code)]
        program = with_constants(assemble(whole, machine, 4096, rng), rng)
        made = plan(program)
        assert made is not None
        (batch,) = (step for step in made.steps[0] if isinstance(step, Batch))
        assert len(batch.writes) == writes
        buffer = Execution(program).memories({}).buffer
        np.testing.assert_array_equal(buffer, memories_singly(program, {}).buffer)
