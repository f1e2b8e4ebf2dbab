"""The array tick by tick: every register of every processing element, and its own small control.

It is written independently of `dataflow` and of `MatMul.apply`, whose times and sums it checks: it
starts each tile as early as registers allow, and finds out when the last sum leaves. In the
machine, a sum that leaves the array in cycle t shows in the array's count in cycle
t + LATENCIES.array: that constant is the stages of `STAGES_AROUND_THE_ARRAY`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from ridgeline.machine.description import Array
from ridgeline.machine.element_registers import (
    ENDS,
    FINAL,
    FIRST,
    HIGH,
    NOTHING,
    VALID,
    Feeder,
    Integers,
    OutputRegisters,
    StationaryRegisters,
    Word,
)

STAGES_AROUND_THE_ARRAY = (
    "unified-buffer read",
    "bank and sign",
    "zero point and mask",
    "accumulator read",
    "addition",
    "write and count",
)
"""One cycle each: three in front of the array's edge, three behind its foot. The register that
addresses the unified buffer is the one through which a vector comes to the edge in this model."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementTile:
    """activations [m, k] (9 bits signed, or 16 in two planes) times weights [k, n] (9 bits).

    `keep_weights`: the array holds these weights already. `accumulate`: add to the sums of the tile
    before. `last`: the sums leave an output-stationary array.
    """

    activations: Integers
    weights: Integers
    planes: int = 1
    keep_weights: bool = False
    accumulate: bool = False
    last: bool = True

    def bytes_of(self, plane: int) -> Integers:
        """The 9-bit operands [m, k] of one pass: the whole value, or its low or high byte."""
        values = self.activations
        if self.planes == 2:
            values = values & 255 if plane == 0 else values >> 8
        if values.size and (values.min() < -256 or values.max() > 255):
            raise ValueError("an activation does not fit 9 bits")
        return values


@dataclass(frozen=True, slots=True)
class ElementTimes:
    """Cycles of one pass: it began to shift, to stream; the next may stream; its last sum left.

    `left` is -1 where sums stay in the array.
    """

    tile: int
    shift_start: int
    stream_start: int
    stream_end: int
    left: int


@dataclass(frozen=True, slots=True, eq=False)
class ElementRun:
    """Sums [m, n] of each tile (None where they stay in the array) and the times of each pass."""

    sums: tuple[Integers | None, ...]
    passes: tuple[ElementTimes, ...]


@dataclass(slots=True)
class _Pass:
    """One pass while it runs; its times are filled in by the control."""

    tile: int
    words: list[Word]
    operands: Integers
    tags: list[tuple[int, int]]
    """(index of the vector of sums, plane) of each operand vector."""
    shift_start: int = NOTHING
    stream_start: int = NOTHING
    stream_end: int = NOTHING
    left: int = NOTHING

    def times(self) -> ElementTimes:
        return ElementTimes(
            self.tile, self.shift_start, self.stream_start, self.stream_end, self.left
        )


def run_elements(array: Array, tiles: list[ElementTile]) -> ElementRun:
    """Clock the array until the last sum has left. Every operand is ready at cycle 0."""
    output = array.dataflow == "output-stationary"
    return (OutputArray if output else StationaryArray)(array, tiles).run()


@dataclass(slots=True)
class _Loader:
    """Puts the words of a pass on its bus, one a cycle, from the cycle that gives them on."""

    words: list[Word] = field(default_factory=list[Word])

    def clock(self) -> Word | None:
        return self.words.pop(0) if self.words else None


class ElementArray(ABC):
    """What the dataflows share: the control's two registers, the queue of passes, the clock.

    `waiting` holds the pass that has begun to shift and not to stream, so its shadow plane is
    taken; `streaming` holds the pass whose operands enter. A register shows what a cycle did only
    in the next: that is why a pass streams a cycle after its shift at the earliest, and shifts a
    cycle after the stream before it.
    """

    def __init__(self, array: Array, tiles: list[ElementTile]) -> None:
        self.array = array
        self.tiles = tiles
        self.cycle = 0
        self.passes = [one for index in range(len(tiles)) for one in self.passes_of(index)]
        self.entered = 0
        self.waiting: _Pass | None = None
        self.streaming: _Pass | None = None
        self.place: int = 0
        self.sums: list[Integers | None] = [None] * len(tiles)
        self.owed = sum(len(one.tags) for one in self.passes)

    @abstractmethod
    def passes_of(self, index: int) -> list[_Pass]:
        """The passes of one tile."""

    def may_shift(self, one: _Pass) -> bool:
        """Whether the next pass may enter, as the registers stand."""
        return self.waiting is None

    @abstractmethod
    def may_stream(self) -> bool:
        """Whether the waiting pass may stream, as the registers stand."""

    @abstractmethod
    def shift(self, one: _Pass) -> None:
        """Take a pass in: start its loader, if it has one."""

    @abstractmethod
    def clock(self, swap: bool) -> None:
        """One cycle of the datapath."""

    def run(self) -> ElementRun:
        work = sum(sum(t.activations.shape) + t.weights.shape[1] for t in self.tiles)
        most_cycles = 4 * (work + self.array.rows + self.array.cols) + 100
        while self.owed or self.waiting or self.streaming or self.entered < len(self.passes):
            self._tick()
            if self.cycle > most_cycles:
                raise AssertionError("the array does not finish")
        return ElementRun(tuple(self.sums), tuple(one.times() for one in self.passes))

    def _tick(self) -> None:
        starts = self.waiting if self.waiting is not None and self.may_stream() else None
        enters = self.passes[self.entered] if self.entered < len(self.passes) else None
        if enters is not None and not self.may_shift(enters):
            enters = None
        if enters is not None:
            enters.shift_start = self.cycle
            self.shift(enters)
            self.entered += 1
        self.clock(starts is not None and bool(starts.words))
        if starts is not None:
            starts.stream_start = self.cycle
            self.streaming, self.place, self.waiting = starts, 0, None
        if enters is not None:
            self.waiting = enters
        self.cycle += 1

    def finish_stream(self) -> None:
        """The streaming pass needs the edge no longer after this cycle's clock."""
        assert self.streaming is not None
        self.streaming.stream_end = self.cycle
        self.streaming = None

    @abstractmethod
    def collect(self, one: _Pass, position: int, values: Integers) -> None:
        """A vector of sums has left the array: into the accumulators."""


def _padded(values: Integers, width: int) -> Integers:
    return np.concatenate([values, np.zeros(width - values.size, np.int64)])


class StationaryArray(ElementArray):
    """Weight- or input-stationary."""

    def __init__(self, array: Array, tiles: list[ElementTile]) -> None:
        self.exchanged = array.dataflow == "input-stationary"
        super().__init__(array, tiles)
        count = array.weight_rows_per_cycle
        self.registers = StationaryRegisters(
            array.rows, array.cols, count, columnwise=self.exchanged
        )
        self.loaders = [_Loader() for _ in range(count)]
        self.turn = 0
        self.accumulators: Integers = np.zeros((0, 0), np.int64)
        self.in_flight: dict[int, tuple[_Pass, int]] = {}
        self.serial = 0

    def passes_of(self, index: int) -> list[_Pass]:
        tile = self.tiles[index]
        rows, cols = self.array.rows, self.array.cols
        m, planes = tile.activations.shape[0], tile.planes
        if self.exchanged:
            columns = [_padded(column, rows) for column in tile.weights.T]
            return [
                _Pass(
                    index,
                    [Word(i, _padded(line, rows)) for i, line in enumerate(tile.bytes_of(p))],
                    np.asarray(columns, np.int64),
                    [(i, p) for i in range(len(columns))],
                )
                for p in range(planes)
            ]
        words = [Word(i, _padded(row, cols)) for i, row in enumerate(tile.weights)]
        tags = [(i, p) for i in range(m) for p in range(planes)]
        operands = [_padded(tile.bytes_of(p)[i], rows) for i, p in tags]
        kept = [] if tile.keep_weights else words
        return [_Pass(index, kept, np.asarray(operands, np.int64), tags)]

    def may_shift(self, one: _Pass) -> bool:
        return self.waiting is None and not (one.words and self.loaders[self.turn].words)

    def shift(self, one: _Pass) -> None:
        if one.words:
            self.loaders[self.turn].words = list(one.words)
            self.turn = (self.turn + 1) % len(self.loaders)

    def may_stream(self) -> bool:
        return self.streaming is None or self.place >= len(self.streaming.tags) - 1

    def clock(self, swap: bool) -> None:
        operand, tag = np.zeros(self.array.rows, np.int64), NOTHING
        if self.streaming is not None:
            operand, tag = self.streaming.operands[self.place], self.serial
            self.in_flight[tag] = (self.streaming, self.place)
            self.serial += 1
            self.place += 1
        words = [loader.clock() for loader in self.loaders]
        values, tags = self.registers.clock(operand, tag, swap, words)
        if (tags != tags[0]).any():
            raise AssertionError("sums of different vectors leave together")
        if tags[0] != NOTHING:
            self.collect(*self.in_flight.pop(int(tags[0])), values)
        if self.streaming is not None and self.place == len(self.streaming.tags):
            self.finish_stream()

    def collect(self, one: _Pass, position: int, values: Integers) -> None:
        tile = self.tiles[one.tile]
        vector, plane = one.tags[position]
        shape = (tile.activations.shape[0], tile.weights.shape[1])
        if self.accumulators.shape != shape:
            self.accumulators = np.zeros(shape, np.int64)
        place = np.s_[:, vector] if self.exchanged else np.s_[vector, :]
        part = values[: shape[0 if self.exchanged else 1]] << (8 * plane)
        if plane or tile.accumulate:
            part = part + self.accumulators[place]
        self.accumulators[place] = part
        one.left = self.cycle
        self.owed -= 1
        if position == len(one.tags) - 1 and plane == tile.planes - 1:
            self.sums[one.tile] = self.accumulators.copy()


class OutputArray(ElementArray):
    """Output-stationary."""

    def __init__(self, array: Array, tiles: list[ElementTile]) -> None:
        super().__init__(array, tiles)
        self.registers = OutputRegisters(array.rows, array.cols)
        self.feeder = Feeder(array.rows, max((t.weights.shape[0] for t in tiles), default=1))
        self.draining: list[_Pass] = []
        self.rows_left: list[Integers] = []

    def passes_of(self, index: int) -> list[_Pass]:
        tile = self.tiles[index]
        rows = range(tile.activations.shape[0])
        tags = [(row, 0) for row in rows] if tile.last else []
        return [_Pass(index, [], np.zeros((0, 0), np.int64), tags)]

    def shift(self, one: _Pass) -> None:
        """Both operands stream: there is nothing to load."""

    def may_stream(self) -> bool:
        """The port has passed the last line and weights, and, where the column drains after them,
        the last element of the last row is entering.
        """
        if self.streaming is None:
            return True
        tile = self.tiles[self.streaming.tile]
        depth, m = tile.weights.shape[0], tile.activations.shape[0]
        step = self.place - (tile.planes - 1) * max(depth, m)
        if not tile.last:
            return step == max(depth, m) - 1
        if step <= m - 1:
            return step == m - 1 and depth == 1
        return not self.feeder.tokens[m - 1, 1:].any()

    def clock(self, swap: bool) -> None:
        weights = np.zeros(self.array.cols, np.int64)
        ended = False
        if self.streaming is not None:
            ended = self.may_stream()
            weights = self._enter(self.tiles[self.streaming.tile])
            self.place += 1
        operands, tokens = self.feeder.clock()
        values, tags = self.registers.clock(operands, tokens, weights)
        if (tags != tags[0]).any():
            raise AssertionError("sums of different rows leave together")
        if tags[0] != NOTHING:
            self.collect(self.draining[0], int(tags[0]), values)
        if ended:
            assert self.streaming is not None
            if self.tiles[self.streaming.tile].last:
                self.draining.append(self.streaming)
            self.finish_stream()

    def _enter(self, tile: ElementTile) -> Integers:
        """Put this cycle's line into its feeder; return this cycle's row of weights."""
        depth, m = tile.weights.shape[0], tile.activations.shape[0]
        plane = min(self.place // max(depth, m), tile.planes - 1)
        step = self.place - plane * max(depth, m)
        if step < m:
            tokens = np.full(depth, VALID | (HIGH if plane else 0), np.int64)
            if plane == 0 and not tile.accumulate:
                tokens[0] |= FIRST
            if plane == tile.planes - 1 and tile.last:
                tokens[-1] |= ENDS | (FINAL if step == m - 1 else 0)
            self.feeder.take(step, tile.bytes_of(plane)[step], tokens)
        if step < depth:
            return _padded(tile.weights[step], self.array.cols)
        return np.zeros(self.array.cols, np.int64)

    def collect(self, one: _Pass, position: int, values: Integers) -> None:
        tile = self.tiles[one.tile]
        self.rows_left.append(values[: tile.weights.shape[1]])
        one.left = self.cycle
        self.owed -= 1
        if len(self.rows_left) == len(one.tags):
            self.sums[one.tile] = np.asarray(self.rows_left[::-1])
            self.rows_left = []
            self.draining.pop(0)
