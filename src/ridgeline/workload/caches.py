"""Keys and values that a model takes in or gives out: a cache, which stays in the chip's memory.

A server keeps them there from token to token, and never sends them over the host link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ridgeline.ir import Graph, Node, Value
from ridgeline.workload.match import Attention
from ridgeline.workload.operators import plain_op

_LAYOUTS = frozenset(
    [
        *("Concat", "Transpose", "Reshape", "Expand", "Tile", "Squeeze", "Unsqueeze", "Identity"),
        *("Slice", "Gather", "Cast", "QuantizeLinear", "DequantizeLinear"),
        *("ScatterND", "ScatterElements", "TensorScatter"),
    ]
)
"""What arranges or appends to elements of its first input, or of all that a Concat has."""
_SIZES = ("Shape", "Size")
_PAST = {
    "Attention": (4, 5),
    "com.microsoft::MultiHeadAttention": (6, 7),
    "com.microsoft::GroupQueryAttention": (3, 4),
    "com.microsoft::Attention": (4,),
}


def reads_past(op: str, place: int) -> bool:
    """Whether an input of an attention operator holds keys or values."""
    packed = op == "com.microsoft::Attention"
    return op in _PAST and (place in _PAST[op] or (place in (1, 2) and not packed))


def caches(graph: Graph, attentions: Iterable[Attention]) -> frozenset[int]:
    """The inputs and outputs of a graph, by id, that are keys and values of some attention.

    From what an attention reads it goes up through what only arranges elements. An input that
    anything else reads too has to arrive first, and is none.
    """
    attentions = list(attentions)
    last = {id(one.nodes[0]) for one in attentions} | {id(one.last) for one in attentions}
    starts = [value for one in attentions for value in (one.keys, one.values)]
    presents: set[int] = set()
    for node in graph.nodes:
        op = plain_op(node)
        if op in _PAST:
            starts += [v for i, v in enumerate(node.inputs) if v is not None and reads_past(op, i)]
            presents |= {id(v) for v in node.outputs[1:]}
    producers = graph.producers()
    found = _upwards(starts, producers)
    users = graph.users()

    def only_kept(value: Value) -> bool:
        for node in users.get(id(value), ()):
            kept = all(id(v) in found for v in node.outputs) or plain_op(node) in _SIZES
            attends = id(node) in last and node.inputs[0] is not value
            past = any(v is value and reads_past(plain_op(node), i) for i, v in _inputs(node))
            if not (kept or attends or past):
                return False
        return True

    taken = {id(v) for v in graph.inputs if id(v) in found and only_kept(v)}
    given = {id(v) for v in graph.outputs if id(v) in presents or _leads_to(v, found, producers)}
    return frozenset(taken | given)


def _inputs(node: Node) -> Iterator[tuple[int, Value]]:
    return ((i, v) for i, v in enumerate(node.inputs) if v is not None)


def _upwards(starts: list[Value], producers: dict[int, Node]) -> set[int]:
    found: set[int] = set()
    left = list(starts)
    while left:
        value = left.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        node = producers.get(id(value))
        if node is not None and plain_op(node) in _LAYOUTS:
            every = node.inputs if plain_op(node) == "Concat" else node.inputs[:1]
            left += [v for v in every if v is not None]
    return found


def _leads_to(value: Value, found: set[int], producers: dict[int, Node]) -> bool:
    """Whether an output is one of those values, or one laid out anew."""
    while id(value) not in found:
        node = producers.get(id(value))
        if node is None or plain_op(node) not in _LAYOUTS or plain_op(node) == "Concat":
            return False
        value = node.input(0)
    return True
