"""How long a layer keeps the array and the vector unit, by the rows that it makes."""

from __future__ import annotations

from collections import Counter

from ridgeline.compiler.plan import LayerPlan
from ridgeline.machine.dataflow import Pass, shift_lead_cycles
from ridgeline.machine.description import Machine


class Work:
    """A layer's work by closed forms, whatever its tiles and wherever its operands lie.

    `weights_bytes`: of all its weight tiles, once.
    """

    def __init__(self, layer: LayerPlan, machine: Machine) -> None:
        self.array = machine.array
        tiles = [tile for column in layer.columns for tile in column.tiles]
        self.depths = Counter(tile.k for tile in tiles)
        self.weights_bytes = sum(tile.k * tile.width for tile in tiles)
        self.vector_cycles = _vector_cycles(layer, machine)
        """Of one row."""

    def cycles(self, rows: int) -> float:
        """Of the busier of the two for so many rows of the output."""
        array = sum(count * self._tile_cycles(k, rows) for k, count in self.depths.items())
        return max(array, rows * self.vector_cycles)

    def _tile_cycles(self, k: int, rows: int) -> float:
        lead = shift_lead_cycles(self.array, Pass(k, rows)) + 1
        return max(rows, lead, k / self.array.weight_rows_per_cycle)


def _vector_cycles(layer: LayerPlan, machine: Machine) -> int:
    """Of one row: groups of lanes to requantise, or groups of lanes that are read for it."""
    if layer.columns:
        return sum(-(-column.n // machine.vector.lanes) for column in layer.columns)
    height, width = layer.window.kernel
    reads = max(1, len(layer.inputs)) if layer.kind == "elementwise" else height * width
    layout, lanes = layer.output.layout, machine.vector.lanes
    groups = sum(-(-layout.block_channels(block) // lanes) for block in range(layout.blocks))
    return groups * layout.planes * reads
