"""The least cycles that any schedule of a graph could take on a machine, by closed forms.

Nothing here knows how the compiler tiles, orders or allocates. A layer's *ways* are the mappings
that the instruction set has for it where activations lie as rows of channels: on the array tap by
tap or over windows gathered from device memory, or on the vector unit. Each way needs cycles of
the array, of the vector unit and of the device-memory port, whatever its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from ridgeline.compiler.place import Placement, place
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.dataflow import Pass, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.lookup import table_lines
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.ops.convolution import is_depthwise
from ridgeline.ops.stored import same_quantisation
from ridgeline.ops.windows import Geometry
from ridgeline.passes.dead import remove_dead

GRID = 32
"""Steps of the prices with which `Bounds.floor_cycles` weighs the units."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one mapping of a layer takes at least: cycles of each unit."""

    array_cycles: float
    vector_cycles: float
    port_cycles: float = 0.0

    @property
    def cycles(self) -> float:
        """Of the layer alone, its units all at once."""
        return max(self.array_cycles, self.vector_cycles, self.port_cycles)


@dataclass(frozen=True, slots=True)
class LayerBound:
    """One layer on the device and its ways; one that only renames or moves bytes has none."""

    name: str
    op: str
    ways: tuple[Way, ...]

    @property
    def cycles(self) -> float:
        return min((way.cycles for way in self.ways), default=0.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the device part of a graph takes at least.

    `memory_cycles`: weights and parameters once, and what enters and leaves twice, over the
    bandwidth. `link_cycles`: what crosses the host link over its rate. `ideal_cycles`: MACs over
    the array's peak.
    """

    layers: tuple[LayerBound, ...]
    memory_cycles: float
    link_cycles: float
    ideal_cycles: float

    @property
    def layer_cycles(self) -> float:
        """Of all layers, one after the other, each in its best way."""
        return sum(layer.cycles for layer in self.layers)

    @property
    def terms(self) -> dict[str, float]:
        return {
            "layers": self.layer_cycles,
            "memory": self.memory_cycles,
            "link": self.link_cycles,
        }

    @property
    def cycles(self) -> int:
        """The largest term: layers one after the other, memory, or link."""
        return ceil(max(self.terms.values()))

    @property
    def limit(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def floor_cycles(self) -> int:
        """What holds even if layers overlap and split between units as they like.

        For prices a, v, p >= 0 that sum to 1, the busiest unit works at least the sum over layers
        of the least a * array + v * vector + p * port cycles of a way: linear programming's dual,
        so that every price gives a bound, and the best of a grid is taken.
        """
        best = self.link_cycles
        for a in range(GRID + 1):
            for v in range(GRID + 1 - a):
                p = GRID - a - v
                price = np.asarray([a, v, p]) / GRID
                total = price[2] * self.memory_cycles
                for layer in self.layers:
                    if layer.ways:
                        total += (_table(layer.ways) @ price).min()
                best = max(best, float(total))
        return ceil(best)


def _table(ways: tuple[Way, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray([(w.array_cycles, w.vector_cycles, w.port_cycles) for w in ways])


def bounds(graph: Graph, machine: Machine) -> Bounds:
    """The bounds of a quantised graph's device part, as placement divides it."""
    graph = remove_dead(graph)
    placement = place(graph, machine)
    device = [node for node in graph.nodes if placement.on_device(node)]
    layers = tuple(
        LayerBound(node.name, node.op, tuple(_ways(node, placement, machine))) for node in device
    )
    crossing = _crossing_bytes(graph, placement)
    memory = machine.device_memory.bytes_per_s / machine.clock_hz
    constants = sum(_constant_bytes(node, machine) for node in device)
    macs = sum(_macs(node) for node in device)
    return Bounds(
        layers,
        (constants + 2 * crossing) / memory,
        crossing / float(machine.link_bytes_per_cycle),
        macs / (machine.array.rows * machine.array.cols),
    )


def _crossing_bytes(graph: Graph, placement: Placement) -> int:
    """Bytes of all values that one side makes, or is given, and the other reads or gives."""
    made = {id(v): placement.on_device(n) for n in graph.nodes for v in n.outputs}
    values: dict[int, Value] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is None or value.is_constant:
                continue
            if made.get(id(value), False) != placement.on_device(node):
                values[id(value)] = value
    for value in graph.outputs:
        if made.get(id(value), False):
            values[id(value)] = value
    return sum(v.type.elements * v.type.dtype.bits // 8 for v in values.values())


def _weighted(node: Node) -> bool:
    return node.op in ("Conv", "MatMul")


def _constant_bytes(node: Node, machine: Machine) -> int:
    """Weights and a record of parameters for each channel, once."""
    if node.op == "Lookup":
        return node.input(1).type.elements
    if not _weighted(node):
        return 0
    return node.input(1).type.elements + PARAMETER_BYTES * _outputs(node)


def _outputs(node: Node) -> int:
    weights = node.input(1).type.shape
    return weights[0] if node.op == "Conv" else weights[-1]


def _macs(node: Node) -> int:
    if not _weighted(node):
        return 0
    weights = node.input(1).type
    return weights.elements // _outputs(node) * node.output.type.elements


def _ways(node: Node, placement: Placement, machine: Machine) -> Iterator[Way]:
    stored = placement.storage[id(node.output)]
    if stored.moved or node.op in ("Reshape", "Transpose"):
        return
    if node.op == "MatMul":
        yield _dense_way(node, machine)
    elif node.op == "Conv":
        yield from _convolution_ways(node, placement, machine)
    elif node.op in ("MaxPool", "AveragePool", "GlobalAveragePool"):
        yield Way(0, _Taps.of(node).inside * _groups(node.output.type.shape[1], machine))
    else:
        yield Way(0, _elementwise_cycles(node, stored.channel_axis, machine))


def _elementwise_cycles(node: Node, axis: int, machine: Machine) -> int:
    """A vector a cycle and operand read; a Concat of one quantisation may be made in place."""
    channels = node.output.type.shape[axis]
    rows = node.output.type.elements // channels * _groups(channels, machine)
    if node.op == "Concat":
        alike = all(v is None or same_quantisation(v, node.output) for v in node.inputs)
        return 0 if alike else rows
    if node.op == "Lookup":
        return rows + table_lines(machine)
    return rows * (1 if node.op in ("PRelu", "Clip") else 2)


def _groups(channels: int, machine: Machine) -> int:
    """Cycles of the vector unit for one row of so many channels."""
    line, lanes = machine.unified_buffer.line_bytes, machine.vector.lanes
    return sum(-(-c // lanes) for _, c in _chunks(0, channels, line, line))


@dataclass(frozen=True, slots=True)
class _Taps:
    """A window's taps along y and x: how many of the output rows, or columns, have each inside."""

    images: int
    rows: int
    columns: int
    by_row: tuple[int, ...]
    by_column: tuple[int, ...]

    @property
    def inside(self) -> int:
        """Vectors read in all, of one block of channels."""
        return self.images * sum(self.by_row) * sum(self.by_column)

    @staticmethod
    def of(node: Node) -> _Taps:
        spatial, made = node.input(0).type.shape[2:], node.output.type.shape[2:]
        if node.op == "GlobalAveragePool":
            taps = [(1,) * size for size in spatial]
        else:
            geometry = Geometry.of(node.attrs, node.op)
            taps = [_inside(geometry, axis, spatial[axis], n) for axis, n in enumerate(made)]
        if len(taps) == 1:
            return _Taps(node.output.type.shape[0], 1, made[0], (1,), taps[0])
        return _Taps(node.output.type.shape[0], made[0], made[1], taps[0], taps[1])


def _inside(geometry: Geometry, axis: int, size: int, outputs: int) -> tuple[int, ...]:
    starts = np.arange(outputs) * geometry.strides[axis] - geometry.pads[axis]
    taps = (starts + tap * geometry.dilations[axis] for tap in range(geometry.kernel[axis]))
    return tuple(int(((at >= 0) & (at < size)).sum()) for at in taps)


def _chunks(start: int, end: int, most: int, line: int) -> list[tuple[int, int]]:
    """(first, count): [start, end) in the fewest pieces of at most `most` that cross no line."""
    pieces: list[tuple[int, int]] = []
    while start < end:
        stop = min(start + most, (start // line + 1) * line, end)
        pieces.append((start, stop - start))
        start = stop
    return pieces


def _dense_way(node: Node, machine: Machine) -> Way:
    depth, outputs = node.input(1).type.shape
    rows = node.input(0).type.elements // depth
    tiles = [(rows, k) for _, k in _chunks(0, depth, machine.array.rows, machine.array.rows)]
    return _array_way([(n, tiles) for _, n in _columns(outputs, machine)], rows, node, machine)


def _columns(outputs: int, machine: Machine) -> list[tuple[int, int]]:
    return _chunks(0, outputs, machine.array.cols, machine.unified_buffer.line_bytes)


def _convolution_ways(node: Node, placement: Placement, machine: Machine) -> Iterator[Way]:
    taps, outputs = _Taps.of(node), _outputs(node)
    groups = int(node.attrs.get("group", 1))
    yield _tap_way(node, taps, groups, machine)
    if groups == 1:
        yield from _gathered_ways(node, placement, taps, machine)
    single = is_depthwise(node) and outputs == node.input(0).type.shape[1]
    if single and "depthwise" in machine.vector.operations:
        # A tap's number follows from its place, so only whole rows of taps can be left out.
        read = taps.images * sum(taps.by_row) * taps.columns * len(taps.by_column)
        yield Way(0, read * _groups(outputs, machine))


def _tap_way(node: Node, taps: _Taps, groups: int, machine: Machine) -> Way:
    """Tap by tap, each over the outputs that have it inside; groups as block-diagonal tiles."""
    channels, outputs = node.input(0).type.shape[1], _outputs(node)
    line = machine.unified_buffer.line_bytes
    streams = [taps.images * y * x for y in taps.by_row for x in taps.by_column if y * x]
    columns: list[tuple[int, list[tuple[int, int]]]] = []
    for first, n in _columns(outputs, machine):
        low = first * groups // outputs * channels // groups
        high = ((first + n - 1) * groups // outputs + 1) * channels // groups
        depths = [k for _, k in _chunks(low, high, machine.array.rows, line)]
        columns.append((n, [(m, k) for m in streams for k in depths]))
    rows = taps.images * taps.rows * taps.columns
    return _array_way(columns, rows, node, machine)


def _gathered_ways(
    node: Node, placement: Placement, taps: _Taps, machine: Machine
) -> Iterator[Way]:
    """Windows of what comes from the host, a row of them or all, gathered into lines by Loads."""
    value, geometry = node.input(0), Geometry.of(node.attrs, node.op)
    makers = placement.graph.producers()
    maker = makers.get(id(value))
    if (maker is not None and placement.on_device(maker)) or geometry.dilations[-1] != 1:
        return
    channels, line = value.type.shape[1], machine.unified_buffer.line_bytes
    height, width = len(taps.by_row), len(taps.by_column)
    outputs = _columns(_outputs(node), machine)
    rows = taps.images * taps.rows * taps.columns
    rate = machine.device_memory.lines_per_cycle
    if width * channels <= line:
        depths = _chunks(0, width * channels, machine.array.rows, line)
        streams = [taps.images * y * taps.columns for y in taps.by_row if y]
        tiles = [(m, k) for m in streams for _, k in depths]
        read = _rows_read(geometry, taps, value.type.shape[2])
        port = taps.images * read * taps.columns / rate
        yield _array_way([(n, tiles) for _, n in outputs], rows, node, machine, port)
    if height * width * channels <= line:
        depths = _chunks(0, height * width * channels, machine.array.rows, line)
        tiles = [(rows, k) for _, k in depths]
        pieces = taps.images * sum(taps.by_row) * taps.columns
        yield _array_way([(n, tiles) for _, n in outputs], rows, node, machine, pieces / rate)


def _rows_read(geometry: Geometry, taps: _Taps, size: int) -> int:
    """Rows of the tensor, of `size`, that some window touches."""
    if len(geometry.kernel) == 1:
        return 1
    starts = np.arange(taps.rows) * geometry.strides[0] - geometry.pads[0]
    at = np.unique(starts[:, None] + np.arange(geometry.kernel[0]) * geometry.dilations[0])
    return int(((at >= 0) & (at < size)).sum())


def _array_way(
    columns: list[tuple[int, list[tuple[int, int]]]],
    rows: int,
    node: Node,
    machine: Machine,
    port_cycles: float = 0.0,
) -> Way:
    """`columns`: channels of each column of tiles, and its tiles (rows streamed, k)."""
    wide = 2 if node.input(0).type.dtype.bits == 16 else 1
    written = 2 if node.output.type.dtype.bits == 16 else 1
    lanes = machine.vector.lanes
    array = sum(_tiles_cycles(tiles, n, wide, machine) for n, tiles in columns)
    vector = sum(rows * written * -(-n // lanes) for n, _ in columns)
    return Way(array, vector, port_cycles)


def _tiles_cycles(tiles: list[tuple[int, int]], n: int, planes: int, machine: Machine) -> float:
    """Array cycles of one column of tiles, however its rows are divided."""
    array = machine.array
    loaders = array.weight_rows_per_cycle
    if array.dataflow == "weight-stationary":
        # Shifts of tiles begin a cycle after the stream before, and lead their own.
        leads = (shift_lead_cycles(array, Pass(k, m)) + 1 for m, k in tiles)
        streams = sum(max(m * planes, lead) for (m, _), lead in zip(tiles, leads, strict=True))
        return max(streams, sum(k for _, k in tiles) / loaders)
    if array.dataflow == "input-stationary":
        most = min(array.cols, array.accumulator_entries)
        passes = sum(-(-m // most) for m, _ in tiles) * planes
        return max(passes * n, sum(m for m, _ in tiles) * planes / loaders)
    most = min(array.rows, array.accumulator_entries)
    return planes * max(sum(-(-m // most) * k for m, k in tiles), sum(m for m, _ in tiles))
