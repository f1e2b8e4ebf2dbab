"""The move template: what is wanted of tensors in device memory, loaded in its new layout."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.compiler.builder import Builder
from ridgeline.compiler.layout import Box, Region, strided
from ridgeline.compiler.moves import walks
from ridgeline.compiler.plan import LayerPlan


def lower_move(
    builder: Builder, plan: LayerPlan, box: Box, target: Region, addresses: Mapping[int, int]
) -> None:
    """Emit one output box of a rearrangement."""
    move = plan.rearrangement
    assert move is not None
    planes = target.layout.planes
    strides = (target.stride_n, target.stride_y, target.stride_x, planes)
    bases = [s if isinstance(s, int) else addresses[id(s)] for s in move.sources]
    for walk in walks(move.placed, box, target.layout):
        levels = [
            (one.count, one.device_stride, one.step * strides[one.axis]) for one in walk.levels
        ]
        line = target.address(*walk.place) + walk.plane
        device = bases[walk.source] + walk.offset
        for load in strided(levels, device, line, walk.width, walk.lane, plan.index):
            builder.add(load)
