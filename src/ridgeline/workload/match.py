"""Attention that a file spells out: two products with a softmax between them, which runtimes
compute as one, without storing the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ridgeline.ir import Graph, Node, Value
from ridgeline.workload.operators import ELEMENTWISE, plain_op
from ridgeline.workload.sources import Sources

_PRODUCTS = ("MatMul", "Einsum", "QLinearMatMul")
_LAYOUTS = ("Transpose", "Expand")
_SHAPES = ("Reshape", "Unsqueeze", "Squeeze", "Identity")
_LONGEST = 12
"""Nodes between a product and the softmax: scale, mask, casts, quantisations."""


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """The nodes of one attention, and the values that are its keys and values."""

    nodes: tuple[Node, ...]
    last: Node
    keys: Value
    values: Value


class _Uses:
    def __init__(self, graph: Graph) -> None:
        self.users = graph.users()
        self.producers = graph.producers()
        self.outputs = {id(v) for v in graph.outputs}

    def only_reader(self, value: Value) -> Node | None:
        readers = self.users.get(id(value), [])
        return readers[0] if len(readers) == 1 and id(value) not in self.outputs else None


def find_attention(graph: Graph, sources: Sources) -> list[Attention]:
    """Every attention; the Transposes and Expands of its operands become views in `sources`."""
    uses = _Uses(graph)
    found: list[Attention] = []
    for node in graph.nodes:
        if plain_op(node) != "Softmax":
            continue
        upper = _product_before(node, uses, sources)
        lower = _product_after(node, uses, sources)
        if upper and lower:
            first, last = upper[-1], lower[-1]
            layouts = _layouts(first, last, uses)
            for layout in layouts:
                sources.view(layout)
            nodes = (*reversed(upper), node, *lower)
            found.append(Attention(nodes, last, first.input(1), last.input(1)))
    return found


def _product_before(softmax: Node, uses: _Uses, sources: Sources) -> list[Node]:
    """From the softmax's input up to a product of two activations; empty if there is none."""
    return _climb(softmax.input(0), softmax.input(0).type.elements, uses, sources, _LONGEST)


def _climb(value: Value, elements: int, uses: _Uses, sources: Sources, left: int) -> list[Node]:
    node = uses.producers.get(id(value))
    if node is None or not left or uses.only_reader(value) is None:
        return []
    if value.type.elements != elements:
        return []
    if _multiplies(node, sources):
        return [node]
    if plain_op(node) not in ELEMENTWISE and not sources.is_view(node):
        return []
    for source in node.inputs:
        if source is not None:
            above = _climb(source, elements, uses, sources, left - 1)
            if above:
                return [node, *above]
    return []


def _multiplies(node: Node, sources: Sources) -> bool:
    if plain_op(node) not in _PRODUCTS or len(node.inputs) < 2:
        return False
    return not any(sources.is_constant(node.input(i)) for i in (0, 1))


def _product_after(softmax: Node, uses: _Uses, sources: Sources) -> list[Node]:
    """From the softmax's output down to a product of which it is the first operand."""
    path: list[Node] = []
    value = softmax.output
    for _ in range(_LONGEST):
        node = uses.only_reader(value)
        if node is None:
            guard = _guard(value, uses)
            if not guard:
                return []
            path += guard[:1]
            node = guard[1]
        path.append(node)
        if _multiplies(node, sources):
            return path if node.input(0) is value else []
        if plain_op(node) not in ELEMENTWISE and not sources.is_view(node):
            return []
        value = node.output
    return []


def _scales(node: Node) -> bool:
    """Whether a node multiplies by one number, as attention does with queries and keys."""
    factor = node.optional(1)
    return node.op in ("Mul", "Div") and factor is not None and factor.type.elements == 1


def _guard(value: Value, uses: _Uses) -> list[Node]:
    """IsNaN and Where, by which PyTorch puts 0 where every key of a query is masked."""
    readers = uses.users.get(id(value), [])
    test = next((n for n in readers if n.op == "IsNaN"), None)
    if len(readers) != 2 or test is None:
        return []
    chosen = uses.only_reader(test.output)
    return [test, chosen] if chosen is not None and chosen in readers else []


def _layouts(first: Node, last: Node, uses: _Uses) -> Iterator[Node]:
    """Transposes, Expands and scales that only prepare the operands, and lay out the result.

    Those that make an operand come first, so that views are followed from their beginnings.
    """
    for value in (*first.inputs[:2], last.input(1)):
        chain: list[Node] = []
        while value is not None:
            node = uses.producers.get(id(value))
            if node is None or uses.only_reader(value) is None:
                break
            if node.op in _LAYOUTS or _scales(node):
                chain.append(node)
            elif node.op not in _SHAPES:
                break
            value = node.inputs[0]
        yield from reversed(chain)
    after = uses.only_reader(last.output)
    while after is not None and after.op in _SHAPES:
        after = uses.only_reader(after.output)
    if after is not None and after.op == "Transpose":
        yield after
