"""A program as steps: chains of MatMul and Requant, and elementwise runs, gathered into batches.

Program order is kept in meaning: a step moves behind another only where neither writes what the
other touches. Weights and parameters that are constants are taken from the program's file; sums
are computed when a Requant takes them, or put into the accumulators where something else needs
them there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ridgeline.machine.execution.batches import Batcher
from ridgeline.machine.execution.chains import Chain, Chains
from ridgeline.machine.execution.constants import Constants, Parameters
from ridgeline.machine.execution.hazards import LineSet
from ridgeline.machine.execution.held import ParameterSlots, WeightSlots
from ridgeline.machine.execution.liveness import read_again
from ridgeline.machine.execution.products import ChainStep, Rounding
from ridgeline.machine.execution.reductions import Reduction, reach, tap_windows
from ridgeline.machine.execution.steps import One, Step, Transfer, copies_whole
from ridgeline.machine.execution.tables import Replacement, table_key
from ridgeline.machine.execution.walks import LeavesMemory, Lines, Triple, span
from ridgeline.machine.execution.windows import Window, window_of
from ridgeline.machine.instructions import (
    Elementwise,
    HostRead,
    HostWrite,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    RealElementwise,
    Requant,
    Store,
    WindowReduce,
)
from ridgeline.machine.instructions.array import INT16
from ridgeline.machine.instructions.lookup import table_lines
from ridgeline.machine.instructions.real import SLOPE
from ridgeline.machine.instructions.vector import DEPTHWISE, RESCALE
from ridgeline.machine.instructions.weights import PARAMETER_BYTES
from ridgeline.machine.program import DeviceSegment, Program

_WALK: Callable[[MatMul], tuple[Any, ...]] = attrgetter(
    *("line", "lane", "k", "format", "zero_point", "count_0", "count_1", "count_2"),
    *("stride_0", "stride_1", "stride_2", "x_origin", "x_step", "x_limit"),
    *("y_origin", "y_step", "y_limit"),
)
"""All that a MatMul's window depends on."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The steps of every device segment, by the segment's number."""

    steps: dict[int, tuple[Step, ...]]


def plan(program: Program) -> Plan | None:
    """The program's plan; None where an instruction does not stay within the machine's memories.

    Raises RidgelineError for constant parameters that LoadParams refuses.
    """
    planner = _Planner(program)
    steps: dict[int, tuple[Step, ...]] = {}
    try:
        for number, segment in enumerate(program.segments):
            if isinstance(segment, DeviceSegment):
                steps[number] = planner.segment(segment)
    except LeavesMemory:
        return None
    return Plan(steps)


class _Planner:
    """Takes instructions in program order; what it knows passes from segment to segment."""

    def __init__(self, program: Program) -> None:
        self.machine = program.machine
        self.host_bytes, self.device_bytes = program.host_bytes, program.device_bytes
        buffer = program.machine.unified_buffer
        self.shape = (buffer.lines, buffer.line_bytes)
        self.constants = Constants(program)
        self.read_again = read_again(program)
        self.weights, self.parameters = WeightSlots(), ParameterSlots()
        self.chains = Chains()
        self.windows: dict[tuple[Any, ...], Window] = {}
        self.batcher = Batcher(program.machine, program.constants)
        self.reading, self.writing = LineSet(buffer.lines), LineSet(buffer.lines)
        self.steps: list[Step] = []
        self.place = -1
        self.handlers: dict[type[Instruction], Callable[[Any], None]] = {
            HostRead: self._link,
            HostWrite: self._link,
            Load: self._load,
            Store: self._store,
            LoadWeights: self._load_weights,
            LoadParams: self._load_params,
            MatMul: self._matmul,
            Requant: self._requant,
            Elementwise: self._elementwise,
            WindowReduce: self._window_reduce,
            Lookup: self._lookup,
            RealElementwise: self._real_elementwise,
        }

    def segment(self, segment: DeviceSegment) -> tuple[Step, ...]:
        """The steps of the next device segment."""
        for one in segment.instructions:
            self.place += 1
            self.handlers[type(one)](one)
        self._flush()
        made, self.steps = tuple(self.steps), []
        return made

    # What must happen before lines are read or written.

    def _flush(self) -> None:
        batch = self.batcher.take()
        if batch is not None:
            self.steps.append(batch)
            self.reading.clear()
            self.writing.clear()

    def _before_read(self, first: int, last: int) -> None:
        if self.writing.hits(first, last):
            self._flush()

    def _before_write(self, first: int, last: int, joins: bool) -> None:
        """`joins`: it is a write of the batch under way, which keeps their order."""
        if self.reading.hits(first, last) or (not joins and self.writing.hits(first, last)):
            self._flush()
        for chain in self.chains.reading(first, last):
            self._settle(chain)

    def _settle(self, chain: Chain) -> None:
        """Put the sums of a chain into the accumulators."""
        parts = tuple(chain.parts)
        loads = [tile.load for _, tile in parts]
        end = max(load.last_column + load.n for load in loads)
        columns = max(1, min(end, self.machine.array.cols))
        self.steps.append(ChainStep(self.batcher.sums([parts], [columns]), chain.entry))
        self.chains.remove(chain)

    def _settle_entries(self, entry: int, m: int) -> None:
        for chain in self.chains.overlapping(entry, m):
            self._settle(chain)

    # Link, load, store and weights units.

    def _link(self, one: HostRead | HostWrite) -> None:
        _require(one.host_address + one.length_bytes <= self.host_bytes)
        _require(one.device_address + one.length_bytes <= self.device_bytes)
        self.steps.append(One(one))

    def _transfer(self, one: Load | Store) -> Lines:
        low, high = span(one.device_address, one.counts, one.device_strides)
        _require(low >= 0 and high + one.element_bytes <= self.device_bytes)
        return self._lines(one.line, one.counts, one.line_strides, one.lane, one.element_bytes, 0)

    def _load(self, one: Load) -> None:
        lines = self._transfer(one)
        self._before_write(lines.first, lines.last, joins=False)
        self.steps.append(Transfer(one, lines) if copies_whole(one) else One(one))

    def _store(self, one: Store) -> None:
        lines = self._transfer(one)
        self._before_read(lines.first, lines.last)
        self.steps.append(Transfer(one, lines) if copies_whole(one) else One(one))

    def _load_weights(self, one: LoadWeights) -> None:
        array = self.machine.array
        fits = 0 < one.k <= array.rows and 0 < one.n <= array.cols
        _require(fits and one.slot < array.weight_slots)
        tile = self.constants.tile(one)
        self.weights.load(one, tile)
        if tile is not None:
            return
        rows, width = (one.n, one.k) if one.transposed else (one.k, one.n)
        counts, strides = (rows, 1, 1), (one.row_stride, 0, 0)
        if one.from_buffer:
            lines = self._lines(one.address, counts, strides, one.lane, width, 0)
            self._before_read(lines.first, lines.last)
        else:
            low, high = span(one.address, counts, strides)
            _require(low >= 0 and high + width <= self.device_bytes)
        self.steps.append(One(one))

    def _load_params(self, one: LoadParams) -> None:
        _require(one.slot < self.machine.vector.parameter_slots)
        _require(0 < one.count <= self.shape[1])
        _require(one.device_address + one.count * PARAMETER_BYTES <= self.device_bytes)
        parameters = self.constants.parameters(one)
        self.parameters.load(one, parameters)
        if parameters is None:
            self._pay_parameters(one.slot)
            self.steps.append(One(one))

    def _pay_parameters(self, slot: int) -> None:
        self.steps += map(One, self.parameters.owed(slot))

    # Array unit.

    def _matmul(self, one: MatMul) -> None:
        array, entry, m = self.machine.array, one.entry, one.m
        _require(one.slot < array.weight_slots and one.k <= array.rows)
        _require(entry + m <= array.accumulator_entries)
        window = self._window(one)
        if window.inside is not None:
            self._before_read(window.inside.first, window.inside.last)
        tile = self.weights.tile(one.slot)
        chain = self.chains.exactly(entry, m)
        if tile is None or (one.accumulate and chain is None):
            self._settle_entries(entry, m)
            self.steps += map(One, self.weights.owed(one.slot))
            self.steps.append(One(one))
            return
        if not one.accumulate:
            if chain is None:
                self._settle_entries(entry, m)
            chain = Chain(entry, m)
            self.chains.put(chain)
        assert chain is not None
        chain.add((window, tile))

    def _window(self, one: MatMul) -> Window:
        """The window of a MatMul, the same object for the same walk."""
        key = _WALK(one)
        window = self.windows.get(key)
        if window is None:
            window = window_of(one, one.k, self.shape, number=len(self.windows))
            self.windows[key] = window
        return window

    # Vector unit.

    def _requant(self, one: Requant) -> None:
        _require(one.entry + one.m <= self.machine.array.accumulator_entries)
        _require(one.channels <= self.machine.array.cols)
        target = self._target(one)
        chain = self.chains.exactly(one.entry, one.m)
        parameters = self._parameters(one.slot, one.channels)
        if chain is None or parameters is None:
            self._settle_entries(one.entry, one.m)
            self._before_write(target.first, target.last, joins=False)
            self._pay_parameters(one.slot)
            self.steps.append(One(one))
            return
        if self.place not in self.read_again:
            self.chains.remove(chain)
        self._before_write(target.first, target.last, joins=True)
        rounding = Rounding(one.out_format, one.out_zero_point, one.low, one.high)
        self.batcher.add_product(chain.parts, parameters, target, rounding)
        self.reading.add(chain.first, chain.last)
        self.writing.add(target.first, target.last)

    def _elementwise(self, one: Elementwise) -> None:
        strides = (one.a_stride_0, one.a_stride_1, one.a_stride_2)
        width = one.channels
        read = [self._lines(one.a_line, one.counts, strides, one.lane, width, one.format)]
        if one.operation != RESCALE:
            strides = (one.b_stride_0, one.b_stride_1, one.b_stride_2)
            read.append(self._lines(one.b_line, one.counts, strides, one.lane, width, one.format))
        target = self._target(one)
        for lines in read:
            self._before_read(lines.first, lines.last)
        key = table_key(one)
        self._before_write(target.first, target.last, joins=key is not None)
        if key is None:
            self.steps.append(One(one))
            return
        self.batcher.add_combination(key, one, read[0], read[1] if len(read) > 1 else None, target)
        for lines in read:
            self.reading.add(lines.first, lines.last)
        self.writing.add(target.first, target.last)

    def _window_reduce(self, one: WindowReduce) -> None:
        _require(one.taps_0 > 0 and one.taps_1 > 0)
        taps, target = tap_windows(one, self.shape), self._target(one)
        self._before_read(*reach(taps))
        parameters = None
        if one.operation == DEPTHWISE:
            counts, strides = (one.taps, 1, 1), (1, 0, 0)
            weights = self._lines(one.weight_line, counts, strides, one.lane, one.channels, 0)
            self._before_read(weights.first, weights.last)
            parameters = self._parameters(one.slot, one.channels)
        self._before_write(target.first, target.last, joins=False)
        if Reduction.takes(one, parameters):
            self.steps.append(Reduction(one, taps, target, parameters, self.machine))
            return
        if one.operation == DEPTHWISE:
            self._pay_parameters(one.slot)
        self.steps.append(One(one))

    def _lookup(self, one: Lookup) -> None:
        count = table_lines(self.machine)
        _require(one.table_line + count <= self.shape[0])
        strides = (one.stride_0, one.stride_1, one.stride_2)
        read = self._lines(one.line, one.counts, strides, one.lane, one.channels, one.format)
        target = self._target(one)
        self._before_read(read.first, read.last)
        self._before_read(one.table_line, one.table_line + count - 1)
        self._before_write(target.first, target.last, joins=False)
        narrow = INT16 not in (one.format, one.out_format)
        self.steps.append(Replacement(one, read, target) if narrow else One(one))

    def _real_elementwise(self, one: RealElementwise) -> None:
        strides = (
            (one.a_line, (one.a_stride_0, one.a_stride_1, one.a_stride_2)),
            (one.b_line, (one.b_stride_0, one.b_stride_1, one.b_stride_2)),
        )
        target = self._target(one)
        for line, walk in strides[: one.operands]:
            read = self._lines(line, one.counts, walk, one.lane, one.channels, one.format)
            self._before_read(read.first, read.last)
        self._before_write(target.first, target.last, joins=False)
        if one.operation == SLOPE:
            _require(one.slot < self.machine.vector.parameter_slots)
            self._pay_parameters(one.slot)
        self.steps.append(One(one))

    def _parameters(self, slot: int, channels: int) -> Parameters | None:
        _require(slot < self.machine.vector.parameter_slots)
        return self.parameters.parameters(slot, channels)

    def _target(
        self, one: Requant | Elementwise | WindowReduce | Lookup | RealElementwise
    ) -> Lines:
        strides = (one.out_stride_0, one.out_stride_1, one.out_stride_2)
        return self._lines(
            one.out_line, one.counts, strides, one.out_lane, one.channels, one.out_format
        )

    def _lines(
        self,
        line: int,
        counts: Triple,
        strides: Triple,
        lane: int,
        width: int,
        format_code: int,
    ) -> Lines:
        return Lines.checked(self.shape, line, counts, strides, lane, width, format_code)


def _require(holds: bool) -> None:
    if not holds:
        raise LeavesMemory
