"""How long a layer keeps the array and the vector unit, by the rows that it makes."""

from __future__ import annotations

from collections import Counter

from ridgeline.compiler.plan import LayerPlan
from ridgeline.machine.dataflow import Pass, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.latencies import LATENCIES


class Work:
    """A layer's work by closed forms, whatever its tiles and wherever its operands lie.

    `weights_bytes`: of all its weight tiles, once.
    """

    def __init__(self, layer: LayerPlan, machine: Machine) -> None:
        self.array = machine.array
        self.bytes_per_cycle = machine.device_memory.bytes_per_s / machine.clock_hz
        self.memory_latency_cycles = machine.device_memory.latency_cycles
        tiles = [tile for column in layer.columns for tile in column.tiles]
        self.depths = Counter(tile.k for tile in tiles)
        self.weights_bytes = sum(tile.k * tile.width for tile in tiles)
        self.vector_cycles = _vector_cycles(layer, machine)
        """Of one row."""

    def cycles(self, rows: int) -> float:
        """Of the busier of the two for so many rows of the output."""
        return max(self.array_cycles(rows), rows * self.vector_cycles)

    def array_cycles(self, rows: int) -> float:
        """Of the array: each tile streams the rows, or as long as the next one shifts in."""
        return sum(count * self._tile_cycles(k, rows) for k, count in self.depths.items())

    def slot_cycles(self, rows: int) -> float:
        """Beyond those of the array: for a slot, which is free once its sums have drained.

        A slot's round: its tile is read, shifts in, streams, and the last sum leaves the array.
        """
        if not self.depths:
            return 0.0
        array = self.array
        tile_bytes = self.weights_bytes / self.depths.total()
        fixed = tile_bytes / self.bytes_per_cycle + self.memory_latency_cycles + LATENCIES.weights
        fixed += array.rows + array.cols + LATENCIES.array + rows
        waited = 0.0
        for k, count in self.depths.items():
            turn = fixed + shift_lead_cycles(array, Pass(k, rows))
            waited += count * max(0.0, turn / array.weight_slots - self._tile_cycles(k, rows))
        return waited

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
