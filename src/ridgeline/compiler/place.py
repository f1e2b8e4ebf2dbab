"""Which unit each node runs on, or why it falls back to the host, and the segments that follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.compiler.support import Storage, Stores, host_reason, reshaped_storage
from ridgeline.ir import Graph, Node
from ridgeline.machine.description import Machine


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Each node's reason for the host (None: on the device), and each device value's storage."""

    graph: Graph
    reasons: dict[int, str | None]
    storage: dict[int, Storage]
    segments: tuple[tuple[bool, tuple[Node, ...]], ...] = field(default=())
    """(on the device, nodes) in order."""

    def on_device(self, node: Node) -> bool:
        return self.reasons[id(node)] is None


def place(graph: Graph, machine: Machine) -> Placement:
    """Place every node; a node that the device cannot take goes to the host with its reason."""
    forced: dict[int, str] = {}
    while True:
        reasons, storage = _place_once(graph, machine, forced)
        wrong = _flattened_for_host(graph, reasons, storage)
        if not wrong:
            return Placement(graph, reasons, storage, _segments(graph, reasons))
        forced |= wrong


def _place_once(
    graph: Graph, machine: Machine, forced: dict[int, str]
) -> tuple[dict[int, str | None], Stores]:
    reasons: dict[int, str | None] = {}
    storage: Stores = {}
    for node in graph.nodes:
        reason = forced.get(id(node)) or host_reason(node, machine, storage)
        reasons[id(node)] = reason
        if reason is None:
            _store_outputs(node, storage)
    return reasons, storage


def _flattened_for_host(
    graph: Graph, reasons: dict[int, str | None], storage: Stores
) -> dict[int, str]:
    """Reshapes whose flattened result someone other than a matrix product on the device reads."""
    users, producers = graph.users(), graph.producers()
    outputs = {id(v) for v in graph.outputs}
    wrong: dict[int, str] = {}
    for key, found in storage.items():
        node = producers.get(key)
        if node is None or not found.flattened or reasons[id(node)] is not None:
            continue
        others = [u for u in users.get(key, []) if reasons[id(u)] or u.op not in _READ_FLATTENED]
        if others or key in outputs:
            wrong[id(node)] = "its result is needed in ONNX's order of elements"
    return wrong


_READ_FLATTENED = ("MatMul", "Reshape")


def _store_outputs(node: Node, storage: Stores) -> None:
    source = next(storage[id(v)] for v in node.inputs if id(v) in storage)
    if node.op == "Reshape":
        storage[id(node.output)] = reshaped_storage(node, source) or Storage(node.output, 0)
    elif node.op == "Transpose":
        axis = [int(p) for p in node.attrs["perm"]].index(source.channel_axis)
        storage[id(node.output)] = Storage(source.root, axis)
    elif node.op == "MatMul":
        storage[id(node.output)] = Storage(node.output, len(node.output.type.shape) - 1)
    else:
        storage[id(node.output)] = Storage(node.output, source.channel_axis)


def _segments(
    graph: Graph, reasons: dict[int, str | None]
) -> tuple[tuple[bool, tuple[Node, ...]], ...]:
    """Maximal runs of host and device nodes, as few as the dependencies allow.

    Each node gets the smallest number that is not below its inputs' and whose parity is its side:
    even numbers are host segments, odd ones device segments.
    """
    number: dict[int, int] = {}
    for node in graph.nodes:
        side = 1 if reasons[id(node)] is None else 0
        level = 0
        for value in node.inputs:
            if value is not None:
                level = max(level, number.get(id(value), 0))
        level += (level % 2) != side
        for value in node.outputs:
            number[id(value)] = level
    levels: dict[int, list[Node]] = {}
    for node in graph.nodes:
        levels.setdefault(number[id(node.output)], []).append(node)
    return tuple((level % 2 == 1, tuple(levels[level])) for level in sorted(levels))
