"""If, Loop and Scan: what their bodies do, as often as they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ridgeline.frontend.onnx_inner import InnerGraph, inner_graphs
from ridgeline.ir import Graph, Node, Value
from ridgeline.workload.costs import Work
from ridgeline.workload.layer import Product, Workload, total

Found = tuple[Work, tuple[str, ...], tuple[Value, ...]]
"""The work, what was assumed, and the constants that the bodies hold themselves."""


def is_control_flow(node: Node) -> bool:
    return node.op in ("If", "Loop", "Scan")


def body_layers(node: Node, workload_of: Callable[[Graph], Workload]) -> Found:
    """The work of a node's bodies: of an If the branch with more, of a loop every turn."""
    inner = inner_graphs(node)
    worked = [(one, workload_of(one.graph)) for one in inner]
    if not worked:
        return Work("other", None, None), (), ()
    one, workload = max(worked, key=_size)
    notes: tuple[str, ...] = ()
    turns = one.turns
    if node.op == "If" and len({_size(pair) for pair in worked}) > 1:
        notes = (f"{node.name}: of its branches the larger one is counted",)
    if turns is None:
        notes = (f"{node.name}: how often it runs depends on data",)
        return Work("other", None, None), notes, _constants(one)
    macs, vector = workload.macs, workload.vector_operations
    products = tuple(p for layer in workload.layers for p in layer.products)
    work = Work(
        "recurrent" if turns > 1 else "product" if products else "vector",
        None if macs is None else macs * turns,
        None if vector is None else vector * turns,
        tuple(_repeated(p, turns) for p in products),
    )
    return work, notes, _constants(one)


def _size(pair: tuple[InnerGraph, Workload]) -> tuple[int, int]:
    _, workload = pair
    known = total(layer.macs or 0 for layer in workload.layers) or 0
    return known, total(layer.vector_operations or 0 for layer in workload.layers) or 0


def _repeated(product: Product, turns: int) -> Product:
    return replace(product, steps=product.steps * turns)


def _constants(one: InnerGraph) -> tuple[Value, ...]:
    """Weights of a body: floating point or of 8 bits and less, more than one element."""
    return tuple(
        v
        for v in one.graph.constants()
        if v.type.elements > 1 and (v.type.dtype.is_float or v.type.quant is not None)
    )
