"""Nodes whose results nobody reads are removed."""

from __future__ import annotations

from ridgeline.ir import Graph, Node
from ridgeline.passes.edit import rebuild


def remove_dead(graph: Graph) -> Graph:
    """The graph without nodes that no output depends on. Graph inputs stay, read or not."""
    wanted = {id(v) for v in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(id(v) in wanted for v in node.outputs):
            kept.append(node)
            wanted.update(id(v) for v in node.inputs if v is not None)
    return rebuild(graph, reversed(kept))
