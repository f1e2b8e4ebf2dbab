"""Why a chip is not full in a layer, and from which batch on it would be."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.roofline.occupancy import Occupied
from ridgeline.roofline.roof import Roof
from ridgeline.workload.layer import Layer, Operand, Product

FULL = 0.9
"""Of what edges and waves could leave: beyond it they are not the cause."""


def cause_of(layer: Layer, limit: str, filled: list[Occupied], roof: Roof) -> str:
    """One sentence: what keeps the layer below the dense peak."""
    if not layer.products:
        return "nothing to multiply" if layer.macs == 0 else "its multiplications are unknown"
    if limit == "launch":
        return "launch: starting the kernel takes longer than running it"
    if limit == "host link":
        return "host link: inputs and results cross it"
    if limit == "vector":
        return "vector: element by element work takes longer than the products"
    if limit != "compute":
        return _memory_cause(layer, limit, roof)
    worst = min(filled, key=lambda one: one.edges * one.waves, default=None)
    if worst is None or worst.edges * worst.waves >= FULL:
        return "kernels: tiles and waves are full, and more of the peak is not attained"
    if worst.waves < worst.edges:
        few = "too few tiles" if worst.waves < 0.5 else "wave tail"
        return f"{few if roof.grid is not None else 'small batch'}: {worst.why}"
    return f"narrow layer: {worst.why}"


def _memory_cause(layer: Layer, limit: str, roof: Roof) -> str:
    weights, kept = layer.weight_bytes or 0, layer.kv_bytes or 0
    moved = layer.moved_bytes or 1
    intensity = layer.operations_per_byte or 0.0
    below = f"{intensity:,.3g} operations/byte, and {limit} needs {roof.balance:,.3g}"
    if kept > moved / 2:
        return f"keys and values: each is used by few queries; {below}"
    if weights > moved / 2:
        return f"small batch: each weight is used {_uses(layer)} times; {below}"
    return f"narrow layer: few operations for each activation; {below}"


def _uses(layer: Layer) -> str:
    product = layer.product
    return f"{product.m:,}" if product is not None else "few"


def scaled(layer: Layer, times: int) -> Layer:
    """The layer at a batch so many times as large: weights stay, all else grows."""
    activations = layer.kind == "attention" or not layer.weight_bytes

    def product(one: Product) -> Product:
        if activations:
            return replace(one, groups=one.groups * times)
        return replace(one, m=one.m * times)

    def operand(one: Operand) -> Operand:
        if one.role == "weight":
            return one
        touched = None if one.elements is None else one.elements * times
        return replace(one, elements=touched, stored_elements=one.stored_elements * times)

    return replace(
        layer,
        macs=None if layer.macs is None else layer.macs * times,
        vector_operations=(
            None if layer.vector_operations is None else layer.vector_operations * times
        ),
        products=tuple(map(product, layer.products)),
        operands=tuple(map(operand, layer.operands)),
    )
