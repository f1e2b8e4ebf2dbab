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
from ridgeline.ir import Graph, Value


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
        except Exception as error:
            fix = "Check the inputs' shapes and types."
            raise _refusal(self._graph, error, fix) from error


_MISSING = re.compile(
    r"implementation for (\w+)\(|kernel for (\w+)\(|[.:](\w+)\(-?\d+\) is not a registered"
)


def _refusal(graph: Graph, error: Exception, fix: str) -> RidgelineError:
    """ONNX Runtime's error with the node that it means, where it lacks an operator."""
    text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    found = _MISSING.search(text)
    op = next(filter(None, found.groups()), "") if found else ""
    node = next((n for n in graph.nodes if n.op.rpartition("::")[2] == op), None)
    if node is None:
        where = f"graph '{graph.name}'"
        return RidgelineError(f"ONNX Runtime cannot run it: {text}", where=where, fix=fix)
    types = ", ".join(str(v.type) for v in node.inputs if v is not None)
    return RidgelineError(
        f"ONNX Runtime, which is the host, has no {op} for ({types})",
        where=f"node '{node.name}' ({op})",
        fix="Export the model with another opset, in float32, or without this operator.",
    )
