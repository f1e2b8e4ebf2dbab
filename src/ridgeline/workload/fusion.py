"""Which nodes a runtime runs as one kernel: a product with what follows element by element,
chains of vector operations, attention. Moves stay alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from ridgeline.ir import Graph, Node
from ridgeline.workload.costs import Work
from ridgeline.workload.match import Attention, find_attention
from ridgeline.workload.operators import ELEMENTWISE, REDUCTIONS, count, plain_op
from ridgeline.workload.sources import Sources


@dataclass(slots=True, eq=False)
class Group:
    """Nodes that run as one, in order. `first` and `last` are their places in the graph."""

    number: int
    nodes: list[Node]
    works: list[Work]
    first: int
    last: int
    attention: Attention | None = None
    before: set[int] = field(default_factory=set[int])

    @property
    def anchor(self) -> int:
        """Which node gives its name: the first product, else the first reduction, else the first.

        A place within `nodes`.
        """
        ranks = [_rank(node, work) for node, work in zip(self.nodes, self.works, strict=True)]
        return ranks.index(min(ranks))


def _rank(node: Node, work: Work) -> int:
    if work.kind in ("product", "attention", "recurrent"):
        return 0
    return 1 if plain_op(node) in REDUCTIONS else 2


def fuse(graph: Graph, sources: Sources, joined: bool = True) -> list[Group]:
    """The groups in an order in which they can run, near that of the graph.

    Without `joined` every node is a group of its own, as where a framework runs node by node.
    """
    attentions = find_attention(graph, sources) if joined else []
    inside = {id(node): one for one in attentions for node in one.nodes}
    fusing = _Fusing(sources, joined)
    for place, node in enumerate(graph.nodes):
        if not sources.is_view(node):
            fusing.add(node, place, inside.get(id(node)))
    return _ordered(fusing.groups)


def _ordered(groups: list[Group]) -> list[Group]:
    """Each after those that it needs; of several that can run, the one that ends first."""
    waits = {group.number: len(group.before) for group in groups}
    after: dict[int, list[int]] = {}
    for group in groups:
        for number in group.before:
            after.setdefault(number, []).append(group.number)
    ready = [(group.last, group.number) for group in groups if not group.before]
    heapify(ready)
    ordered: list[Group] = []
    while ready:
        _, number = heappop(ready)
        ordered.append(groups[number])
        for later in after.get(number, ()):
            waits[later] -= 1
            if not waits[later]:
                heappush(ready, (groups[later].last, later))
    assert len(ordered) == len(groups)
    return ordered


class _Fusing:
    def __init__(self, sources: Sources, joined: bool) -> None:
        self.sources = sources
        self.joined = joined
        self.groups: list[Group] = []
        self.made: dict[int, Group] = {}
        self.attention: dict[int, Group] = {}

    def add(self, node: Node, place: int, attention: Attention | None) -> None:
        work = count(node)
        before = self._before(node)
        group = self.attention.get(id(attention)) if attention else None
        if attention is None and self.joined:
            group = self._joined(node, work, before)
        if group is None:
            group = Group(len(self.groups), [], [], place, place, attention)
            self.groups.append(group)
            if attention is not None:
                self.attention[id(attention)] = group
        group.nodes.append(node)
        group.works.append(work)
        group.last = place
        group.before |= {b.number for b in before} - {group.number}
        for output in node.outputs:
            self.made[id(output)] = group

    def _before(self, node: Node) -> list[Group]:
        """Groups that make the node's inputs, the latest first."""
        found: dict[int, Group] = {}
        for value in node.inputs:
            group = self.made.get(id(self.sources.of(value).value)) if value is not None else None
            if group is not None:
                found[group.number] = group
        return sorted(found.values(), key=lambda group: -group.last)

    def _joined(self, node: Node, work: Work, before: list[Group]) -> Group | None:
        for group in before:
            others = [other for other in before if other is not group]
            if self._may_join(node, work, group) and not self._follows(others, group):
                return group
        return None

    def _may_join(self, node: Node, work: Work, group: Group) -> bool:
        if work.kind != "vector":
            return False
        kind = group.works[group.anchor].kind
        elementwise = plain_op(node) in ELEMENTWISE
        if kind in ("product", "attention"):
            if group.attention is not None and group.attention.last not in group.nodes:
                return False
            main = group.nodes[-1].output
            return elementwise and node.output.type.elements == main.type.elements
        reduces = plain_op(node) in REDUCTIONS
        return kind == "vector" and (elementwise or reduces)

    def _follows(self, others: list[Group], group: Group) -> bool:
        """Whether one of the others needs what the group makes, so that joining makes a ring."""
        left = list(others)
        seen: set[int] = set()
        while left:
            other = left.pop()
            if other is group:
                return True
            if other.number in seen or other.last < group.first:
                continue
            seen.add(other.number)
            left += [self.groups[number] for number in other.before]
        return False
