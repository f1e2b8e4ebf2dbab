"""Weights that come on chip ahead of their layer, while the device-memory port has nothing to do.

Some layers need more bytes of weights than arrive while they are computed; those before them often
need few. What the buffer has left over then holds tiles ahead of time, from where they go into
their slots without the port. How many, and from when on, follows from how long each layer keeps the
array or the vector unit, and the port, busy; when each Load runs is decided by `schedule`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ridgeline.compiler.layout import Box
from ridgeline.compiler.lower_matmul import most_rows
from ridgeline.compiler.plan import Held, TiledLayer, WeightTile, split_box
from ridgeline.compiler.work import Work
from ridgeline.machine.description import Machine

Room = Callable[[int, int, int], int | None]
"""(lines, first layer, last layer) to the first line of room for as long, or None."""
Most = Callable[[int, int], int]
"""(first layer, last layer) to the most lines side by side that are free for as long."""


@dataclass(slots=True)
class _Load:
    """What a layer needs: cycles of the busiest of array and vector unit, and of the port."""

    work_cycles: float
    port_cycles: float
    held: int = 0
    """How many of its weight tiles are held."""


def hold_weights(
    layers: Sequence[TiledLayer], machine: Machine, room: Room, most: Most
) -> list[TiledLayer]:
    """The layers with the tiles that they hold, as far as there is room."""
    loads = [_load(layer, machine) for layer in layers]
    held: list[TiledLayer] = list(layers)
    order = _Order([layer.plan.index for layer in layers])
    for position in range(len(layers) - 1, 0, -1):
        found = _hold(position, layers[position], loads, order, machine, room, most)
        if found is not None:
            held[position] = found
    return held


class _Order:
    """The layers' numbers in order of visits, and the place of each among the layers."""

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = indices
        self.visits = Counter(indices)
        self.place = {index: place for place, index in enumerate(sorted(self.visits))}

    def once(self, position: int) -> bool:
        """Whether a layer is visited but once."""
        return self.visits[self.indices[position]] == 1


def _hold(
    position: int,
    layer: TiledLayer,
    loads: list[_Load],
    order: _Order,
    machine: Machine,
    room: Room,
    most: Most,
) -> TiledLayer | None:
    """One layer with tiles held since some layer before it; `loads` then know of their Loads."""
    own = loads[position]
    if not layer.plan.columns or own.port_cycles <= own.work_cycles or not order.once(position):
        return None
    tiles = [tile for column in layer.plan.columns for tile in column.tiles]
    bytes_per_cycle = machine.device_memory.bytes_per_s / machine.clock_hz
    once = sum(t.k * t.width for t in tiles) / len(tiles) / bytes_per_cycle
    saved = once * _repeats(layer, machine)
    count = min(len(tiles), int((own.port_cycles - own.work_cycles) / saved) + 1)
    least = min(t.k for t in tiles) * min(t.width for t in tiles)
    while count:
        first, used = _gaps_before(position, count * once, loads, order)
        begin, end = order.place[order.indices[max(0, first - 1)]], order.place[layer.plan.index]
        if count * least > most(begin, end) * machine.unified_buffer.line_bytes:
            count = count * 3 // 4
            continue
        lines, places = _places(_spread(tiles, count), machine)
        line = room(lines, begin, end)
        if line is not None:
            for before, cycles in used.items():
                loads[before].port_cycles += cycles
            own.port_cycles -= count * saved
            since = order.indices[max(0, first - 1)] if begin else 0
            held = [Held(tile, line + at, lane, since) for tile, (at, lane) in places]
            return replace(layer, held=tuple(held))
        count = count * 3 // 4
    return None


def _gaps_before(
    position: int, wanted: float, loads: Sequence[_Load], order: _Order
) -> tuple[int, dict[int, float]]:
    """(the first of the layers before one, cycles that each leaves the port), `wanted` in all."""
    first = position
    used: dict[int, float] = {}
    # Not while strips are made: a later one's instructions are of earlier layers.
    while wanted > 0 and first > 0 and order.once(first - 1):
        first -= 1
        used[first] = min(wanted, max(0.0, loads[first].work_cycles - loads[first].port_cycles))
        wanted -= used[first]
    return first, used


def _spread(tiles: Sequence[WeightTile], count: int) -> list[WeightTile]:
    """`count` of the tiles at even distances, so that the others come by the port in between."""
    total = len(tiles)
    return [t for i, t in enumerate(tiles) if (i + 1) * count // total > i * count // total]


def _places(
    tiles: Sequence[WeightTile], machine: Machine
) -> tuple[int, list[tuple[WeightTile, tuple[int, int]]]]:
    """(lines in all, each tile with its first line and lane): side by side while there is room."""
    width = machine.unified_buffer.line_bytes
    places: list[tuple[WeightTile, tuple[int, int]]] = []
    line, lane, depth = 0, 0, 0
    for tile in tiles:
        if lane + tile.width > width:
            line, lane, depth = line + depth, 0, 0
        places.append((tile, (line, lane)))
        lane, depth = lane + tile.width, max(depth, tile.k)
    return line + depth, places


def _load(layer: TiledLayer, machine: Machine) -> _Load:
    plan = layer.plan
    if plan.kind in ("alias", "move"):
        return _Load(0.0, 0.0)
    rate = machine.device_memory.bytes_per_s / machine.clock_hz
    rows, work = sum(box.rows for box in layer.boxes), Work(plan, machine)
    moved = sum(
        region.box.rows * region.layout.row_bytes
        for regions, loaded in zip(layer.inputs, layer.loads, strict=True)
        for region, comes in zip(regions, loaded, strict=True)
        if comes
    )
    moved += rows * plan.output.layout.row_bytes if layer.store else 0
    weights_bytes = work.weights_bytes * _repeats(layer, machine)
    return _Load(work.cycles(rows), (weights_bytes + moved) / rate)


def _repeats(layer: TiledLayer, machine: Machine) -> float:
    """How often each tile comes into a slot: for each part of the rows, unless all stay there."""
    deepest = max(len(column.tiles) for column in layer.plan.columns) if layer.plan.columns else 1
    if deepest <= machine.array.weight_slots:
        return len(layer.boxes) * layer.parts
    rows = layer.rows or most_rows(machine)
    pieces = sum(len(split_box(part, rows)) for part in _boxes(layer))
    # Every second piece begins with the tiles that the one before it left in the slots.
    return max(1.0, pieces - (pieces - 1) * machine.array.weight_slots / deepest)


def _boxes(layer: TiledLayer) -> list[Box]:
    return [p for box in layer.boxes for p in split_box(box, -(-box.rows // layer.parts))]
