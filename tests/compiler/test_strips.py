"""Runs of layers in strips: what is made and held, the bits, and what the search gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from chains import chain, same_bits, with_sums
from compile_cases import DATAFLOWS, moved_bytes, small_machine
from random_graphs import random_network
from ridgeline.compiler import pipeline
from ridgeline.compiler.allocate import tile_and_allocate
from ridgeline.compiler.pipeline import compile_located
from ridgeline.compiler.plan import Segment, TiledLayer
from ridgeline.compiler.strips import Run, Strips, may_be_stripped, source_box
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import MatMul
from ridgeline.machine.ledger import ledger, owners_of, windows_of
from ridgeline.machine.simulate import simulate


def random_runs(segment: Segment, seed: int) -> list[Run]:
    """Up to three runs beside or within each other, of layers that may lie in one."""
    rng = np.random.default_rng(seed)
    images = max(layer.output.layout.n for layer in segment.layers)
    able = [may_be_stripped(layer, images) for layer in segment.layers]
    runs: list[Run] = []
    for _ in range(12):
        first, last = sorted(rng.integers(0, len(able) + 1, 2).tolist())
        parts = [n for n in range(1, images + 1) if images % n == 0 and n > 1]
        count = int(rng.choice([*parts, 2 * images, 3 * images, 5 * images]))
        apart = all(
            last <= r.first
            or r.last <= first
            or (r.first <= first and last <= r.last)
            or (first <= r.first and r.last <= last)
            for r in runs
        ) and all((first, last) != (r.first, r.last) for r in runs)
        if last - first > 1 and all(able[first:last]) and apart and len(runs) < 3:
            runs.append(Run(first, last, count))
    return runs


class Forced:
    """Allocates with random runs, instead of those that the search would find."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.runs: list[Run] = []
        self.segments: list[Segment] = []

    def __call__(
        self,
        segment: Segment,
        machine: Machine,
        *,
        spread: bool = False,
        ahead: bool = False,
        runs: Sequence[Run] = (),
    ) -> list[TiledLayer]:
        del runs
        found = random_runs(segment, self.seed)
        self.runs += found
        self.segments.append(segment)
        return tile_and_allocate(segment, machine, spread=spread, ahead=ahead, runs=found)


def machine_of(seed: int, buffer_bytes: int) -> Machine:
    return small_machine(DATAFLOWS[seed % 3], f"unified_buffer.bytes={buffer_bytes}")


@pytest.mark.parametrize("seed", range(40))
def test_bits_in_any_runs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_network(seed, varied=seed % 2 == 0)
    forced = Forced(seed)
    monkeypatch.setattr(pipeline, "tile_and_allocate", forced)
    try:
        made = compile_located(graph, machine_of(seed, [2048, 8192, 65536][seed % 3]))
    except RidgelineError:  # A layer does not fit.
        made = compile_located(graph, machine_of(seed, 65536))
    assert same_bits(graph, made.program)
    for segment in forced.segments:
        every_row_is_made(segment, random_runs(segment, seed))


def every_row_is_made(segment: Segment, runs: Sequence[Run]) -> None:
    """Each visit finds on chip the rows that it reads, and at the end all is made that leaves."""
    strips = Strips(segment, runs)
    made: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] = {}
    for visit in strips.visits:
        layer = segment.layers[visit.position]
        for operand in layer.inputs:
            root, box = id(operand.root), source_box(layer, operand, visit.box)
            if operand.constant or layer.kind == "alias":
                continue
            held = visit.box_of(operand)
            for low, high, first, end in _sides(box, held):
                assert low >= first
                assert high <= end
            if root in made:
                assert made[root][box.n0 : box.n1, box.y0 : box.y1].all()
        if layer.kind == "alias":
            continue
        root, layout = id(layer.output.root), layer.output.layout
        held = visit.box_of(layer.output)
        for low, high, first, end in _sides(visit.box, held):
            assert low >= first
            assert high <= end
        rows = made.setdefault(root, np.zeros((layout.n, layout.h), np.bool_))
        rows[visit.box.n0 : visit.box.n1, visit.box.y0 : visit.box.y1] = True
    for root in segment.leaving & made.keys():
        assert made[root].all()


def _sides(box: object, held: object) -> list[tuple[int, int, int, int]]:
    names = (("n0", "n1"), ("y0", "y1"), ("x0", "x1"))
    return [
        (getattr(box, a), getattr(box, b), getattr(held, a), getattr(held, b)) for a, b in names
    ]


def test_runs_were_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would not tell if there were none."""
    counts: list[int] = []
    for seed in range(20):
        forced = Forced(seed)
        monkeypatch.setattr(pipeline, "tile_and_allocate", forced)
        compile_located(random_network(seed), machine_of(seed, 65536))
        counts.append(len(forced.runs))
    assert sum(count > 0 for count in counts) > 10


def no_runs(segment: Segment, machine: Machine) -> list[tuple[Run, ...]]:
    del segment, machine
    return []


def long_chain() -> Graph:
    """Wide rows at first, whose values are large, and a value that two layers far apart read."""
    return with_sums(chain((8, 4, 3, 1), (8, 8, 3, 1), (8, 8, 3, 1), (4, 8, 3, 1)), 1)


def test_strips_keep_values_on_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies between the layers does not leave the chip, and the network takes less time."""
    graph = long_chain()
    machine = small_machine(
        "weight-stationary",
        "unified_buffer.bytes=1024",
        "device_memory.bytes_per_s=100e6",
    )
    made = compile_located(graph, machine)
    visits = [layer.plan.index for layer in made.layers]
    assert len(visits) > len(set(visits))
    monkeypatch.setattr(pipeline, "find_runs", no_runs)
    plain = compile_located(graph, machine)
    assert len(plain.layers) == len(graph.nodes)
    assert moved_bytes(made.program) < 0.6 * moved_bytes(plain.program)
    assert simulate(made.program).cycles < 0.6 * simulate(plain.program).cycles
    assert same_bits(graph, made.program)


def test_strips_make_what_others_read_once() -> None:
    """Rows that several strips read are made again; those that layers outside read are not."""
    graph = long_chain()
    (segment,) = _segments(graph)
    strips = Strips(segment, [Run(0, 3, 3)])
    first = [visit.box for visit in strips.visits if visit.position == 0]
    last = [visit.box for visit in strips.visits if visit.position == 2]
    assert [(b.y0, b.y1) for b in last] == [(0, 4), (4, 8), (8, 12)]
    # Two windows of three rows reach over each border by two rows.
    assert [(b.y0, b.y1) for b in first] == [(0, 6), (2, 10), (6, 12)]
    assert all(a.y1 == b.y0 for a, b in pairwise(last))


def _segments(graph: Graph) -> list[Segment]:
    found: list[Segment] = []

    def kept(segment: Segment, machine: Machine, **_: object) -> list[TiledLayer]:
        found.append(segment)
        return tile_and_allocate(segment, machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "tile_and_allocate", kept)
        compile_located(graph, small_machine("weight-stationary", "unified_buffer.bytes=65536"))
    return found[:1]


def test_the_report_tells_strips_apart() -> None:
    """Windows follow the strips, and what is multiplied again is not counted as useful."""
    graph = long_chain()
    machine = small_machine(
        "weight-stationary", "unified_buffer.bytes=1024", "device_memory.bytes_per_s=100e6"
    )
    program = compile_located(graph, machine).program
    visits = [layer.visits for layer in program.layers]
    assert max(visits) > 1
    trace = simulate(program)
    account = ledger(trace)
    multiplied = Counter[int]()
    for instruction in program.instructions:
        if isinstance(instruction, MatMul):
            multiplied[instruction.layer] += instruction.macs
    for number, layer in enumerate(program.layers):
        entries = account.layers[number]
        if layer.placed == "array":
            assert entries["useful"] == layer.macs
            assert entries["useful"] + entries["again"] == multiplied[number]
    assert sum(account.total().values()) == trace.cycles * account.slots_per_cycle
    assert account.total()["again"] > 0
    (segment,) = [s for s in trace.segments if not s.host]
    owners = owners_of(segment.events)
    visited = {number for number, count in enumerate(visits) if count > 1}
    windows = windows_of(segment, owners, visited)
    ends = [end for _, end in windows]
    assert ends == sorted(ends)
    assert ends[-1] == segment.cycles
    counted = Counter(layer for layer, _ in windows)
    for number in visited:
        assert counted[number] >= visits[number] > 1
    # Without strips a layer has one window.
    assert {counted[number] for number in range(len(visits)) if number not in visited} <= {1}
