"""Random networks on random machines: bits, counts, and the laws that every program keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from compile_cases import DATAFLOWS, moved_bytes, small_machine
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph
from ridgeline.machine.execute import execute
from ridgeline.machine.instructions import MatMul
from ridgeline.machine.program import DeviceSegment, Program, program_from_bytes
from ridgeline.machine.simulate import simulate
from ridgeline.ops.evaluate import evaluate
from single_node import random_stored

BUFFERS = (768, 2048, 4096, 65536)


def compiled(graph: Graph, seed: int) -> Program | None:
    """The program on one of the small machines; None where a layer fits no way."""
    rng = np.random.default_rng(seed)
    array = [(4, 4), (4, 8), (8, 4), (2, 6)][seed % 4]
    machine = small_machine(
        DATAFLOWS[seed % 3],
        f"array.rows={array[0]}",
        f"array.cols={array[1]}",
        f"array.weight_slots={int(rng.integers(2, 9))}",
        f"array.accumulator_entries={int(rng.choice([8, 32, 200]))}",
        f"unified_buffer.bytes={int(rng.choice(BUFFERS))}",
        f"vector.lanes={int(rng.choice([2, 4, 16]))}",
        f"vector.parameter_slots={int(rng.integers(1, 5))}",
        f"device_memory.burst_bytes={int(rng.choice([8, 32, 64]))}",
        f"queue_depth={int(rng.choice([1, 2, 8]))}",
    )
    try:
        return compile(graph, machine)
    except RidgelineError as error:
        if "unified buffer" not in str(error):
            raise
        return None


@pytest.mark.parametrize("seed", range(60))
def test_tables_slopes_and_moves_between_layers(seed: int) -> None:
    graph = random_network(seed, varied=True)
    program = compiled(graph, seed) or compile(graph, small_machine(DATAFLOWS[seed % 3]))
    given = {v.name: random_stored(v, np.random.default_rng(seed)) for v in graph.inputs}
    made = execute(program, given, OnnxRuntimeExecutor())
    values = evaluate(graph, given)
    for output in graph.outputs:
        assert np.array_equal(made[output.name], values[id(output)]), output.name
    refused = {layer.reason for layer in program.layers if layer.placed == "host"}
    assert all("unified buffer" in why or "only renames" in why for why in refused)
    assert simulate(program).cycles > 0


@pytest.mark.parametrize("seed", range(120))
def test_bits_and_counts(seed: int) -> None:
    graph = random_network(seed)
    program = compiled(graph, seed)
    if program is None:
        program = compile(graph, small_machine(DATAFLOWS[seed % 3]))
    rng = np.random.default_rng(seed)
    given = {v.name: random_stored(v, rng) for v in graph.inputs}
    made = execute(program, given, OnnxRuntimeExecutor())
    values = evaluate(graph, given)
    for output in graph.outputs:
        np.testing.assert_array_equal(made[output.name], values[id(output)], output.name)
    counted = Counter[int]()
    for instruction in program.instructions:
        if isinstance(instruction, MatMul):
            counted[instruction.layer] += instruction.macs
    for number, layer in enumerate(program.layers):
        if layer.placed == "array":
            # Strips make again what they share, and leave out rows that no window reads.
            assert counted[number] == layer.macs or layer.visits > 1


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_same_bits_whatever_the_timing(seed: int) -> None:
    graph = random_network(seed)
    program = compile(graph, small_machine())
    rng = np.random.default_rng(seed)
    given = {v.name: random_stored(v, rng) for v in graph.inputs}
    host = OnnxRuntimeExecutor()
    first = execute(program, given, host)
    slow = small_machine(
        "weight-stationary",
        "device_memory.bytes_per_s=50e6",
        "device_memory.latency_cycles=300",
        "queue_depth=1",
        "clock_hz=3e6",
    )
    second = execute(replace(program, machine=slow), given, host)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    assert simulate(replace(program, machine=slow)).cycles > 0


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_traffic_never_grows_with_the_buffer(seed: int) -> None:
    graph = random_network(seed)
    traffic: list[int] = []
    for size in (2048, 4096, 8192, 16384, 65536):
        try:
            program = compile(
                graph, small_machine("weight-stationary", f"unified_buffer.bytes={size}")
            )
        except RidgelineError:
            assert not traffic, "fits a smaller buffer but not this one"
            continue
        traffic.append(moved_bytes(program))
    assert traffic == sorted(traffic, reverse=True)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_cycles_are_above_every_bound(seed: int) -> None:
    graph = random_network(seed)
    program = compile(graph, small_machine())
    trace = simulate(program)
    machine = program.machine
    for segment, part in zip(trace.segments, program.segments, strict=True):
        if not isinstance(part, DeviceSegment):
            continue
        timings = [i.timing(machine) for i in part.instructions]
        by_unit = dict.fromkeys(range(6), 0)
        for instruction, timing in zip(part.instructions, timings, strict=True):
            by_unit[instruction.unit] += timing.issue_cycles
        assert segment.cycles >= max(by_unit.values())
        assert segment.cycles >= sum(t.port_cycles for t in timings)


@pytest.mark.parametrize("seed", range(5))
def test_a_program_file_holds_everything(seed: int) -> None:
    program = compile(random_network(seed), small_machine())
    again = program_from_bytes(program.to_bytes())
    assert again.to_bytes() == program.to_bytes()
    assert compile(random_network(seed), small_machine()).to_bytes() == program.to_bytes()
    assert simulate(again).cycles == simulate(program).cycles
