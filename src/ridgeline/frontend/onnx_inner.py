"""The bodies of If, Loop and Scan as graphs of their own, with how often each runs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ridgeline.frontend.onnx_bodies import CAPTURES, Body
from ridgeline.frontend.onnx_infer import GRAPH_OPSET
from ridgeline.frontend.onnx_reader import read_model
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import BOOL, INT64


@dataclass(frozen=True, slots=True, eq=False)
class InnerGraph:
    """One body; `turns` is how often it runs (None: data decide)."""

    graph: Graph
    turns: int | None


def inner_graphs(node: Node) -> list[InnerGraph]:
    """The bodies of a control-flow node. Outer constants are the same values inside.

    Raises RidgelineError for what a body has that no model may have.
    """
    names = [str(n) for n in node.attrs.get(CAPTURES, ())]
    own = len(node.inputs) - len(names)
    outer = {
        name: value
        for name, value in zip(names, node.inputs[own:], strict=True)
        if value is not None
    }
    given = [v.type for v in node.inputs[:own] if v is not None]
    found: list[InnerGraph] = []
    for body in node.attrs.values():
        if isinstance(body, Body):
            inputs = {"Loop": _loop_inputs, "Scan": _scan_inputs}.get(node.op)
            types = inputs(node, given) if inputs else []
            found.append(InnerGraph(_graph(node, body, outer, types), _turns(node)))
    return found


def _graph(node: Node, body: Body, outer: dict[str, Value], types: list[TensorType]) -> Graph:
    proto = type(body.proto)()
    proto.CopyFrom(body.proto)
    opsets = dict(body.opsets) or {"": GRAPH_OPSET}
    imports = [SimpleNamespace(domain=d, version=v) for d, v in opsets.items()]
    inner: dict[str, Value] = dict(outer)
    for entry, given in zip(proto.input, types, strict=False):
        inner[entry.name] = Value(entry.name, given)
    del proto.input[:]
    model = SimpleNamespace(graph=proto, opset_import=imports)
    return read_model(model, f"node '{node.name}' ({node.op})", weights=False, outer=inner)


def _loop_inputs(node: Node, given: list[TensorType]) -> list[TensorType]:
    """The turn, the condition, then what is carried."""
    present = sum(v is not None for v in node.inputs[:2])
    return [TensorType((), INT64), TensorType((), BOOL), *given[present:]]


def _scan_inputs(node: Node, given: list[TensorType]) -> list[TensorType]:
    """States as they are, and of each scanned input one slice."""
    scanned = int(node.attrs["num_scan_inputs"])
    states = len(given) - scanned
    axes = [int(a) for a in node.attrs.get("scan_input_axes", ())] or [0] * scanned
    sliced: list[TensorType] = []
    for type, axis in zip(given[states:], axes, strict=True):
        place = axis % len(type.shape)
        sliced.append(TensorType(type.shape[:place] + type.shape[place + 1 :], type.dtype))
    return [*given[:states], *sliced]


def _turns(node: Node) -> int | None:
    if node.op == "If":
        return 1
    if node.op == "Loop":
        trips: Any = None if node.inputs[0] is None else node.inputs[0].data
        condition: Any = None if node.inputs[1] is None else node.inputs[1].data
        ends = node.inputs[1] is not None and (condition is None or not bool(condition.all()))
        return None if trips is None or ends else int(trips.reshape(-1)[0])
    scanned = int(node.attrs["num_scan_inputs"])
    captures = len(node.attrs.get(CAPTURES, ()))
    first = node.inputs[len(node.inputs) - captures - scanned]
    axes = [int(a) for a in node.attrs.get("scan_input_axes", ())] or [0]
    return None if first is None else first.type.shape[axes[0]]
