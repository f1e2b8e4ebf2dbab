"""How full the unified buffer is: by hand, by brute force over lines and cycles, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline import api
from ridgeline.machine.fuzz import random_program
from ridgeline.machine.instructions import Elementwise, Load, Space, Store
from ridgeline.machine.loader import load_machine
from ridgeline.machine.occupancy import Occupancy, occupancy
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.simulate import Trace, simulate


def _program(*instructions: Any) -> Program:
    machine = load_machine("tiny-8")
    segments = (DeviceSegment(tuple(instructions)),)
    return Program("small", machine, segments, (), np.zeros(256, np.uint8), 256, 0, (), ())


def test_by_hand() -> None:
    """Two lines are loaded in halves; one is read and written over; both are stored."""
    program = _program(
        Load(element_bytes=4, count_0=2, device_stride_0=8, line_stride_0=1, banks=1),
        Load(element_bytes=4, lane=4, count_0=2, device_stride_0=8, line_stride_0=1, banks=1),
        Elementwise(
            operation=2, a_line=0, out_line=0, channels=8, high=255, in_banks=1, out_banks=1,
            waits=(0, 2, 0, 0, 0, 0),
        ),
        Store(element_bytes=8, count_0=2, device_stride_0=8, line_stride_0=1, banks=1,
              device_address=64, waits=(0, 2, 0, 0, 0, 1)),
    )  # fmt: skip
    trace = simulate(program)
    first, _, over, store = trace.segments[0].events
    found = occupancy(trace)
    # Line 0 dies when the Elementwise has read it, and lives again from when that starts.
    wanted = {0: 0, first.start: 16, over.start: 24, over.issued: 16, store.issued: 0}
    assert dict(zip(found.cycles.tolist(), found.used_bytes.tolist(), strict=True)) == wanted
    assert found.peak_bytes == 24
    lives = 16 * (store.issued - first.start) + 8 * (over.issued - over.start)
    assert found.average_bytes == pytest.approx(lives / trace.cycles)


def _brute_force(trace: Trace) -> Any:
    """Lines occupied in each cycle, from the list of every line's reads and writes."""
    machine = trace.program.machine
    touched: dict[int, list[tuple[str, int, int]]] = {}
    for segment in trace.segments:
        for event in segment.events:
            accesses = event.instruction.accesses(machine)
            start = segment.begin + event.start
            for line in set(accesses.reads.get(Space.BUFFER, np.zeros(0)).tolist()):
                end = segment.begin + max(event.issued, event.start + 1)
                touched.setdefault(int(line), []).append(("read", start, end))
            for line in set(accesses.writes.get(Space.BUFFER, np.zeros(0)).tolist()):
                write = ("write", start, segment.begin + event.drained)
                touched.setdefault(int(line), []).append(write)
    used = np.zeros(trace.cycles + 1, np.int64)
    for uses in touched.values():
        lives: list[list[tuple[str, int, int]]] = []
        for use in uses:
            if use[0] == "write" and (not lives or lives[-1][-1][0] == "read"):
                lives.append([])
            if lives:
                lives[-1].append(use)
        for life in lives:
            used[life[0][1] : max(end for _, _, end in life)] += 1
    return used


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_by_brute_force(seed: int) -> None:
    machine = load_machine("tiny-8")
    trace = simulate(random_program(machine, np.random.default_rng(seed)))
    found = occupancy(trace)
    lengths = np.diff(found.cycles, append=trace.cycles + 1)
    by_cycle = np.repeat(found.used_bytes, lengths) // machine.unified_buffer.line_bytes
    assert by_cycle.tolist() == _brute_force(trace).tolist()


def test_a_compiled_model_stays_within_the_buffer(shipped: Any) -> None:
    graph = api.read_onnx(shipped.model, batch=2)
    with np.load(shipped.calibration) as samples:
        program = api.compile(api.quantize(graph, dict(samples)), api.load_machine("tiny-8"))
    trace = api.simulate(program)
    found = occupancy(trace)
    assert 0 < found.average_bytes < found.peak_bytes <= found.buffer_bytes
    # Two images of 8 x 8 x 16 channels lie there at once, as input and output of a layer.
    assert found.peak_bytes >= 2 * 2 * 8 * 8 * 16
    assert found.used_bytes[-1] == 0


def test_parts_show_their_fullest_moment() -> None:
    cycles = np.asarray([0, 10, 12, 40, 99])
    found = Occupancy(cycles, np.asarray([8, 0, 64, 16, 0]), 128, 100)
    assert [part.tolist() for part in found.peaks(5)] == [cycles.tolist(), [8, 0, 64, 16, 0]]
    begins, most = found.peaks(4)
    assert begins.tolist() == [0, 25, 50, 75]
    assert most.tolist() == [64, 64, 16, 16]


def test_nothing_in_the_buffer() -> None:
    found = occupancy(simulate(_program()))
    assert (found.peak_bytes, found.average_bytes) == (0, 0)
