"""How many rows one MatMul streams: decided by the exact cycles of the layer, simulated alone.

Long MatMuls reload weights less often; short ones let requantisation overlap. Neither wins always,
so the candidates are emitted, ordered and simulated as the program will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ridgeline.compiler.emit import Emitter
from ridgeline.compiler.lower_matmul import most_rows
from ridgeline.compiler.plan import TILE_FIELDS, Segment, TiledLayer
from ridgeline.compiler.schedule import prefetch
from ridgeline.machine.description import Machine
from ridgeline.machine.simulate import simulate_code

HALVINGS = 2
"""The most rows that a MatMul may stream are halved so often at most."""
BOXES = 2
"""Boxes simulated of a layer that has more: they are alike."""
COLUMNS = 4
"""Column tiles simulated of a layer that has more: they too are alike."""

SHAPE = [TILE_FIELDS.index(name) for name in ("k", "width", "tap_y", "tap_x")]

Key = tuple[object, ...]


class Chooser:
    """Chooses for the layers of one program; layers of equal shape are simulated once."""

    def __init__(self, machine: Machine, addresses: Mapping[int, int], device_bytes: int) -> None:
        self.machine = machine
        self.addresses = addresses
        self.device_bytes = device_bytes
        self._known: dict[Key, int] = {}

    def choose(self, segment: Segment, layer: TiledLayer) -> TiledLayer:
        """The layer with its `rows` set."""
        if layer.plan.kind != "matmul":
            return layer
        key = self._key(layer)
        if key not in self._known:
            self._known[key] = self._best(segment, layer)
        return replace(layer, rows=self._known[key])

    def _key(self, layer: TiledLayer) -> Key:
        plan = layer.plan
        tiles = tuple((c.n, c.table[SHAPE].tobytes()) for c in plan.columns)
        shapes = tuple(
            (o.layout.n, o.layout.h, o.layout.w, o.layout.c, o.layout.format)
            for o in (*plan.inputs, plan.output)
        )
        window = (plan.window.stride, plan.window.dilation, plan.window.pad)
        return (
            tiles,
            shapes,
            window,
            tuple(b.sizes for b in layer.boxes),
            layer.store,
            layer.loads,
        )

    def _best(self, segment: Segment, layer: TiledLayer) -> int:
        """The most rows, halved while that takes fewer cycles."""
        rows = min(most_rows(self.machine), max(b.rows for b in layer.boxes))
        cycles = -1
        for _ in range(HALVINGS):
            fewer = -(-rows // 2)
            if fewer == rows or fewer < self._shift_cycles(layer):
                break
            if cycles < 0:
                cycles = self._cycles(segment, layer, rows)
            halved = self._cycles(segment, layer, fewer)
            if halved >= cycles:
                break
            rows, cycles = fewer, halved
        return rows

    def _shift_cycles(self, layer: TiledLayer) -> float:
        """How long the array shifts a tile in: fewer rows than that leave it idle, if it does."""
        array = self.machine.array
        if array.dataflow != "weight-stationary":
            return 0
        deepest = max(tile.k for column in layer.plan.columns for tile in column.tiles)
        return deepest / array.weight_rows_per_cycle

    def _cycles(self, segment: Segment, layer: TiledLayer, rows: int) -> int:
        emitter = Emitter(self.machine, segment, self.addresses)
        plan = replace(layer.plan, columns=layer.plan.columns[:COLUMNS])
        tried = replace(layer, plan=plan, rows=rows)
        for number in range(min(BOXES, len(layer.boxes))):
            emitter.emit_box(tried, number)
        code = prefetch(emitter.builder.code(), self.machine, 0, self.device_bytes)
        return simulate_code(code, self.machine)[1]
