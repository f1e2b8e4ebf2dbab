"""The part of a graph that runs on the accelerator, as a graph of its own, for hardware."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.compiler.place import Placement, place
from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.description import Machine
from ridgeline.passes.dead import remove_dead


def device_part(graph: Graph, machine: Machine) -> Graph:
    """The nodes between the host's, with stored integers as inputs and outputs.

    Raises RidgelineError where the machine runs nothing of it, or several parts with the host's
    work between them.
    """
    graph = remove_dead(graph)
    placement = place(graph, machine)
    parts = [nodes for on_device, nodes in placement.segments if on_device]
    if not parts:
        raise RidgelineError(
            f"nothing of '{graph.name}' runs on machine {machine.name}",
            fix="`ridgeline run` says of each layer why",
        )
    if len(parts) > 1:
        raise _several(placement, parts)
    (nodes,) = parts
    made = {id(value) for node in nodes for value in node.outputs}
    entering: dict[int, Value] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None and not value.is_constant and id(value) not in made:
                entering[id(value)] = value
    inside = {id(node) for node in nodes}
    asked = {id(value) for value in graph.outputs}
    asked |= {
        id(value)
        for node in graph.nodes
        if id(node) not in inside
        for value in node.inputs
        if value is not None
    }
    leaving = [value for node in nodes for value in node.outputs if id(value) in asked]
    part = replace(graph, inputs=tuple(entering.values()), outputs=tuple(leaving), nodes=nodes)
    return part.check()


def _several(placement: Placement, parts: list[tuple[Node, ...]]) -> RidgelineError:
    """Names the host's first node that follows the first part, a number's change of form aside."""
    reached = {id(value) for node in parts[0] for value in node.outputs}
    following: list[Node] = []
    for node in placement.graph.nodes:
        if placement.reasons[id(node)] is None or not any(id(v) in reached for v in node.inputs):
            continue
        reached |= {id(value) for value in node.outputs}
        following.append(node)
    works = [n for n in following if n.op not in ("QuantizeLinear", "DequantizeLinear")]
    between = (works or following)[0]
    return RidgelineError(
        f"the accelerator runs {len(parts)} parts of it with the host between them, first at"
        f" '{between.name}' ({between.op}): {placement.reasons[id(between)]}",
        where=f"graph '{placement.graph.name}'",
        fix="Cut the model there, or give a machine that has the operator",
    )
