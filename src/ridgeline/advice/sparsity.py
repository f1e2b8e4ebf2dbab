"""2:4 sparsity: of four weights along k two are stored, each with two bits that say which."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.chips.sheet import Chip
from ridgeline.errors import RidgelineError
from ridgeline.roofline.roof import roof_of, storage_of
from ridgeline.workload.layer import Layer, Operand, Workload

INDEX_BITS = 2
"""NVIDIA, Accelerating Sparse Deep Neural Networks (arXiv:2104.08378), section 3.1."""


def sparse_chip(chip: Chip) -> Chip:
    """The chip at its sparse peaks."""
    peaks = tuple(
        replace(peak, dense=peak.sparse, units=None, unchecked="the sparse peak")
        if peak.sparse is not None and peak.sparsity == "2:4"
        else peak
        for peak in chip.peaks
    )
    return replace(chip, peaks=peaks)


def check_sparse(chip: Chip, precision: str) -> None:
    """Raises RidgelineError where the sheet has no 2:4 peak of this precision."""
    peak = roof_of(chip, precision).peak
    if peak.sparse is None or peak.sparsity != "2:4":
        raise RidgelineError(f"the sheet of {chip.name} has no 2:4 peak in {peak.precision}")


def sparse_weights(workload: Workload, precision: str) -> Workload:
    """The weights of products in the bits that 2:4 takes on average: 9 of 16, 5 of 8, 3 of 4."""

    def stored(layer: Layer, operand: Operand, bits: int) -> Operand:
        if layer.kind != "product" or operand.role != "weight" or not operand.movable:
            return operand
        bits = min(bits, operand.bits)
        return replace(operand, bits=(bits + INDEX_BITS) // 2)

    bits = storage_of(precision).weight_bits
    layers = tuple(
        replace(layer, operands=tuple(stored(layer, o, bits) for o in layer.operands))
        for layer in workload.layers
    )
    return replace(workload, layers=layers)
