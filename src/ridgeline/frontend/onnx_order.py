"""The nodes of an ONNX graph in an order in which they can be computed."""

from __future__ import annotations

from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_bodies import captured_names


def name_of(node: Any) -> str:
    """What messages call a NodeProto: its name, or that of its first output."""
    return node.name or next((name for name in node.output if name), node.op_type)


def in_order(graph: Any, where: str) -> list[Any]:
    """The nodes with every producer before its users; files need not be sorted to run."""
    for node in graph.node:
        if not any(node.output):
            raise RidgelineError(
                f"node '{node.name}' ({node.op_type}) makes nothing",
                where=where,
                fix="The file is damaged: export the model again.",
            )
    made = {name for node in graph.node for name in node.output if name}
    reads = [(node, {*node.input, *captured_names(node)} & made) for node in graph.node]
    ready = set[str]()
    ordered: list[Any] = []
    while reads:
        waiting: list[tuple[Any, set[str]]] = []
        for node, names in reads:
            if names <= ready:
                ordered.append(node)
                ready.update(node.output)
            else:
                waiting.append((node, names))
        if len(waiting) == len(reads):
            raise RidgelineError(
                f"node '{name_of(waiting[0][0])}' is part of a cycle",
                where=where,
                fix="The file is damaged: export the model again.",
            )
        reads = waiting
    return ordered
