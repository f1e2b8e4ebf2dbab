"""Where every multiplier of every cycle went: one exclusive, complete account of a run.

A slot is one element of the array in one cycle. Slots of a cycle in which the array streams belong
to the layer of its MatMul: useful or unused. Slots of other cycles belong to the layer whose window
it is (a window ends when the last instruction of its layer drains) and have one reason. So a
layer's useful slots are exactly its own multiply-accumulates, and all entries sum to the total.
What strips share and make again is told apart from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ridgeline.machine.instructions import MatMul, Unit
from ridgeline.machine.instructions.array import planes
from ridgeline.machine.program import HostSegment, Program
from ridgeline.machine.simulate import Event, SegmentTrace, Trace
from ridgeline.machine.stalls import REASONS, SegmentStalls, Stall

ENTRIES = ("useful", "again", "unused", *REASONS[:7], "host", *REASONS[7:])
"""Every entry, in order of priority."""

Slots = dict[str, int]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Slots by entry for each layer of the program; `other` is what belongs to no layer.

    `read_after_write_cycles` and `input_cycles` count idle cycles in which such data were missing,
    whatever else was; they overlap with the entries and with each other.
    """

    slots_per_cycle: int
    cycles: int
    layers: tuple[Slots, ...]
    other: Slots
    windows: tuple[tuple[int, int], ...]
    """[begin, end) of each layer's last window, in cycles of the whole run; (0, 0) if none."""
    active_cycles: int
    read_after_write_cycles: int
    input_cycles: int

    def total(self) -> Slots:
        """Slots by entry over the whole run; their sum is cycles * slots_per_cycle."""
        return {
            name: sum(layer[name] for layer in self.layers) + self.other[name] for name in ENTRIES
        }

    def layer_cycles(self, index: int) -> dict[str, float]:
        """A layer's entries in cycles of the whole array."""
        return {name: n / self.slots_per_cycle for name, n in self.layers[index].items()}


def ledger(trace: Trace) -> Ledger:
    """The account of a simulated run, in time proportional to its instructions."""
    book = _Book(trace.program)
    for segment, made in zip(trace.segments, trace.program.segments, strict=True):
        if isinstance(made, HostSegment):
            book.add_host(segment, made)
        else:
            book.add_device(segment)
    book.part_again()
    array = trace.program.machine.array
    return Ledger(
        array.rows * array.cols,
        trace.cycles,
        tuple(book.layers[:-1]),
        book.layers[-1],
        tuple(book.windows),
        book.active_cycles,
        book.read_after_write_cycles,
        book.input_cycles,
    )


def table3(account: Ledger) -> dict[str, float]:
    """The rows of Table 3 of the TPU v1 paper (Jouppi et al. 2017), in percent of all cycles.

    Array active, weight stall, weight shift and non-matrix sum to 100; useful and unused MACs (and
    those that are made again) to array active. The last two are counters that overlap with the
    others.
    """
    total = account.total()
    cycles = max(account.cycles, 1)
    slots = cycles * account.slots_per_cycle
    share = {name: 100 * n / slots for name, n in total.items()}
    active = 100 * account.active_cycles / cycles
    return {
        "array active": active,
        "useful MACs": share["useful"],
        "unused MACs": share["unused"],
        "weight stall": share["weight stall"],
        "weight shift": share["weight shift"],
        "non-matrix": 100 - active - share["weight stall"] - share["weight shift"],
        "RAW stall": 100 * account.read_after_write_cycles / cycles,
        "input stall": 100 * account.input_cycles / cycles,
    }


class _Book:
    """Entries while they are made; the last of `layers` is for what belongs to no layer."""

    def __init__(self, program: Program) -> None:
        self.machine = program.machine
        array = self.machine.array
        self.per_cycle = array.rows * array.cols
        count = len(program.layers)
        self.layers: list[Slots] = [dict.fromkeys(ENTRIES, 0) for _ in range(count + 1)]
        self.windows: list[tuple[int, int]] = [(0, 0)] * count
        self.visited = {i for i, layer in enumerate(program.layers) if layer.visits > 1}
        self.needed = [layer.macs for layer in program.layers]
        self.macs = [0] * (count + 1)
        self.active_cycles = 0
        self.read_after_write_cycles = 0
        self.input_cycles = 0

    def part_again(self) -> None:
        """Tells apart what visited layers multiply more than they need: rows that strips share."""
        for layer in self.visited:
            entries, macs = self.layers[layer], self.macs[layer]
            if macs > self.needed[layer]:
                again = entries["useful"] * (macs - self.needed[layer]) // macs
                entries["useful"] -= again
                entries["again"] += again

    def add_host(self, segment: SegmentTrace, made: HostSegment) -> None:
        """A host segment is the window of its layers, in equal parts."""
        layers = list(made.layers) or [-1]
        slots, rest = divmod(segment.cycles * self.per_cycle, len(layers))
        for place, layer in enumerate(layers):
            self.layers[layer]["host"] += slots + (1 if place < rest else 0)
            self._set_window(layer, segment.begin, segment.begin + segment.cycles)

    def add_device(self, segment: SegmentTrace) -> None:
        owners = owners_of(segment.events)
        for event, layer in zip(segment.events, owners, strict=True):
            if isinstance(event.instruction, MatMul):
                self._add_active(event, event.instruction, layer)
        windows = windows_of(segment, owners, self.visited)
        place = 0
        for stall in SegmentStalls(segment, self.machine).all():
            while windows[place][1] <= stall.begin:
                place += 1
            self._add_stall(stall, windows, place)
        begin = 0
        for layer, end in windows:
            self._set_window(layer, segment.begin + begin, segment.begin + end)
            begin = end

    def _set_window(self, layer: int, begin: int, end: int) -> None:
        if layer >= 0:
            self.windows[layer] = (begin, end)

    def _add_active(self, event: Event, instruction: MatMul, layer: int) -> None:
        entries = self.layers[layer]
        active = instruction.timing(self.machine).issue_cycles
        useful = instruction.macs * planes(instruction.format)
        entries["useful"] += useful
        self.macs[layer] += instruction.macs
        entries["unused"] += active * self.per_cycle - useful
        # Between two passes of one instruction the array waits for the second's operand.
        entries["weight shift"] += (event.issued - event.start - active) * self.per_cycle
        self.active_cycles += active

    def _add_stall(self, stall: Stall, windows: Sequence[tuple[int, int]], place: int) -> None:
        self.read_after_write_cycles += stall.read_after_write * (stall.end - stall.begin)
        self.input_cycles += stall.input * (stall.end - stall.begin)
        begin = stall.begin
        while begin < stall.end:
            layer, window_end = windows[place]
            end = min(stall.end, window_end)
            self.layers[layer][stall.reason] += (end - begin) * self.per_cycle
            begin = end
            place += 1


def owners_of(events: Sequence[Event]) -> list[int]:
    """The layer of each instruction; one that names none belongs to the layer before it, or else
    to the first; -1 where there is none at all.
    """
    named = [event.instruction.layer for event in events]
    current = next((layer for layer in named if layer >= 0), -1)
    owners: list[int] = []
    for layer in named:
        current = layer if layer >= 0 else current
        owners.append(current)
    return owners


def windows_of(
    segment: SegmentTrace, owners: Sequence[int], visited: AbstractSet[int] = frozenset()
) -> list[tuple[int, int]]:
    """(layer, end) in order of time: windows partition the segment; the last ends with it.

    Layers are numbered in order of dependence; a prefetch for a later one may come before them. Of
    `visited` layers each visit is a window, that ends where the vector unit turns to another layer
    (or the loads, of layers that it does not work for).
    """
    last: dict[int, int] = {}
    for event, layer in zip(segment.events, owners, strict=True):
        last[layer] = max(last.get(layer, 0), event.drained)
    visits = _visits(segment, owners, visited)
    windows: list[tuple[int, int]] = []
    end = 0
    for layer in sorted(last):
        for one, drained in visits.get(layer, []):
            end = max(end, drained)
            windows.append((one, end))
        if layer not in visited or last[layer] > end:
            end = max(end, last[layer])
            windows.append((layer, end))
    if not windows:
        return [(-1, segment.cycles)]
    windows[-1] = (windows[-1][0], segment.cycles)
    return windows


def _visits(
    segment: SegmentTrace, owners: Sequence[int], visited: AbstractSet[int]
) -> dict[int, list[tuple[int, int]]]:
    """By the first of visited layers that follow each other: (layer, end) of each visit in time."""
    group: dict[int, int] = {}
    for layer in sorted(visited):
        group[layer] = group.get(layer - 1, layer)
    made: dict[int, list[tuple[int, int]]] = {}
    vector = {
        layer
        for event, layer in zip(segment.events, owners, strict=True)
        if event.instruction.unit is Unit.VECTOR
    }
    for event, layer in zip(segment.events, owners, strict=True):
        unit = Unit.VECTOR if layer in vector else Unit.LOAD
        if layer not in visited or event.instruction.unit is not unit:
            continue
        windows = made.setdefault(group[layer], [])
        if windows and windows[-1][0] == layer:
            windows[-1] = (layer, max(windows[-1][1], event.drained))
        else:
            windows.append((layer, event.drained))
    return made
