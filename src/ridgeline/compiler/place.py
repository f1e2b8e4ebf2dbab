"""Which unit each node runs on, or why it falls back to the host, and the segments that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ridgeline.compiler.storage import Storage, Stores
from ridgeline.compiler.support import host_reason, reshaped_storage
from ridgeline.ir import Graph, Node
from ridgeline.machine.description import Machine
from ridgeline.ops.evaluate import is_quantized_node


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Each node's reason for the host (None: on the device), and each device value's storage."""

    graph: Graph
    reasons: dict[int, str | None]
    storage: Stores
    segments: tuple[tuple[bool, tuple[Node, ...]], ...] = field(default=())
    """(on the device, nodes) in order."""

    def on_device(self, node: Node) -> bool:
        return self.reasons[id(node)] is None


def place(graph: Graph, machine: Machine, too_large: Mapping[int, str] | None = None) -> Placement:
    """Place every node; a node that the device cannot take goes to the host with its reason.

    `too_large`: reasons, by id(node), found when tiles were sought for what stood on the device.
    """
    wanted = _wanted_axes(graph)
    copied: frozenset[int] = frozenset()
    while True:
        reasons, storage = _place_once(graph, machine, Stores(wanted, copied), too_large or {})
        wrong = _flattened_for_others(graph, reasons, storage)
        if not wrong:
            return Placement(graph, reasons, storage, _segments(graph, reasons))
        copied |= wrong


def _place_once(
    graph: Graph, machine: Machine, storage: Stores, too_large: Mapping[int, str]
) -> tuple[dict[int, str | None], Stores]:
    reasons: dict[int, str | None] = {}
    for node in graph.nodes:
        reason = too_large.get(id(node)) or host_reason(node, machine, storage)
        reasons[id(node)] = reason
        if reason is None:
            _store_outputs(node, storage)
    return reasons, storage


def _flattened_for_others(
    graph: Graph, reasons: dict[int, str | None], storage: Stores
) -> frozenset[int]:
    """Reshapes whose flattened result someone other than a matrix product on the device reads."""
    users, producers = graph.users(), graph.producers()
    outputs = {id(v) for v in graph.outputs}
    wrong: set[int] = set()
    for key, found in storage.items():
        node = producers.get(key)
        if node is None or not found.flattened or reasons[id(node)] is not None:
            continue
        others = [u for u in users.get(key, []) if reasons[id(u)] or u.op not in _READ_FLATTENED]
        if others or key in outputs:
            wrong.add(id(node))
    return frozenset(wrong)


_READ_FLATTENED = ("MatMul", "Reshape")


def _wanted_axes(graph: Graph) -> dict[int, int]:
    """The channel axis that the first reader with a wish asks for, by id(value).

    What works element by element passes on the wish of who reads its result.
    """
    wanted: dict[int, int] = {}
    for node in reversed(graph.nodes):
        value = node.optional(0)
        if value is None or not is_quantized_node(node):
            continue
        rank = len(value.type.shape)
        passed = wanted.get(id(node.output))
        if node.op in _CHANNELS_SECOND and rank > 2:
            wanted[id(value)] = 1
        elif node.op == "MatMul":
            wanted[id(value)] = rank - 1
        elif node.op == "PRelu" and node.input(1).type.elements > 1:
            wanted[id(value)] = _longest(node.input(1).type.shape, rank)
        elif node.op in _ELEMENTWISE and passed is not None:
            for operand in node.inputs:
                if operand is not None and len(operand.type.shape) == len(node.output.type.shape):
                    wanted[id(operand)] = passed
    return wanted


_CHANNELS_SECOND = ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool")
_ELEMENTWISE = ("Add", "Mul", "Sub", "Max", "Min", "PRelu", "Clip", "Lookup", "Concat")


def _longest(shape: tuple[int, ...], rank: int) -> int:
    """The axis of a tensor of `rank` along which a broadcast constant varies."""
    return rank - len(shape) + max(range(len(shape)), key=lambda i: shape[i])


def _store_outputs(node: Node, storage: Stores) -> None:
    if id(node.output) in storage:
        return
    value = next(v for v in node.inputs if v is not None and id(v) in storage)
    source = storage[id(value)]
    if node.op == "Reshape":
        storage[id(node.output)] = reshaped_storage(node, source) or Storage(node.output, 0)
    elif node.op == "Transpose":
        axis = [int(p) for p in node.attrs["perm"]].index(source.channel_axis)
        storage[id(node.output)] = Storage(source.root, axis)
    elif node.op == "MatMul":
        storage[id(node.output)] = Storage(node.output, len(node.output.type.shape) - 1)
    else:
        more = len(node.output.type.shape) - len(value.type.shape)
        storage[id(node.output)] = Storage(node.output, source.channel_axis + more)


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
