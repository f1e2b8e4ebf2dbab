"""Whose bytes a value has: views, and constants laid out or dequantised, have those of another."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.ir import Graph, Node, Value
from ridgeline.workload.operators import plain_op

_VIEWS = frozenset(
    [
        "Reshape",
        "Identity",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Dropout",
        "DequantizeLinear",
        "Shape",
        "Size",
    ]
)
# Of constants these pick or repeat elements; whatever else has constants alone keeps their number.
_PICKS = frozenset(["Gather", "Slice", "Split", "Expand", "Tile", "GatherElements", "GatherND"])


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A value's bytes: those of `value`, of which `elements` are touched.

    A constant, stored or computed once from stored ones, has these as `roots`.
    """

    value: Value
    elements: int
    roots: tuple[Value, ...] = ()


class Sources:
    """What every value of a graph is stored as."""

    def __init__(self, graph: Graph) -> None:
        self._found: dict[int, Source] = {}
        self._constants: dict[int, Value] = {}
        self._views: set[int] = set()
        for node in graph.nodes:
            if self._is_view(node):
                self.view(node)

    def of(self, value: Value) -> Source:
        """The bytes of a value."""
        found = self._found.get(id(value))
        if found is not None:
            if found.value is value or id(found.value) not in self._found:
                return found
            # What it shares its bytes with has become a view itself since.
            inner = self.of(found.value)
            return Source(inner.value, min(found.elements, inner.elements), inner.roots)
        if value.data is None:
            return Source(value, value.type.elements)
        # One array may be in several values, with other types: the tied weights of a QDQ file.
        first = self._constants.setdefault(id(value.data), value)
        return Source(first, value.type.elements, (first,))

    def is_constant(self, value: Value) -> bool:
        return bool(self.of(value).roots)

    def is_view(self, node: Node) -> bool:
        return id(node) in self._views

    def view(self, node: Node) -> None:
        """From now on the node's outputs are the bytes of its first input."""
        self._views.add(id(node))
        source = self.of(node.input(0))
        roots = self._roots(node) if source.roots else ()
        for output in node.outputs:
            if len(roots) > 1:
                self._found[id(output)] = Source(output, output.type.elements, roots)
                continue
            picks = node.op in _PICKS
            elements = min(source.elements, output.type.elements) if picks else source.elements
            self._found[id(output)] = Source(source.value, elements, source.roots)

    def _roots(self, node: Node) -> tuple[Value, ...]:
        """The stored real tensors that the node's inputs come from, without single numbers."""
        every = [r for v in node.inputs if v is not None for r in self.of(v).roots]
        real = [r for r in every if r.type.shape and r.type.dtype.is_float]
        return tuple({id(r): r for r in real}.values())

    def _is_view(self, node: Node) -> bool:
        if plain_op(node) in _VIEWS and node.optional(0) is not None:
            return True
        present = [v for v in node.inputs if v is not None]
        return bool(present) and all(self.is_constant(v) for v in present)
