"""Weights that come ahead of their layer, and results in the lines of an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from chains import chain, same_bits, with_sums
from compile_cases import small_machine
from random_graphs import random_network
from ridgeline.compiler import pipeline
from ridgeline.compiler.allocate import tile_and_allocate
from ridgeline.compiler.held import with_held
from ridgeline.compiler.pipeline import compile_located
from ridgeline.compiler.plan import Held, Segment, TiledLayer, WeightTile
from ridgeline.compiler.strips import Run
from ridgeline.ir import Node
from ridgeline.machine.code import Code
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadWeights
from ridgeline.machine.simulate import simulate

EARLY_WORK_LATE_WEIGHTS = ((8, 4, 3, 1), (8, 8, 3, 1), (32, 8, 3, 4), (32, 32, 3, 2))


def slow_memory(*settings: str) -> Machine:
    return small_machine(
        "weight-stationary",
        "device_memory.bytes_per_s=100e6",
        "unified_buffer.bytes=262144",
        *settings,
    )


def test_weights_come_while_the_array_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last layers' weights take longer than their products; the first layers' hardly any."""
    graph, machine = chain(*EARLY_WORK_LATE_WEIGHTS), slow_memory()
    made = compile_located(graph, machine)
    held = [len(layer.held) for layer in made.layers]
    assert held[0] == 0
    assert held[3] > 50
    instructions = made.program.instructions
    taken = [i for i in instructions if isinstance(i, LoadWeights) and i.from_buffer]
    assert len(taken) >= sum(held)
    assert same_bits(graph, made.program)
    (segment,) = [s for s in simulate(made.program).segments if not s.host]
    last = [e for e in segment.events if e.instruction.layer == 3]
    ahead = [e.start for e in last if isinstance(e.instruction, Load)]
    assert min(ahead) < min(e.start for e in last if isinstance(e.instruction, LoadWeights))
    # They do not stand in the way of the first layer's input either.
    assert max(e.start for e in segment.events if e.instruction.layer == 0) < max(ahead)

    def without(
        segment: Segment,
        machine: Machine,
        *,
        spread: bool = False,
        ahead: bool = False,
        runs: Sequence[Run] = (),
    ) -> list[TiledLayer]:
        del ahead
        return tile_and_allocate(segment, machine, spread=spread, runs=runs)

    monkeypatch.setattr(pipeline, "tile_and_allocate", without)
    plain = simulate(compile_located(graph, machine).program)
    assert segment.cycles < 0.95 * plain.device_cycles


@pytest.mark.parametrize("seed", range(6))
def test_the_bits_stay_the_same_where_memory_is_slow(seed: int) -> None:
    graph = random_network(seed)
    machine = slow_memory(f"array.weight_slots={2 + seed % 3}")
    assert same_bits(graph, compile_located(graph, machine).program)


@pytest.mark.parametrize("slots", [2, 4])
def test_a_layer_whose_weights_the_one_before_left_in_the_slots_brings_none(slots: int) -> None:
    graph = chain((4, 4, 1, 1), (4, 4, 1, 1), (4, 4, 1, 1))
    weights = graph.nodes[0].inputs[1]
    nodes: list[Node] = [
        replace(node, inputs=(node.inputs[0], weights, *node.inputs[2:])) for node in graph.nodes
    ]
    shared = replace(graph, nodes=tuple(nodes)).check()
    made = compile_located(shared, slow_memory(f"array.weight_slots={slots}"))
    assert sum(isinstance(i, LoadWeights) for i in made.program.instructions) == 1
    assert same_bits(shared, made.program)


TIGHT = ("unified_buffer.bytes=1536",)
"""Room for two tensors of `with_sums`, not for three."""


def test_a_sum_takes_the_lines_of_the_operand_that_ends_with_it() -> None:
    graph = with_sums(chain((4, 4, 3, 1)), 1)
    made = compile_located(graph, small_machine("weight-stationary", *TIGHT))
    x, y = made.layers[1].inputs[0]
    assert made.layers[1].outputs[0].line in (x.line, y.line)
    assert x.line != y.line
    assert same_bits(graph, made.program)


def test_a_sum_has_lines_of_its_own_where_there_is_room() -> None:
    made = compile_located(with_sums(chain((4, 4, 3, 1)), 1), small_machine("weight-stationary"))
    x, y = made.layers[1].inputs[0]
    assert len({x.line, y.line, made.layers[1].outputs[0].line}) == 3


def test_nothing_is_written_over_what_is_read_later() -> None:
    """Of two sums of x only the last may take its lines; the first takes those of the other."""
    graph = with_sums(chain((4, 4, 3, 1)), 2)
    made = compile_located(graph, small_machine("weight-stationary", *TIGHT))
    x, y = made.layers[1].inputs[0]
    assert made.layers[1].outputs[0].line == y.line
    assert x.line != y.line
    assert same_bits(graph, made.program)


def test_tiles_of_equal_bytes_are_held_each_in_its_shape() -> None:
    """Constants are kept once: a tile 8 x 32 may lie where another of 4 x 64 does."""
    narrow = WeightTile(0, k=8, n=32, width=32, tap_y=0, tap_x=0, block=0, lane=0, weights=256)
    reads = [
        LoadWeights(layer=0, address=0, k=8, n=32, row_stride=32),
        LoadWeights(layer=0, address=0, k=4, n=64, row_stride=64, slot=1),
    ]
    code = with_held(Code.of(reads), [Held(narrow, line=5, lane=96, since=0)])
    held, apart = (i for i in code.instructions() if isinstance(i, LoadWeights))
    assert (held.from_buffer, held.address, held.lane, held.row_stride) == (1, 5, 96, 1)
    assert apart == reads[1]
