"""The shipped model's convolution and dense layers, each compiled alone, on the hardware."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline
from compile_cases import graph_of
from conftest import ShippedModel
from ridgeline.compiler import compile
from ridgeline.ir import Graph, Node
from ridgeline.machine.description import Machine
from ridgeline.machine.loader import load_machine
from ridgeline.rtl.cosim import CosimCase, cosimulate_many
from ridgeline.rtl.support import unsupported_instructions
from rtl_cases import bit_differences, cycle_differences, random_cases, stalled
from single_node import meaning, stored_inputs

LAYERS = {
    "stem/conv",
    "block1/depthwise",
    "block1/pointwise",
    "widen/conv",
    "block2/depthwise",
    "block2/pointwise",
    "reduce/conv",
    "head/dense",
}
"""Each on its own; poolings and additions run in `test_whole_model.py`."""


@pytest.fixture(scope="module")
def quantised(shipped: ShippedModel) -> Graph:
    graph = ridgeline.read_onnx(shipped.model)
    with np.load(shipped.calibration) as samples:
        return ridgeline.quantize(graph, {name: samples[name] for name in samples})


def layer_cases(graph: Graph, machine: Machine) -> list[tuple[Node, list[np.ndarray], CosimCase]]:
    """Every layer that the hardware covers, with random stored inputs."""
    found: list[tuple[Node, list[np.ndarray], CosimCase]] = []
    for seed, node in enumerate(n for n in graph.nodes if n.op in ("Conv", "MatMul")):
        program = compile(graph_of(node), machine, host_link=False)
        if unsupported_instructions(program):
            continue
        stored = stored_inputs(node, seed)
        values = [value for value in node.inputs if value is not None]
        given = zip(values, stored, strict=True)
        inputs = {value.name: array for value, array in given if value.data is None}
        found.append((node, stored, CosimCase(program, inputs)))
    return found


@pytest.mark.parametrize("name", ["tiny-8", "tiny-16"])
def test_layers_and_random_programs(name: str, quantised: Graph) -> None:
    machine = load_machine(name)
    layers = layer_cases(quantised, machine)
    assert {node.name for node, _, _ in layers} == LAYERS
    cases = [case for _, _, case in layers] + random_cases(machine, range(30))
    results = cosimulate_many(cases)
    for (node, stored, _), result in zip(layers, results, strict=False):
        made = result.outputs[node.output.name]
        np.testing.assert_array_equal(made, meaning(node, stored), node.name)
    for case, result in zip(cases, results, strict=True):
        assert bit_differences(case, result) == []
        assert cycle_differences(case, result) == []
    for case, result in zip(cases, cosimulate_many(stalled(cases)), strict=True):
        assert bit_differences(case, result) == []
