"""Whether the device can make a rearrangement, and in which layout its result is cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Layout, layout_of
from ridgeline.compiler.moves import (
    MOST_WALKS,
    Integers,
    count_elements,
    element_offsets,
    places,
)
from ridgeline.compiler.storage import Storage, Stores
from ridgeline.ir import Node, Value
from ridgeline.machine.description import Machine
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.stored import same_quantisation

MOST_ELEMENTS = 1 << 24
"""Above this the addresses of a move take too much memory to work out."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Where each byte of a node's output comes from: see `moves.places`."""

    layout: Layout
    placed: Integers


def move_reason(node: Node, machine: Machine, storage: Stores) -> str | None:
    """Why Loads cannot make the node's output; None, and its storage set, when they can."""
    values = [v for v in node.inputs if v is not None]
    for value in values:
        if not value.type.elements:
            return f"'{value.name}' is empty"
        if not same_quantisation(value, node.output):
            return f"the quantisation changes inside a {node.op}"
    if node.output.type.elements > MOST_ELEMENTS:
        return f"more than {MOST_ELEMENTS} elements are moved"
    for value in values:
        if id(value) not in storage and not value.is_constant:
            storage[id(value)] = Storage(value, _usual_axis(value))
    costs = {a: _cost(node, machine, storage, a) for a in _candidates(node, storage)}
    best = min(costs, key=lambda axis: costs[axis])
    if costs[best][0]:
        return f"it would take more than {MOST_WALKS} descriptors to move its elements"
    storage[id(node.output)] = Storage(node.output, best, moved=True)
    return None


def arrangement(node: Node, machine: Machine, storage: Stores, axis: int) -> Arrangement:
    """The places of the node's output with its channels along `axis`."""
    sources = [source_offsets(v, machine, storage) for v in node.inputs if v is not None]
    layout = layout_of(node.output.type, axis, machine)
    return Arrangement(layout, places(_index(node), sources, layout))


def source_offsets(value: Value, machine: Machine, storage: Stores) -> Integers:
    """Where a value's elements lie from the start of its bytes."""
    if value.is_constant:
        return element_offsets(value.type, constant_layout(value, machine))
    found = storage[id(value)]
    type = found.root.type if found.flattened else value.type
    return element_offsets(type, layout_of(type, found.channel_axis, machine))


def constant_layout(value: Value, machine: Machine) -> Layout:
    """How a constant that is moved lies among the program's constants."""
    return layout_of(value.type, len(value.type.shape) - 1, machine)


def _index(node: Node) -> npt.NDArray[Any]:
    """Which element of the inputs, numbered one after another, each output element is."""
    if node.op == "Move":
        return np.asarray(node.attrs["index"])
    numbers: list[npt.NDArray[Any]] = []
    start = 0
    for value in node.inputs:
        assert value is not None
        end = start + value.type.elements
        numbers.append(np.arange(start, end, dtype=np.int64).reshape(value.type.shape))
        start = end
    return PRIMITIVES[node.op].float_meaning(numbers, node.attrs)[0]


def _usual_axis(value: Value) -> int:
    return 1 if len(value.type.shape) > 1 else 0


def _candidates(node: Node, storage: Stores) -> list[int]:
    """Axes for the output's channels: what its reader wants, else any, ONNX's own first."""
    wanted = storage.wanted.get(id(node.output))
    if wanted is not None:
        return [wanted]
    usual = _usual_axis(node.output)
    return [usual, *(a for a in range(len(node.output.type.shape)) if a != usual)]


def _cost(node: Node, machine: Machine, storage: Stores, axis: int) -> tuple[bool, int]:
    """(too many descriptors, elements moved and lines then read), its channels along `axis`."""
    found = arrangement(node, machine, storage, axis)
    layout = found.layout
    elements = count_elements(found.placed, layout)
    return elements is None, (elements or 0) + layout.box.rows * layout.row_lines
