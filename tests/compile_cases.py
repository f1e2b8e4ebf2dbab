"""Single nodes compiled whole, and machines small enough to make tiles and spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler import compile
from ridgeline.frontend.runtime import OnnxRuntimeExecutor
from ridgeline.ir import Graph, Node
from ridgeline.machine.description import Machine
from ridgeline.machine.execute import execute
from ridgeline.machine.instructions import Load, Store
from ridgeline.machine.loader import load_machine
from ridgeline.machine.program import Program
from single_node import meaning, stored_inputs

DATAFLOWS = ("weight-stationary", "output-stationary", "input-stationary")


def small_machine(dataflow: str = "weight-stationary", *settings: str) -> Machine:
    """A 4 x 4 array that takes int16 as well."""
    return load_machine(
        "tiny-8",
        [
            "array.rows=4",
            "array.cols=4",
            "vector.lanes=4",
            "array.accumulator_entries=64",
            "array.accumulator_bits=48",
            "array.macs_per_pe_per_cycle={int8=1, int16=0.5}",
            "unified_buffer.bytes=16384",
            f"array.dataflow={dataflow}",
            *settings,
        ],
    )


def graph_of(node: Node) -> Graph:
    """A graph of one node, whose activations are the inputs."""
    inputs = tuple(v for v in node.inputs if v is not None and v.data is None)
    return Graph("one", inputs, node.outputs, (node,)).check()


def run_compiled(
    node: Node, machine: Machine, seed: int = 0
) -> tuple[Program, npt.NDArray[Any], npt.NDArray[Any]]:
    """(program, its output, the node's integer meaning) for random stored inputs."""
    stored = stored_inputs(node, seed)
    program = compile(graph_of(node), machine)
    named = {
        v.name: s
        for v, s in zip((v for v in node.inputs if v is not None), stored, strict=True)
        if v.data is None
    }
    made = execute(program, named, OnnxRuntimeExecutor())
    return program, made[node.output.name], meaning(node, stored)


def on_device(program: Program) -> bool:
    """Whether the program's one layer runs on the accelerator."""
    return program.layers[0].placed != "host"


def host_reason(program: Program) -> str:
    return program.layers[0].reason


def unequal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    """How many elements differ."""
    return int(np.count_nonzero(a != b))


def moved_bytes(program: Program) -> int:
    """Bytes between device memory and unified buffer."""
    return sum(
        i.element_bytes * int(np.prod(i.counts))
        for i in program.instructions
        if isinstance(i, (Load, Store))
    )
