"""The work of a model after fusion, as a runtime would fuse it. What is not known is None, never 0.

Operations are 2 × multiply-accumulates everywhere. Bytes are those that a layer reads or writes
once, in the format in which its operands are stored; `Workload.stored_as` gives them another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

Role = Literal["weight", "input", "output", "kv"]
"""What a tensor is to a layer; "kv" are the keys and values that attention reads."""
Kind = Literal["product", "attention", "recurrent", "vector", "move", "other"]
"""What a layer mainly is. Of "other" no rule counts the operations."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a layer reads or writes; `tensor` numbers it within the workload.

    `elements` is how many the layer touches (of a table, those gathered; None: unknown), and
    `stored_elements` how many the tensor has. `bits` is the storage of one element. `movable`
    says that it follows a chosen precision, as real numbers do and indices do not.
    """

    name: str
    tensor: int
    role: Role
    elements: int | None
    stored_elements: int
    bits: int
    movable: bool = True

    @property
    def bytes(self) -> int | None:
        """What the layer moves of it."""
        return None if self.elements is None else -(-self.elements * self.bits // 8)

    @property
    def stored_bytes(self) -> int:
        return -(-self.stored_elements * self.bits // 8)

    def stored_in(self, weight_bits: int, activation_bits: int) -> Operand:
        bits = weight_bits if self.role == "weight" else activation_bits
        stays = not self.movable or (self.role == "weight" and self.bits <= bits)
        return self if stays else replace(self, bits=bits)


@dataclass(frozen=True, slots=True)
class Product:
    """`groups` independent products of [m, k] × [k, n]; `steps` of them follow one another."""

    groups: int
    m: int
    n: int
    k: int
    steps: int = 1

    @property
    def macs(self) -> int:
        return self.groups * self.m * self.n * self.k * self.steps


@dataclass(frozen=True, slots=True)
class Layer:
    """One kernel of a runtime: an operator with what joined it. `origin` names its nodes.

    `independent` counts what can be worked on at once along each axis ("batch", "positions",
    "tokens", "channels", "heads"); `parameters` are stored elements that no layer before it uses,
    `logical_parameters` those that it uses.
    """

    name: str
    op: str
    kind: Kind
    macs: int | None
    vector_operations: int | None
    operands: tuple[Operand, ...]
    products: tuple[Product, ...] = ()
    independent: tuple[tuple[str, int], ...] = ()
    parameters: int = 0
    logical_parameters: int = 0
    origin: tuple[str, ...] = ()

    @property
    def product(self) -> Product | None:
        """The largest product, or None where there is none."""
        return max(self.products, key=lambda one: one.macs, default=None)

    @property
    def operations(self) -> int | None:
        """2 × multiply-accumulates."""
        return None if self.macs is None else 2 * self.macs

    def bytes_of(self, *roles: Role) -> int | None:
        """Bytes moved of the operands with these roles; None if one of them is unknown."""
        return total(o.bytes for o in self.operands if o.role in roles)

    @property
    def weight_bytes(self) -> int | None:
        return self.bytes_of("weight")

    @property
    def input_bytes(self) -> int | None:
        """Without keys and values, which are `kv_bytes`."""
        return self.bytes_of("input")

    @property
    def output_bytes(self) -> int | None:
        return self.bytes_of("output")

    @property
    def kv_bytes(self) -> int | None:
        return self.bytes_of("kv")

    @property
    def moved_bytes(self) -> int | None:
        """All operands once."""
        return total(o.bytes for o in self.operands)

    @property
    def operations_per_byte(self) -> float | None:
        """Intensity: 2 × multiply-accumulates for each byte, every operand once."""
        if self.operations is None or not self.moved_bytes:
            return None
        return self.operations / self.moved_bytes


@dataclass(frozen=True, slots=True)
class Workload:
    """The layers of one model for `batch` samples, in an order in which they can run.

    `inputs` and `outputs` cross the model's borders; `caches` are keys and values that come in or
    go out and stay in the chip's memory. `notes` say what was assumed. `batch_axis` is the
    dimension of the first input that counts samples: 1 where the first are steps in time.
    """

    name: str
    layers: tuple[Layer, ...]
    batch: int
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    notes: tuple[str, ...] = ()
    caches: tuple[Operand, ...] = ()
    batch_axis: int = 0

    @property
    def lasting(self) -> frozenset[int]:
        """Tensors that are there after a run."""
        return frozenset(o.tensor for o in (*self.outputs, *self.caches))

    @property
    def border_bytes(self) -> int:
        """What comes from the host and goes back to it."""
        return sum(o.stored_bytes for o in (*self.inputs, *self.outputs))

    @property
    def macs(self) -> int | None:
        return total(layer.macs for layer in self.layers)

    @property
    def operations(self) -> int | None:
        """2 × multiply-accumulates."""
        return None if self.macs is None else 2 * self.macs

    @property
    def vector_operations(self) -> int | None:
        return total(layer.vector_operations for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Stored elements, each tensor once however many layers use it."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def logical_parameters(self) -> int:
        """As if each layer had its own."""
        return sum(layer.logical_parameters for layer in self.layers)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all stored weights, each tensor once."""
        stored = {
            o.tensor: o.stored_bytes
            for layer in self.layers
            for o in layer.operands
            if o.role == "weight"
        }
        return sum(stored.values())

    def unknown(self, figure: Callable[[Layer], object | None]) -> list[Layer]:
        """Layers of which a figure is not known."""
        return [layer for layer in self.layers if figure(layer) is None]

    def stored_as(self, weight_bits: int, activation_bits: int) -> Workload:
        """The same work with real numbers stored in so many bits; narrower weights stay."""

        def stored(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
            return tuple(o.stored_in(weight_bits, activation_bits) for o in operands)

        layers = tuple(replace(layer, operands=stored(layer.operands)) for layer in self.layers)
        return replace(
            self,
            layers=layers,
            inputs=stored(self.inputs),
            outputs=stored(self.outputs),
            caches=stored(self.caches),
        )


def total(figures: Iterable[int | None]) -> int | None:
    """The sum, or None if a figure is unknown."""
    added = 0
    for figure in figures:
        if figure is None:
            return None
        added += figure
    return added
