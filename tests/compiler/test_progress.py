from __future__ import annotations

import pytest

from compile_cases import small_machine
from random_graphs import random_network
from ridgeline.compiler import compile
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import DeviceSegment


@pytest.mark.parametrize("seed", range(4))
def test_every_node_is_told_once(seed: int) -> None:
    graph, told = random_network(seed), list[int]()
    program = compile(graph, small_machine(), done=told.append)
    assert sum(told) == len(program.layers) == len(graph.nodes)
    assert min(told) > 0


def test_told_while_it_searches() -> None:
    """Not once at the end of a segment, and with the program that nobody watches."""
    graph, told = random_network(1), list[int]()
    program = compile(graph, load_machine("tiny-8"), done=told.append)
    segments = [s for s in program.segments if isinstance(s, DeviceSegment)]
    assert len(told) > len(segments)
    plain = compile(graph, load_machine("tiny-8"))
    assert plain.instructions == program.instructions
