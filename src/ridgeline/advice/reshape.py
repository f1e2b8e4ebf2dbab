"""Workloads changed: a larger batch, layers joined to what makes their input, other channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from ridgeline.roofline.cause import scaled
from ridgeline.workload.layer import Layer, Operand, Product, Workload, total


def grown(workload: Workload, times: int) -> Workload:
    """The workload at a batch so many times as large: weights stay, all else grows."""

    def border(one: Operand) -> Operand:
        elements = None if one.elements is None else one.elements * times
        return replace(one, elements=elements, stored_elements=one.stored_elements * times)

    return replace(
        workload,
        batch=workload.batch * times,
        layers=tuple(scaled(layer, times) for layer in workload.layers),
        inputs=tuple(map(border, workload.inputs)),
        outputs=tuple(map(border, workload.outputs)),
        caches=tuple(map(border, workload.caches)),
    )


def chained(workload: Workload) -> tuple[Workload, int]:
    """Each vector layer joined to the only layer that makes its input for it, and how many were.

    The tensor between them is then neither written nor read, and one kernel fewer is started.
    """
    layers = list(workload.layers)
    leaving = workload.lasting
    joined = 0
    place = 0
    while place < len(layers):
        maker = _sole_maker(layers, place, leaving)
        if maker is None:
            place += 1
            continue
        layers[place] = _merged(layers[maker], layers[place])
        del layers[maker]
        joined += 1
    return replace(workload, layers=tuple(layers)), joined


def _sole_maker(layers: list[Layer], place: int, leaving: frozenset[int]) -> int | None:
    layer = layers[place]
    if layer.kind != "vector":
        return None
    for operand in layer.operands:
        if operand.role != "input" or operand.tensor in leaving:
            continue
        for before in range(place - 1, -1, -1):
            made = [o.tensor for o in layers[before].operands if o.role == "output"]
            if operand.tensor in made:
                if len(made) == 1 and _readers(layers, operand.tensor) == 1:
                    return before if layers[before].kind in ("product", "vector") else None
                break
    return None


def _readers(layers: list[Layer], tensor: int) -> int:
    return sum(
        any(o.tensor == tensor and o.role != "output" for o in layer.operands) for layer in layers
    )


def _merged(first: Layer, second: Layer) -> Layer:
    between = {o.tensor for o in first.operands if o.role == "output"}
    kept: dict[tuple[int, str], Operand] = {}
    for operand in (*first.operands, *second.operands):
        if operand.tensor not in between:
            kept[operand.tensor, operand.role] = operand
    return replace(
        first,
        name=f"{first.name} + {second.name}",
        macs=total((first.macs, second.macs)),
        vector_operations=total((first.vector_operations, second.vector_operations)),
        operands=tuple(kept.values()),
        products=(*first.products, *second.products),
        parameters=first.parameters + second.parameters,
        logical_parameters=first.logical_parameters + second.logical_parameters,
        origin=(*first.origin, *second.origin),
    )


def rounded_channels(workload: Workload, rounding: Callable[[int], int]) -> Workload:
    """Each product's output channels rounded, and what follows made as wide.

    What leaves the model keeps its width. A tensor of several makers takes the largest ratio.
    """
    ratios: dict[int, float] = {}
    leaving = workload.lasting
    layers: list[Layer] = []
    for layer in workload.layers:
        wider = max((ratios.get(o.tensor, 1.0) for o in layer.operands), default=1.0)
        out = wider
        if layer.kind == "product" and len(layer.products) == 1:
            product = layer.products[0]
            if product.groups == 1:
                ends = any(o.tensor in leaving for o in layer.operands if o.role == "output")
                out = 1.0 if ends else rounding(product.n) / product.n
        elif layer.kind not in ("product", "vector", "move"):
            out = 1.0
        for operand in layer.operands:
            if operand.role == "output" and operand.tensor not in leaving:
                ratios[operand.tensor] = out
        layers.append(_widened(layer, wider, out, ratios, leaving))
    return replace(workload, layers=tuple(layers))


def _widened(
    layer: Layer, wider: float, out: float, ratios: dict[int, float], leaving: frozenset[int]
) -> Layer:
    dense = len(layer.products) == 1 and layer.products[0].groups == 1

    def operand(one: Operand) -> Operand:
        if one.role == "weight":
            ratio = wider * out if dense else wider
        else:
            ratio = 1.0 if one.tensor in leaving else ratios.get(one.tensor, 1.0)
        elements = None if one.elements is None else ceil(one.elements * ratio)
        return replace(one, elements=elements, stored_elements=ceil(one.stored_elements * ratio))

    products = tuple(_resized(p, wider, out) for p in layer.products)
    vector = layer.vector_operations
    return replace(
        layer,
        operands=tuple(map(operand, layer.operands)),
        products=products,
        macs=sum(p.macs for p in products) if products else layer.macs,
        vector_operations=None if vector is None else ceil(vector * out),
    )


def _resized(product: Product, wider: float, out: float) -> Product:
    if product.groups == 1:
        return replace(product, k=ceil(product.k * wider), n=ceil(product.n * out))
    return replace(product, groups=ceil(product.groups * wider))
