"""What each layer will need of the machine, by its plan: no tiles, instructions or simulation.

Tiles of weights are counted as the array divides them, values that find no room on chip go through
device memory, and layers between which a large value lies are made strip by strip where that is
faster: all as the compiler decides it, but by closed forms.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ridgeline.compiler.layout import Box
from ridgeline.compiler.pipeline import parts_of
from ridgeline.compiler.plan import LayerPlan, split_box
from ridgeline.compiler.strip_search import FULL, Runs, Scale, find_runs
from ridgeline.compiler.strips import Strips
from ridgeline.ir import Graph
from ridgeline.machine.dataflow import DATAFLOW_RULES, Tile, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.latencies import LATENCIES
from ridgeline.machine.simulate import host_cycles


@dataclass(slots=True)
class Need:
    """What a layer takes of the array, the vector unit and the device-memory port."""

    array_cycles: float = 0.0
    slot_cycles: float = 0.0
    """In which its tiles wait for a weight slot, beyond the array's."""
    vector_cycles: float = 0.0
    moved_bytes: int = 0
    spilled_bytes: int = 0
    """Of them, those of values that found no room on chip."""


Outline = dict[str, Need]
"""By the name of a layer on the device."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A quantised graph on a machine: an outline by each estimate of how much the buffer holds
    (`FULL`), the cycles of the host's parts, and how many parts the device has.
    """

    outlines: tuple[Outline, ...]
    host_cycles: int
    device_parts: int


def plan_of(graph: Graph, machine: Machine) -> Plan:
    """Raises RidgelineError where the machine cannot hold a layer's form."""
    found: tuple[Outline, ...] = tuple({} for _ in FULL)
    segments, hosts = parts_of(graph, machine)
    for segment in segments:
        ways: list[Runs] = [(), *find_runs(segment, machine)]
        for outline, full in zip(found, FULL, strict=True):
            scale = Scale(segment, machine, full)
            strips = [Strips(segment, runs, one_image=True) for runs in ways]
            best = min(strips, key=lambda way: scale.weigh(way).cycles)
            names = (layer.node.name for layer in segment.layers)
            outline.update(zip(names, _needs(scale, best, machine), strict=True))
    return Plan(found, sum(host_cycles(host, machine) for host in hosts), len(segments))


def moved_bytes(outline: Outline) -> int:
    """Bytes through the port of device memory, of all layers."""
    return sum(need.moved_bytes for need in outline.values())


def _needs(scale: Scale, strips: Strips, machine: Machine) -> list[Need]:
    """What each layer takes over all its visits."""
    spilled = scale.spilled(strips)
    found = [Need() for _ in scale.segment.layers]
    tiles = [_Tiles(layer, machine) for layer in scale.segment.layers]
    for visit in strips.visits:
        layer, need = scale.segment.layers[visit.position], found[visit.position]
        if layer.kind not in ("alias", "move"):
            array, slots = tiles[visit.position].cycles(visit.box)
            need.array_cycles += visit.times * array
            need.slot_cycles += visit.times * slots
            written = layer.output.layout.planes if layer.columns else 1
            vector = scale.work[visit.position].vector_cycles * written
            need.vector_cycles += visit.times * visit.box.rows * vector
        moved, of_spilled = scale.moved_bytes(visit, spilled)
        need.moved_bytes += visit.times * (moved + of_spilled)
        need.spilled_bytes += visit.times * of_spilled
    return found


class _Tiles:
    """A layer's weight tiles, and what they keep the array for in its dataflow."""

    def __init__(self, layer: LayerPlan, machine: Machine) -> None:
        self.array, self.rule = machine.array, DATAFLOW_RULES[machine.array.dataflow]
        self.tiles = Counter(
            (tile.k, tile.n, tile is column.tiles[-1])
            for column in layer.columns
            for tile in column.tiles
        )
        self.planes = layer.inputs[0].layout.planes if layer.columns else 1
        # A slot's round: its tile is read, shifts in and streams, and the last sum leaves.
        memory = machine.device_memory
        stored = [tile.k * tile.width for column in layer.columns for tile in column.tiles]
        tile_bytes = sum(stored) / len(stored) if stored else 0.0
        self.round_cycles = tile_bytes * machine.clock_hz / memory.bytes_per_s
        self.round_cycles += memory.latency_cycles + LATENCIES.weights + LATENCIES.array
        self.round_cycles += machine.array.rows + machine.array.cols

    def cycles(self, box: Box) -> tuple[float, float]:
        """For a box of the output: of the array, and beyond it for slots to be free."""
        if not self.tiles:
            return 0.0, 0.0
        pieces = Counter(part.rows for part in split_box(box, self.rule.most_m(self.array)))
        busy, waited = 0.0, 0.0
        for (k, n, last), count in self.tiles.items():
            for m, times in pieces.items():
                interval, turn = self._interval(Tile(m, n, k, self.planes, last=last))
                busy += count * times * interval
                waited += count * times * max(0.0, turn - interval)
        return busy, waited

    def _interval(self, tile: Tile) -> tuple[float, float]:
        """From one such tile to the next: of the array, and of the slots, used in turn."""
        array, loaders = self.array, self.array.weight_rows_per_cycle
        leads, streams, interval = 0, 0, 0.0
        for one in self.rule.passes(tile):
            lead = shift_lead_cycles(array, one)
            # The next shift begins a cycle after the stream before it.
            interval += max(one.stream_cycles, lead + 1, one.shift_cycles / loaders)
            leads += lead
            streams += one.stream_cycles
        return interval, (self.round_cycles + leads + streams) / array.weight_slots
