"""A Graph computed by ONNX Runtime, with any of its values as results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_types import Array
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import create_session
from ridgeline.frontend.session_values import run_session
from ridgeline.ir import Graph, Node, Value


class GraphRunner:
    """Runs one graph many times; `values` (not constants) are what each run returns, in order."""

    def __init__(self, graph: Graph, values: Sequence[Value] | None = None) -> None:
        wanted = tuple(graph.outputs if values is None else values)
        exposed = replace(graph, outputs=wanted)
        self._graph = graph
        self._session: Any = None
        if not wanted:
            return
        try:
            self._session = create_session(onnx_bytes(exposed))
        except RidgelineError:
            raise
        except Exception as error:
            raise _refusal(graph, error, "Check the model with onnx.checker.") from error

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The values, in ONNX Runtime's arithmetic. `inputs` are arrays by graph input name."""
        if self._session is None:
            return []
        feed = {i.name: inputs[i.name] for i in self._session.get_inputs()}
        names = [o.name for o in self._session.get_outputs()]
        try:
            return run_session(self._session, feed, names)
        except RidgelineError:
            raise
        except Exception as error:
            fix = "Check the inputs' shapes and types."
            raise _refusal(self._graph, error, fix) from error


_MISSING = re.compile(
    r"implementation for (\w+)\(|kernel for (\w+)\(|[.:](\w+)\(-?\d+\) is not a registered"
)
# "while running Conv node. Name:'conv1' Status Message: ...", "Node (conv1) Op (Conv) ...",
# "Type Error: ... of operator (Conv) in node (conv1) is invalid".
_NAMED = re.compile(r"node\. Name:'([^']+)'|\b[Nn]ode:? ?\(([^)]+)\)")
_RUNNING = re.compile(r"while running (\w+) node\.|\bOp \((\w+)\)|operator \((\w+)\)")
_PREFIX = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : \w+ : |Non-zero status code returned while running .*?"
    r"Status Message: |Exception during initialization: "
)
# Where in ONNX Runtime's sources it was found, with the C++ function's signature.
_SOURCE = re.compile(r"\S*/onnxruntime/\S+?:\d+ .*?\)(?: \[with .*?\])?(?: const)? (?=\S)")


def _refusal(graph: Graph, error: Exception, fix: str) -> RidgelineError:
    """ONNX Runtime's error with the node that it means, where its text tells."""
    text = " ".join(str(error).split()) or type(error).__name__
    missing = next(filter(None, _groups(_MISSING, text)), "")
    node = next((n for n in graph.nodes if missing and _onnx_name(n) == missing), None)
    if node is None:
        node = _named(graph, text)
        place = f"graph '{graph.name}'" if node is None else _place(node)
        reason = _SOURCE.sub("", _PREFIX.sub("", text))[:300].rstrip(". ")
        return RidgelineError(f"ONNX Runtime cannot run it: {reason}", where=place, fix=fix)
    types = ", ".join(str(v.type) for v in node.inputs if v is not None)
    return RidgelineError(
        f"ONNX Runtime, which is the host, has no {missing} for ({types})",
        where=_place(node),
        fix="Export the model with another opset, in float32, or without this operator.",
    )


def _named(graph: Graph, text: str) -> Node | None:
    """The node whose name ONNX Runtime gives, perhaps with an ending of its own; else the only one
    of the operator that it names.
    """
    found = next(filter(None, _groups(_NAMED, text)), "")
    begun = [n for n in graph.nodes if n.name and found.startswith(n.name)]
    if begun:
        return max(begun, key=lambda n: len(n.name))
    op = next(filter(None, _groups(_RUNNING, text)), "")
    alike = [n for n in graph.nodes if _onnx_name(n) == op]
    return alike[0] if len(alike) == 1 else None


def _groups(pattern: re.Pattern[str], text: str) -> tuple[str | None, ...]:
    found = pattern.search(text)
    return found.groups() if found else ()


def _onnx_name(node: Node) -> str:
    return node.op.rpartition("::")[2]


def _place(node: Node) -> str:
    return f"node '{node.name}' ({_onnx_name(node)})"
