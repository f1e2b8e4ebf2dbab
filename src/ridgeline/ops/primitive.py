"""What every primitive operator answers: its types, its two meanings, its cost, its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.ir import Node, TensorType

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]
Template = Literal["matmul", "vector", "move", "host"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one node takes, exactly, from its types alone.

    `macs` counts every output element times its reduction length, padding included, whichever
    unit does them. `vector_operations` counts one for each element that a vector unit writes or
    reduces besides those MACs. `weight_bytes` are the constant inputs, `input_bytes` the others,
    each counted once.
    """

    macs: int
    vector_operations: int
    weight_bytes: int
    input_bytes: int
    output_bytes: int


class Primitive(Protocol):
    """One operator of docs/graph.md. Stateless; `PRIMITIVES` holds one of each."""

    op: str

    def infer(
        self, inputs: tuple[TensorType | None, ...], attrs: Attributes
    ) -> tuple[TensorType, ...]:
        """Output types (without quantisation) from input types and attributes.

        Raises RidgelineError that says what does not fit.
        """
        ...

    def float_meaning(self, inputs: Sequence[Array | None], attrs: Attributes) -> list[Array]:
        """Outputs for real inputs, in float32 inside and in the first input's format outside."""
        ...

    def integer_meaning(self, node: Node, inputs: Sequence[Array | None]) -> list[Array]:
        """Stored outputs for stored inputs; the quantisations are those of the node's values."""
        ...

    def cost(self, node: Node) -> Cost:
        """The node's exact cost."""
        ...

    def template(self, node: Node) -> Template:
        """Which lowering the compiler gives the node."""
        ...


def present(inputs: Sequence[Any], index: int, op: str) -> Any:
    """Input `index`, which must be there. Raises RidgelineError."""
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        raise RidgelineError(f"{op} lacks input {index}")
    return value


def optional(inputs: Sequence[Any], index: int) -> Any:
    """Input `index`, or None where it is absent."""
    return inputs[index] if index < len(inputs) else None


def cost_of(node: Node, macs: int = 0, vector_operations: int = 0) -> Cost:
    """A Cost with the bytes of the node's distinct inputs and of its outputs."""
    distinct = {id(v): v for v in node.inputs if v is not None}.values()
    return Cost(
        macs=macs,
        vector_operations=vector_operations,
        weight_bytes=sum(v.type.bytes for v in distinct if v.is_constant),
        input_bytes=sum(v.type.bytes for v in distinct if not v.is_constant),
        output_bytes=sum(v.type.bytes for v in node.outputs),
    )


def clipped(real: Array, attrs: Attributes) -> Array:
    """`real` within the node's fused `clip`, if it has one."""
    clip = attrs.get("clip")
    if clip is None:
        return real
    low, high = clip
    return np.clip(
        real,
        np.float32(-np.inf if low is None else low),
        np.float32(np.inf if high is None else high),
    )


def to_float(array: Array) -> npt.NDArray[np.float32]:
    """The array in float32, in which float meanings compute."""
    return np.asarray(array, np.float32)
