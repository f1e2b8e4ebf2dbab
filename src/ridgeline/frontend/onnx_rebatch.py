"""A model whose file fixes the batch, for another batch: its first dimensions are rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from ridgeline.errors import RidgelineError
from ridgeline.ir import Graph

_SHAPED = ("Reshape", "Expand")


def rebatched(model: Any, graph: Graph, batch: int, where: str) -> Any:
    """A copy of the ModelProto whose inputs have `batch` samples instead of those of `graph`.

    `graph` is the model as it was read. Shapes that follow from the batch are rewritten where the
    file writes them down: in Reshape, in Expand, and where a constant is joined to every sample.
    Raises RidgelineError where inputs do not share a first dimension.
    """
    firsts = {v.type.shape[0] for v in graph.inputs if v.type.shape}
    if len(firsts) != 1 or 0 in firsts:
        raise RidgelineError(
            f"the batch is {batch}, and the inputs share no first dimension to rewrite",
            where=where,
            fix="Give each input's dimensions with --shape, or export with an open batch",
        )
    old = firsts.pop()
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    initialised = {t.name for t in copy.graph.initializer}
    for value in copy.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in initialised and dims:
            dims[0].dim_value = batch
    for output in copy.graph.output:
        output.type.tensor_type.ClearField("shape")
    types = {v.name: v.type for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None}
    types |= {v.name: v.type for v in graph.inputs}
    shapes = {name: type.shape for name, type in types.items()}
    nodes = list(_rewritten(copy.graph, shapes, old, batch, initialised))
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _rewritten(
    graph: Any, shapes: Mapping[str, tuple[int, ...]], old: int, batch: int, constants: set[str]
) -> Iterator[Any]:
    """The nodes, those that write the batch down with the new one, in order."""
    depends = {v.name for v in graph.input if v.name not in constants}
    for node in graph.node:
        # Of what a CastLike is like only the format counts.
        read = node.input[:1] if node.op_type == "CastLike" else node.input
        if node.op_type in ("Shape", "Size") or not depends.intersection(read):
            yield node
            continue
        depends.update(node.output)
        target = shapes.get(node.output[0])
        if node.op_type in _SHAPED and target and len(node.input) > 1 and target[0] % old == 0:
            name = f"{node.output[0]}/rebatched"
            dims = np.array([target[0] // old * batch, *target[1:]], np.int64)
            graph.initializer.append(numpy_helper.from_array(dims, name))
            node.input[1] = name
        if node.op_type == "Concat" and _axis(node):
            yield from _repeated(graph, node, shapes, depends, old, batch)
        yield node


def _axis(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "axis"), 0)


def _repeated(
    graph: Any,
    node: Any,
    shapes: Mapping[str, tuple[int, ...]],
    depends: set[str],
    old: int,
    batch: int,
) -> Iterator[Any]:
    """Before a Concat along another axis: its constants, once for each sample."""
    for place, name in enumerate(node.input):
        shape = shapes.get(name)
        if name in depends or not shape or shape[0] != old:
            continue
        dims = np.array([batch, *shape[1:]], np.int64)
        graph.initializer.append(numpy_helper.from_array(dims, f"{name}/dims{place}"))
        made = f"{name}/rebatched{place}"
        yield helper.make_node("Expand", [name, f"{name}/dims{place}"], [made], made)
        node.input[place] = made
