"""Building a graph anew from changed nodes: what every pass does in its last line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.ir import Graph, Node, Value


def rebuild(
    graph: Graph, nodes: Iterable[Node], replaced: Mapping[int, Value] | None = None
) -> Graph:
    """The graph of `nodes` (in order), each use of a replaced value (by id) changed, checked.

    Replacements are followed through chains. Raises GraphError when the result is not a graph.
    """
    table = replaced or {}
    changed = tuple(_with_inputs(node, table) for node in nodes)
    outputs = tuple(_final(v, table) for v in graph.outputs)
    return Graph(graph.name, graph.inputs, outputs, changed, graph.opset).check()


def _with_inputs(node: Node, table: Mapping[int, Value]) -> Node:
    inputs = tuple(None if v is None else _final(v, table) for v in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return replace(node, inputs=inputs)


def _final(value: Value, table: Mapping[int, Value]) -> Value:
    while id(value) in table:
        value = table[id(value)]
    return value


def with_attrs(node: Node, **changes: Any) -> dict[str, Any]:
    """The node's attributes with some set, or removed where the change is None."""
    merged = {**node.attrs, **changes}
    return {k: v for k, v in merged.items() if v is not None}


class Uses:
    """Who makes and who reads each value of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._users = graph.users()
        self._producers = graph.producers()
        self._outputs = {id(v) for v in graph.outputs}

    def producer(self, value: Value | None) -> Node | None:
        return None if value is None else self._producers.get(id(value))

    def readers(self, value: Value) -> list[Node]:
        return self._users.get(id(value), [])

    def is_output(self, value: Value) -> bool:
        return id(value) in self._outputs

    def sole_reader(self, value: Value) -> Node | None:
        """The one node that reads the value, once, when nothing else sees it."""
        readers = self.readers(value)
        return readers[0] if len(readers) == 1 and not self.is_output(value) else None


def origins(*nodes: Node) -> tuple[str, ...]:
    """The ONNX nodes that a merged node came from."""
    return tuple(dict.fromkeys(o for n in nodes for o in (n.origin or (n.name,))))
