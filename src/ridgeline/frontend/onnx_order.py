"""The nodes of an ONNX graph in an order in which they can be computed."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_bodies import captured_names


def name_of(node: Any) -> str:
    """What messages call a NodeProto: its name, or that of its first output."""
    return node.name or next((name for name in node.output if name), node.op_type)


def name_absent_outputs(node: Any) -> None:
    """Give unwanted outputs before a wanted one names, since outputs count by position."""
    name = name_of(node)
    while node.output and not node.output[-1]:
        del node.output[-1]
    node.output[:] = [o or f"{name}/unused{i}" for i, o in enumerate(node.output)]


def in_order(graph: Any, where: str) -> list[Any]:
    """The nodes with every producer before its users; files need not be sorted to run."""
    for node in graph.node:
        if not any(node.output):
            raise RidgelineError(
                f"node '{node.name}' ({node.op_type}) makes nothing",
                where=where,
                fix="The file is damaged: export the model again.",
            )
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    users: dict[int, list[int]] = {}
    missing: list[int] = []
    for index, node in enumerate(graph.node):
        sources = {maker[n] for n in (*node.input, *captured_names(node)) if n in maker}
        missing.append(len(sources))
        for source in sources:
            users.setdefault(source, []).append(index)
    # Of those that can be computed the first in the file, so that a sorted file stays as it is.
    ready = [index for index, count in enumerate(missing) if not count]
    ordered: list[int] = []
    while ready:
        index = heappop(ready)
        ordered.append(index)
        for user in users.get(index, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    if len(ordered) < len(missing):
        stuck = next(i for i, count in enumerate(missing) if count)
        raise RidgelineError(
            f"node '{name_of(graph.node[stuck])}' is part of a cycle",
            where=where,
            fix="The file is damaged: export the model again.",
        )
    return [graph.node[index] for index in ordered]
