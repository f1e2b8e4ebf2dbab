"""What a plan foretells of each layer, against the program that is compiled of it."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline
from advice.small_models import keyword_spotting
from ridgeline.compiler.outline import moved_bytes, plan_of
from ridgeline.compiler.pipeline import compile
from ridgeline.ir import Graph
from ridgeline.machine.instructions import Load, LoadWeights, Store
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment, HostSegment
from ridgeline.machine.simulate import host_cycles, simulate
from ridgeline.machine.tabulate import bytes_moved, report


@pytest.fixture(scope="module")
def graph() -> Graph:
    read = ridgeline.read_onnx(keyword_spotting())
    samples = np.random.default_rng(0).random((4, 1, 49, 10), np.float32)
    return ridgeline.quantize(read, {"x": samples})


@pytest.mark.parametrize("flow", ["weight-stationary", "output-stationary", "input-stationary"])
def test_the_array_is_kept_as_long_as_the_program_keeps_it(graph: Graph, flow: str) -> None:
    machine = load_machine("edge-4tops", [f"array.dataflow={flow}"])
    program = compile(graph, machine)
    made = report(program, simulate(program))
    outline = plan_of(graph, machine).outlines[0]
    total = {"compute": 0.0, "vector": 0.0}
    for row in made.rows:
        for limit in total:
            total[limit] += row.busy_cycles.get(limit, 0.0) * (row.name in outline)  # pyright: ignore[reportArgumentType]
    array = sum(need.array_cycles for need in outline.values())
    vector = sum(need.vector_cycles for need in outline.values())
    # Taps outside the tensor are left out; layers made in parts take a little longer.
    assert 0.95 * array <= total["compute"] <= 1.4 * array
    assert vector == pytest.approx(total["vector"], rel=0.1)


def test_bytes_host_and_parts_are_the_programs(graph: Graph) -> None:
    machine = load_machine("tiny-16")
    program, plan = compile(graph, machine), plan_of(graph, machine)
    kinds = (Load, LoadWeights, Store)
    moved = sum(bytes_moved(i) for i in program.instructions if isinstance(i, kinds))
    tables = 4 * 9 * 64  # of the depthwise layers, which the plan leaves out
    least = min(moved_bytes(outline) for outline in plan.outlines) + tables
    # A layer made in parts may bring its weights twice.
    assert least <= moved <= 1.5 * least
    hosts = [s for s in program.segments if isinstance(s, HostSegment)]
    assert plan.host_cycles == sum(host_cycles(host, machine) for host in hosts)
    assert plan.device_parts == sum(isinstance(s, DeviceSegment) for s in program.segments)


def test_what_finds_no_room_is_told(graph: Graph) -> None:
    roomy = plan_of(graph, load_machine("edge-4tops")).outlines
    assert not any(need.spilled_bytes for outline in roomy for need in outline.values())
    tight = plan_of(graph, load_machine("tiny-16", ["unified_buffer.bytes=16384"])).outlines
    assert all(any(need.spilled_bytes for need in outline.values()) for outline in tight)
