"""Values, nodes and graphs: frozen, in topological order, compared by identity, not by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir.types import TensorType, type_of


class GraphError(RidgelineError):
    """A graph that breaks its own rules: a fault of a pass, or of the file that it came from."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor in a graph. Its identity is the object; `data` is set for constants."""

    name: str
    type: TensorType
    data: npt.NDArray[Any] | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @staticmethod
    def constant(name: str, data: npt.NDArray[Any], type: TensorType | None = None) -> Value:
        return Value(name, type or type_of(data), data)

    def __str__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation. An absent optional input is None. `origin` names its ONNX nodes."""

    op: str
    name: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: tuple[str, ...] = ()

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def input(self, index: int) -> Value:
        """Input `index`, which must be present."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise GraphError(f"{self.op} lacks input {index}", where=f"node '{self.name}'")
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def __str__(self) -> str:
        ins = ", ".join("-" if v is None else f"%{v.name}" for v in self.inputs)
        outs = ", ".join(str(v) for v in self.outputs)
        attrs = ", ".join(f"{k}={_text(v)}" for k, v in sorted(self.attrs.items()))
        return (
            f"{outs} = {self.op}({ins})" + (f" {{{attrs}}}" if attrs else "") + f"  # {self.name}"
        )


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array{list(np.shape(cast('npt.NDArray[Any]', value)))}"
    if isinstance(value, Graph):
        return " ".join(node.op for node in value.nodes)
    return str(value)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order, between inputs and outputs.

    `opset` is the default-domain ONNX opset whose meaning the nodes have.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    opset: int = 21

    def check(self) -> Graph:
        """Return self after verifying order, single definition and that outputs are made.

        Raises GraphError naming the node and value at fault.
        """
        made: set[int] = set()
        for value in self.inputs:
            made.add(id(value))
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and not value.is_constant and id(value) not in made:
                    raise GraphError(
                        f"input '{value.name}' is used before it is made",
                        where=f"node '{node.name}' ({node.op})",
                    )
            for value in node.outputs:
                if id(value) in made:
                    raise GraphError(
                        f"'{value.name}' is made twice", where=f"node '{node.name}' ({node.op})"
                    )
                made.add(id(value))
        for value in self.outputs:
            if not value.is_constant and id(value) not in made:
                raise GraphError(
                    f"output '{value.name}' is never made", where=f"graph '{self.name}'"
                )
        return self

    def users(self) -> dict[int, list[Node]]:
        """Nodes that read each value, by id(value)."""
        table: dict[int, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    table.setdefault(id(value), []).append(node)
        return table

    def producers(self) -> dict[int, Node]:
        """The node that makes each value, by id(value)."""
        return {id(v): node for node in self.nodes for v in node.outputs}

    def constants(self) -> list[Value]:
        """Distinct constants, in order of first use."""
        seen: dict[int, Value] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and value.is_constant:
                    seen.setdefault(id(value), value)
        return list(seen.values())

    def __str__(self) -> str:
        lines = [f"graph {self.name} (opset {self.opset})"]
        lines += [f"  input {v}" for v in self.inputs]
        lines += [f"  const {v}" for v in self.constants()]
        lines += [f"  {n}" for n in self.nodes]
        lines += [f"  output %{v.name}" for v in self.outputs]
        return "\n".join(lines) + "\n"
