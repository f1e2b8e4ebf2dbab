"""Control flow: the graphs inside of If, Loop and Scan, and the outer values that they read.

A body stays whole, as an attribute of one host node whose last inputs are the captured values,
named by its attribute `captures`. Where the condition of an If is known, its branch is read in
the If's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx

CONTROL_FLOW = frozenset(("If", "Loop", "Scan"))
CAPTURES = "captures"


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A GraphProto as an attribute; other packages only hand it on. `opsets` are its (domain,
    version).
    """

    proto: Any
    opsets: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"graph({len(self.proto.node)} nodes)"


def with_opsets(attrs: dict[str, Any], opsets: Mapping[str, int]) -> dict[str, Any]:
    """Attributes whose bodies know the opsets that their nodes mean."""
    told = tuple(opsets.items())
    return {k: replace(v, opsets=told) if isinstance(v, Body) else v for k, v in attrs.items()}


def bodies(node: Any) -> Iterator[Any]:
    """The GraphProtos among a NodeProto's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def inner_nodes(node: Any) -> Iterator[Any]:
    """Every node inside of a NodeProto's bodies, at any depth."""
    for body in bodies(node):
        for inner in body.node:
            yield inner
            yield from inner_nodes(inner)


def captured_names(node: Any) -> tuple[str, ...]:
    """Names that a node's bodies read and do not make, each once, in order of first use."""
    found: dict[str, None] = {}
    for body in bodies(node):
        own = own_names(body)
        for inner in body.node:
            wanted = (*inner.input, *captured_names(inner))
            found.update((n, None) for n in wanted if n and n not in own)
        found.update((o.name, None) for o in body.output if o.name and o.name not in own)
    return tuple(found)


def drop_unread_masks(graph: Any) -> None:
    """Take from each Dropout of a GraphProto the mask that nothing reads.

    Before opset 10 ONNX's inference knows no shape for it.
    """
    read = {o.name for o in graph.output}
    for node in graph.node:
        read.update((*node.input, *captured_names(node)))
    for node in graph.node:
        if node.op_type == "Dropout" and len(node.output) > 1 and node.output[1] not in read:
            del node.output[1:]


def own_names(body: Any) -> set[str]:
    """Names that a GraphProto makes itself: inputs, initialisers, results."""
    made = {name for node in body.node for name in node.output if name}
    stored = {t.name for t in body.initializer} | {t.values.name for t in body.sparse_initializer}
    return made | stored | {value.name for value in body.input}


def all_names(body: Any) -> set[str]:
    """Names that a GraphProto makes, at any depth."""
    inner = (g for node in body.node for g in bodies(node))
    return own_names(body).union(*(all_names(g) for g in inner))


def rename(body: Any, names: Mapping[str, str]) -> Any:
    """A copy of a GraphProto with values renamed wherever they are made or read."""
    copy = type(body)()
    copy.CopyFrom(body)
    _rename_in_place(copy, names)
    return copy


def _rename_in_place(graph: Any, names: Mapping[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for list_of_names in (node.input, node.output):
            list_of_names[:] = [names.get(n, n) for n in list_of_names]
        for body in bodies(node):
            hidden = own_names(body)
            _rename_in_place(body, {k: v for k, v in names.items() if k not in hidden})


def branch_in_place(node: Any, condition: bool) -> Any:
    """The GraphProto of the branch that an If with a known condition takes.

    Its outputs have the If's names and its own values names that begin with the If's, so that it
    can be read where the If stands; an output that the branch only passes on becomes an Identity.
    """
    wanted = "then_branch" if condition else "else_branch"
    body = next(a.g for a in node.attribute if a.name == wanted)
    prefix = node.name or node.output[0]
    names = {name: f"{prefix}/{name}" for name in own_names(body)}
    renamed = rename(body, names)
    for inner in renamed.node:
        inner.name = f"{prefix}/{inner.name or inner.op_type}"
    for output, value in zip(node.output, renamed.output, strict=True):
        if output:
            renamed.node.append(
                onnx.helper.make_node("Identity", [value.name], [output], f"{prefix}/{output}")
            )
    return renamed
