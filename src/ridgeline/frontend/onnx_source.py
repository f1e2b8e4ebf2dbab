"""One ONNX node as the reader sees it: typed inputs and outputs, plain attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_types import Array
from ridgeline.frontend.onnx_weightless import is_stand_in
from ridgeline.ir import Node, TensorType, Value

# Before the name of an operator that is a primitive's, in a form that only the host has.
ONNX_DOMAIN = "ai.onnx::"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An ONNX node of opset `opset`. An absent optional input is None."""

    op: str
    name: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    opset: int
    file: str

    def input(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise self.error(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> Array | None:
        """The constant at input `index`, or None when it is absent or computed."""
        value = self.optional(index)
        return None if value is None else value.data

    def error(self, what: str, fix: str = "Check the node in the model's file.") -> RidgelineError:
        return RidgelineError(what, where=f"{self.file}, node '{self.name}' ({self.op})", fix=fix)

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        outputs: tuple[Value, ...] | None = None,
        suffix: str = "",
    ) -> Node:
        """A node that came from this one; it makes this one's outputs unless told otherwise."""
        name = f"{self.name}/{suffix}" if suffix else self.name
        return Node(op, name, tuple(inputs), outputs or self.outputs, attrs or {}, (self.name,))

    def on_host(self) -> Node:
        """The operator as ONNX defines it, where a primitive of this name says less."""
        return self.node(ONNX_DOMAIN + self.op, self.inputs, dict(self.attrs))

    def intermediate(self, suffix: str, shape: Sequence[int], like: Value) -> Value:
        """A new value inside of this node, of `like`'s format."""
        dims = tuple(int(d) for d in shape)
        return Value(f"{self.outputs[0].name}/{suffix}", TensorType(dims, like.type.dtype))

    def new_constant(self, suffix: str, data: Array) -> Value:
        array: Array = data if is_stand_in(data) else np.ascontiguousarray(data).reshape(data.shape)
        return Value.constant(f"{self.outputs[0].name}/{suffix}", array)


def host_node(node: Any, source: Source) -> Node:
    """The node under its own name; outside of the default domain that is "domain::operator"."""
    op = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    inputs = source.inputs
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return source.node(op, inputs, dict(source.attrs))
