"""Which nodes of a float graph are quantised, and which values share one quantisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.ir import Graph, Node, Value
from ridgeline.numerics.formats import FP32
from ridgeline.quant.parameters import Clip

PRODUCTS = ("Conv", "MatMul")
# The output of these keeps the input's quantisation.
KEEPING = ("Reshape", "Transpose", "Move", "MaxPool", "Clip")
# These are worth their rounding only where what they read is stored already.
_FOLLOWING = ("Lookup", "PRelu", "Sub", "Max", "Min")
_OTHERS = (*_FOLLOWING, "Add", "Mul", "AveragePool", "GlobalAveragePool", "Concat")

# Operators whose rounding costs precision and which save nothing next to a float neighbour.
_BETWEEN = (*_FOLLOWING, "Add", "Mul")

# Sharing a Concat's quantisation may widen an input's range this many times (two bits), no more.
_MAX_WIDENING = 4.0


def select_nodes(graph: Graph, keep_float: Sequence[str]) -> list[Node]:
    """Products, and the quantisable operators that touch them.

    An Add, Mul or Lookup is taken only where it stands between such nodes: what it reads is in
    integers already, and something reads its result in integers. Elsewhere it would round values
    that are real on one side, as in a normalisation that is spelled out.
    In a graph without products every quantisable operator is taken. Raises RidgelineError when
    `keep_float` names neither a node nor an operator of the graph.
    """
    known = {n.name for n in graph.nodes} | {n.op for n in graph.nodes}
    for name in keep_float:
        if name not in known:
            raise RidgelineError(
                f"keep_float names '{name}', which is no node and no operator of the model",
                where="recipe",
                fix=did_you_mean(name, known),
            )
    kept = set(keep_float)
    able = [n for n in graph.nodes if _is_able(n) and not {n.name, n.op} & kept]
    if not any(n.op in PRODUCTS for n in able):
        return able
    links = _Links(graph)
    while True:
        chosen = links.reached(able)
        leading = links.leading(able, chosen)
        between = [n for n in able if n.op not in _BETWEEN or links.is_between(n, chosen, leading)]
        if len(between) == len(able):
            return [n for n in able if id(n) in chosen]
        able = between


class _Links:
    """Who makes and who reads each value."""

    def __init__(self, graph: Graph) -> None:
        self._producers, self._users = graph.producers(), graph.users()
        self._outputs = {id(v) for v in graph.outputs}

    def reached(self, able: Sequence[Node]) -> set[int]:
        """The products among `able` nodes and those joined to one through others, by id."""
        allowed = {id(n) for n in able}
        waiting = [n for n in able if n.op in PRODUCTS]
        found = {id(n) for n in waiting}
        while waiting:
            node = waiting.pop()
            before = [self._producers.get(id(v)) for v in node.inputs if v is not None]
            for near in (*before, *self._readers(node)):
                if near is not None and id(near) in allowed and id(near) not in found:
                    found.add(id(near))
                    waiting.append(near)
        return found

    def leading(self, able: Sequence[Node], chosen: set[int]) -> set[int]:
        """The chosen nodes from which integers go on to a product or to the model's outputs."""
        found: set[int] = set()
        for node in reversed([n for n in able if id(n) in chosen]):
            on = any(id(r) in found or r.op in PRODUCTS for r in self._readers(node, chosen))
            if on or node.op in PRODUCTS or id(node.output) in self._outputs:
                found.add(id(node))
        return found

    def is_between(self, node: Node, chosen: set[int], leading: set[int]) -> bool:
        """Whether all that it computes from is in integers, and integers go on from it.

        The model's outputs count as such, and its inputs for Add and Mul.
        """
        given = [v for v in node.inputs if v is not None and not v.is_constant]
        makers = [self._producers.get(id(v)) for v in given]
        follows = node.op in _FOLLOWING
        fed = all(not follows if m is None else id(m) in chosen for m in makers)
        return fed and id(node) in leading

    def _readers(self, node: Node, among: set[int] | None = None) -> list[Node]:
        readers = [n for v in node.outputs for n in self._users.get(id(v), [])]
        return [n for n in readers if among is None or id(n) in among]


def _is_able(node: Node) -> bool:
    """Whether the node has an integer meaning with the operands it has."""
    values = [v for v in node.inputs if v is not None]
    if node.op not in (*PRODUCTS, *KEEPING, *_OTHERS):
        return False
    if any(v.type.dtype is not FP32 for v in (*values, *node.outputs)):
        return False
    if any(not v.type.shape for v in activations(node)):
        return False  # a scalar has no channels to lie along
    bias = node.optional(2) if node.op in PRODUCTS else None
    if bias is not None and not bias.is_constant:
        return False
    if node.op == "PRelu":
        return node.input(1).is_constant and not node.input(0).is_constant
    if node.op == "Conv":
        return node.input(1).is_constant and not node.input(0).is_constant
    if node.op != "MatMul" or bias is None:
        return True
    return node.input(1).is_constant and len(node.input(1).type.shape) == 2


@dataclass(slots=True)
class Class:
    """Values of one quantisation: their joint range and the clips of the nodes that make them."""

    low: float
    high: float
    clips: tuple[Clip, ...] = ()


class Sharing:
    """Values by class. Built from the selected nodes and the observed ranges (by id(value))."""

    def __init__(self, nodes: Sequence[Node], ranges: Mapping[int, tuple[float, float]]) -> None:
        self._parent: dict[int, int] = {}
        self._classes: dict[int, Class] = {}
        for node in nodes:
            clip = node.attrs.get("clip")
            for value in activations(node):
                if id(value) not in self._parent:
                    low, high = ranges.get(id(value), (0.0, 0.0))
                    self._parent[id(value)] = id(value)
                    self._classes[id(value)] = Class(low, high)
            if clip is not None:
                self._classes[id(node.output)].clips = (clip,)
        for node in nodes:
            if node.op in KEEPING and not node.input(0).is_constant:
                self._join(node.input(0), node.output)
        for node in nodes:
            if node.op == "Concat":
                self._share_concat(node)

    def of(self, value: Value) -> Class:
        return self._classes[self.root(value)]

    def root(self, value: Value) -> int:
        """What identifies the value's class."""
        key = id(value)
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def _join(self, a: Value, b: Value) -> None:
        first, second = self.root(a), self.root(b)
        if first != second:
            self._classes[first] = _union(self._classes[first], self._classes[second])
            self._parent[second] = first

    def _share_concat(self, node: Node) -> None:
        inputs = [v for v in node.inputs if v is not None and not v.is_constant]
        for value in inputs:
            joined = _union(self.of(value), self.of(node.output))
            classes = (self.of(value), self.of(node.output))
            if all(_holds(joined, c) for c in classes):
                self._join(value, node.output)


def _union(a: Class, b: Class) -> Class:
    return Class(min(a.low, b.low), max(a.high, b.high), a.clips + b.clips)


def _holds(joined: Class, part: Class) -> bool:
    """Whether the joined range keeps a part's clips at its edges and most of its precision."""
    span, wide = _span(part), _span(joined)
    if span > 0 and wide > _MAX_WIDENING * span:
        return False
    return all(
        (low is None or joined.low >= low) and (high is None or joined.high <= high)
        for low, high in part.clips
    )


def _span(part: Class) -> float:
    return max(part.high, 0.0) - min(part.low, 0.0)


def activations(node: Node) -> list[Value]:
    """The node's values that are computed: what has a quantisation from calibration."""
    inputs: Iterable[Value | None] = node.inputs
    return [v for v in (*inputs, *node.outputs) if v is not None and not v.is_constant]
