"""Parts of a graph between one value and one result: what one operator could stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ridgeline.ir import Graph, Node, Value
from ridgeline.passes.edit import Uses, rebuild

# What exporters spell one operator with takes fewer nodes.
MOST_NODES = 24

Stands = Callable[["Part"], list[Node] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Nodes in the graph's order that compute the last one's output from `root` and constants;
    nothing outside of them reads what the others make.
    """

    root: Value
    nodes: tuple[Node, ...]

    @property
    def output(self) -> Value:
        return self.nodes[-1].output

    def graph(self, opset: int) -> Graph:
        """The part as a Graph of its own."""
        return Graph("part", (self.root,), (self.output,), self.nodes, opset).check()


def replace_parts(graph: Graph, allowed: frozenset[str], stands: Stands) -> Graph:
    """The graph with `stands(part)` in the place of every part that it gives nodes for.

    Parts of `allowed` operators are tried from the end of the graph, the largest first.
    """
    uses = Uses(graph)
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    made: dict[int, list[Node]] = {}
    gone: set[int] = set()
    for last in reversed(graph.nodes):
        if id(last) in gone or last.op not in allowed or len(last.outputs) != 1:
            continue
        for part in reversed(list(_parts(last, uses, places, allowed))):
            if gone.isdisjoint(map(id, part.nodes)) and (found := stands(part)) is not None:
                gone.update(map(id, part.nodes))
                made[id(last)] = found
                break
    if not made:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += made.get(id(node), [] if id(node) in gone else [node])
    return rebuild(graph, nodes)


def _parts(
    last: Node, uses: Uses, places: dict[int, int], allowed: frozenset[str]
) -> Iterator[Part]:
    """Every part of at least two nodes that ends in `last`, the smallest first.

    The value that is made latest is computed from next: when only one is left, all that `last`
    computes comes from it.
    """
    inside = {id(last): last}
    open_values = _computed([last])
    while len(inside) <= MOST_NODES:
        makers = {id(v): uses.producer(v) for v in open_values.values()}
        node = max(
            (m for m in makers.values() if m is not None),
            key=lambda m: places[id(m)],
            default=None,
        )
        if len(open_values) == 1 and len(inside) > 1 and _is_closed(inside, last, uses):
            nodes = sorted(inside.values(), key=lambda n: places[id(n)])
            yield Part(next(iter(open_values.values())), tuple(nodes))
        if node is None or node.op not in allowed or len(node.outputs) != 1:
            return
        inside[id(node)] = node
        del open_values[id(node.output)]
        open_values |= _computed([node])


def _computed(nodes: Iterable[Node]) -> dict[int, Value]:
    return {id(v): v for n in nodes for v in n.inputs if v is not None and not v.is_constant}


def _is_closed(inside: dict[int, Node], last: Node, uses: Uses) -> bool:
    return all(
        node is last
        or not (
            uses.is_output(node.output)
            or any(id(reader) not in inside for reader in uses.readers(node.output))
        )
        for node in inside.values()
    )
