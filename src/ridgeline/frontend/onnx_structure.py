"""What no node shows on its own: names made twice, opsets that nobody knows, attributes that no
number is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import defs

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.frontend.onnx_bodies import bodies, inner_nodes
from ridgeline.frontend.onnx_form import check_form
from ridgeline.frontend.onnx_order import name_of

_AUTO_PADS = ("NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID")
_LARGEST = (1 << 31) - 1  # ONNX's own tools read an opset's number as an int
_AGAIN = "The file is damaged: export the model again."


def check_structure(graph: Any, opsets: Mapping[str, int], where: str) -> None:
    """Refuse a GraphProto that ONNX Runtime refuses too, or that has two meanings.

    Raises RidgelineError naming the opset, the value or the node.
    """
    _check_opset(graph, opsets, where)
    _check_names(graph, where)
    _check_dense(graph, where)
    for node in graph.node:
        for each in (node, *inner_nodes(node)):
            _check_attributes(each, where)
            check_form(each, opsets, where)
            _check_branches(each, where)
            for body in bodies(each):
                _check_dense(body, f"{where}, node '{name_of(each)}' ({each.op_type})")


def _check_opset(graph: Any, opsets: Mapping[str, int], where: str) -> None:
    version, newest = opsets.get("", 1), defs.onnx_opset_version()
    every = (n for node in graph.node for n in (node, *inner_nodes(node)))
    # Without its number an operator has no one meaning: ONNX Runtime takes the newest it knows.
    if "" not in opsets and any(n.domain in ("", "ai.onnx") for n in every):
        raise RidgelineError(
            "it has operators of ONNX, and does not say of which opset", where=where, fix=_AGAIN
        )
    for domain, number in opsets.items():
        if not 1 <= number <= _LARGEST:
            whose = f" of '{domain}'" if domain else ""
            raise RidgelineError(
                f"the model has opset {number}{whose}, which is no opset",
                where=where,
                fix=_AGAIN,
            )
    if version > newest:
        raise RidgelineError(
            f"the model has opset {version}, and opset {newest} is the newest that is known",
            where=where,
            fix=f"Export the model with opset {newest} or below.",
        )


def _check_names(graph: Any, where: str) -> None:
    stored: dict[str, Any] = {}
    for tensor in graph.initializer:
        other = stored.setdefault(tensor.name, tensor)
        if other is not tensor and other != tensor:
            raise RidgelineError(
                f"two initializers are named '{tensor.name}', with different values",
                where=where,
                fix=_AGAIN,
            )
    made: dict[str, str] = {}
    for name, maker in _makers(graph):
        if name in made:
            raise RidgelineError(
                f"'{name}' is made twice, by {made[name]} and by {maker}", where=where, fix=_AGAIN
            )
        made[name] = maker


def _makers(graph: Any) -> Iterator[tuple[str, str]]:
    """Each value's name and what makes it. An initializer may be the default of an input."""
    inputs = [value.name for value in graph.input]
    yield from ((name, f"input '{name}'") for name in inputs)
    stored = {tensor.name for tensor in graph.initializer} - set(inputs)
    yield from ((name, f"initializer '{name}'") for name in sorted(stored))
    for node in graph.node:
        text = f"node '{name_of(node)}' ({node.op_type})"
        yield from ((name, text) for name in node.output if name)


def _check_attributes(node: Any, where: str) -> None:
    place = f"{where}, node '{name_of(node)}' ({node.op_type})"
    for attribute in node.attribute:
        if attribute.name == "auto_pad" and node.domain in ("", "ai.onnx"):
            mode = attribute.s.decode(errors="replace")
            if mode and mode not in _AUTO_PADS:
                raise RidgelineError(
                    f"auto_pad is '{mode}'", where=place, fix=did_you_mean(mode, _AUTO_PADS)
                )
        floats = (attribute.f, *attribute.floats)
        if attribute.type in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS) and any(
            map(math.isnan, floats)
        ):
            raise RidgelineError(
                f"attribute '{attribute.name}' is NaN",
                where=place,
                fix="Train or export the model again.",
            )


def _check_branches(node: Any, where: str) -> None:
    """Each branch of an If makes what the If makes."""
    if node.op_type != "If" or node.domain not in ("", "ai.onnx"):
        return
    for body in bodies(node):
        if len(body.output) != len(node.output):
            raise RidgelineError(
                f"its branch '{body.name}' makes {len(body.output)} values, and it"
                f" {len(node.output)}",
                where=f"{where}, node '{name_of(node)}' (If)",
                fix=_AGAIN,
            )


def _check_dense(graph: Any, where: str) -> None:
    """Sparse tensors of a few bytes could stand for dense ones of any size."""
    for tensor in graph.sparse_initializer:
        raise RidgelineError(
            f"initializer '{tensor.values.name}' is sparse, which is not supported",
            where=where,
            fix="Store it as a dense tensor.",
        )
