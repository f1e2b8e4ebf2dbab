"""Random networks on random machines: no false alarm, and a fault in any layer is laid to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compile_cases import DATAFLOWS, small_machine
from random_graphs import random_network
from ridgeline.compiler.pipeline import Compiled, compile_located
from ridgeline.divergence.explain import first_divergence
from ridgeline.divergence.references import by_meaning
from ridgeline.divergence.walk import steps
from ridgeline.errors import RidgelineError
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.machine.execute import execute
from ridgeline.machine.instructions import LoadWeights
from single_node import random_stored

HOST = OnnxRuntimeExecutor()


def _compiled(seed: int) -> Compiled:
    """On a buffer that is too small for most, where the network fits at all."""
    for size in (2048, 8192, 65536):
        machine = small_machine(DATAFLOWS[seed % 3], f"unified_buffer.bytes={size}")
        try:
            return compile_located(random_network(seed), machine)
        except RidgelineError:
            continue
    raise AssertionError("fits no buffer")


@pytest.mark.parametrize("seed", range(24))
def test_no_false_alarm_and_a_corrupted_tile_is_named(seed: int) -> None:
    compiled = _compiled(seed)
    program = compiled.program
    rng = np.random.default_rng(seed)
    inputs = {v.name: random_stored(v, rng) for v in compiled.graph.inputs}
    reference = by_meaning(compiled.graph, inputs)
    assert first_divergence(compiled, program, inputs, reference, HOST) is None
    loads = [s for s in steps(program) if isinstance(s.work, LoadWeights)]
    if not loads:
        return
    layer = loads[len(loads) // 2].layer
    constants = program.constants.copy()
    for step in loads:
        if step.layer == layer and isinstance(step.work, LoadWeights):
            for row in step.work.rows():
                constants[row : row + step.work.n] = rng.integers(0, 256, step.work.n)
    wrong = replace(program, constants=constants)
    found = first_divergence(compiled, wrong, inputs, reference, HOST)
    if found is None:  # what these weights add may be clipped, or rounded away
        made = execute(wrong, inputs, HOST)
        assert all(np.array_equal(made[v.name], reference[id(v)]) for v in compiled.graph.outputs)
        return
    readers = [c.step.layer for c in found.changes]
    assert readers
    assert found.layer in readers
