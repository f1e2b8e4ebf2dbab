"""What each layer will need of the machine, by its plan alone: no tiles, instructions or simulation.

Tiles of weights are counted as the array divides them, values that find no room on chip go through
device memory, and layers between which a large value lies are made strip by strip where that is
faster: all as the compiler decides it, but by closed forms.
"""

from __future__ import annotations

from ridgeline.compiler.pipeline import segments_of
from ridgeline.compiler.strip_search import FULL, Need, Runs, Scale, find_runs
from ridgeline.compiler.strips import Strips
from ridgeline.ir import Graph
from ridgeline.machine.description import Machine

Outline = dict[str, Need]
"""By the name of a layer on the device."""


def outlines(graph: Graph, machine: Machine) -> list[Outline]:
    """The outline of a quantised graph by each estimate of how much the buffer holds (`FULL`).

    Raises RidgelineError where the machine cannot hold a layer's form.
    """
    found: list[Outline] = [{} for _ in FULL]
    for segment in segments_of(graph, machine):
        ways: list[Runs] = [(), *find_runs(segment, machine)]
        for outline, full in zip(found, FULL, strict=True):
            scale = Scale(segment, machine, full)
            strips = [Strips(segment, runs, one_image=True) for runs in ways]
            best = min(strips, key=lambda way: scale.weigh(way).cycles)
            names = (layer.node.name for layer in segment.layers)
            outline.update(zip(names, scale.needs(best), strict=True))
    return found


def moved_bytes(outline: Outline) -> int:
    """Bytes through the port of device memory, of all layers."""
    return sum(need.moved_bytes for need in outline.values())
