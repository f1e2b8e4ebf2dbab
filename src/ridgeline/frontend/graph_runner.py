"""A Graph computed by ONNX Runtime, with any of its values as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_types import Array
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.frontend.runtime import create_session
from ridgeline.ir import Graph, Value


class GraphRunner:
    """Runs one graph many times; `values` (not constants) are what each run returns, in order."""

    def __init__(self, graph: Graph, values: Sequence[Value] | None = None) -> None:
        wanted = tuple(graph.outputs if values is None else values)
        exposed = replace(graph, outputs=wanted)
        try:
            self._session = create_session(onnx_bytes(exposed))
        except RidgelineError:
            raise
        except Exception as error:
            text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
            raise RidgelineError(
                f"ONNX Runtime cannot run it: {text}",
                where=f"graph '{graph.name}'",
                fix="Check the model with onnx.checker.",
            ) from error

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The values, in ONNX Runtime's arithmetic. `inputs` are arrays by graph input name."""
        feed = {i.name: inputs[i.name] for i in self._session.get_inputs()}
        return [np.asarray(r) for r in self._session.run(None, feed)]
