"""Which layers are made strip by strip: where a segment's values do not all fit on chip.

A run is judged by how long its visits would take one after the other, each by the busiest of the
array, the vector unit and the device-memory port; what finds no room is told by the lines that are
wanted at once, not by a place for each. A run begins as the layers between which a large value lies
that found no room, and its borders move as long as that is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ridgeline.compiler.plan import LayerPlan, Operand, Segment
from ridgeline.compiler.strips import Reach, Run, Strips, Visit, may_be_stripped, source_box
from ridgeline.compiler.work import Work
from ridgeline.machine.description import Machine

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Strips that one image is divided into, and images that make a strip."""
FIRST_COUNTS = (1, 4)
"""Strips of an image that a run begins with."""
ROUNDS = 6
"""Runs at most, beside or within each other."""
STEPS = (1, 3, 8)
"""By so many layers the border of a run is moved at once."""
SEEDS = 3
"""Values without room that a run may begin with, those that cost most first."""
GAIN = 0.995
"""A run must take so much less, since the estimate is none of cycles."""
MOST_WEIGHED = 1200
"""Sets of runs that are looked at: a bound on the time to compile."""
TILE_SHARE = 4
"""Tiles of what has no room take one part in so many of the buffer's lines."""
FULL = (0.45, 0.7)
"""Of the buffer's lines, how many find a use, as is assumed in turn: the rest is lost between
regions.
"""

CHANGES = (
    *((0, step, 0) for step in STEPS),
    *((-step, 0, 0) for step in STEPS),
    (0, 0, 1),
    (0, 0, -1),
    *((0, -step, 0) for step in STEPS),
    *((step, 0, 0) for step in STEPS),
)
"""What is tried of a run in turn: by how much its first and last layer and its strips change."""

Runs = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Weighed:
    """Estimated cycles, and the values, by id(root), that found no room."""

    cycles: float
    spilled: frozenset[int]


def find_runs(segment: Segment, machine: Machine) -> list[Runs]:
    """Sets of runs, each the best by one estimate of how much the buffer holds; those that are
    better than none.
    """
    found = [_Search(segment, machine, full).found() for full in FULL]
    return [runs for i, runs in enumerate(found) if runs and runs not in found[:i]]


class _Search:
    def __init__(self, segment: Segment, machine: Machine, full: float) -> None:
        self.segment = segment
        self.images = max((layer.output.layout.n for layer in segment.layers), default=1)
        self.eligible = [may_be_stripped(layer, self.images) for layer in segment.layers]
        self.scale = Scale(segment, machine, full)
        self.users = Strips(segment).users
        self.reaches: dict[int, Reach] = {}
        self.known: dict[Runs, Weighed] = {}
        divisors = [n for n in COUNTS if n < self.images and self.images % n == 0]
        self.counts = sorted({self.images // n for n in divisors if n > 1})
        self.counts += [self.images * n for n in COUNTS if self.images * n > 1]

    def found(self) -> Runs:
        """The best runs, each found beside or within those before it."""
        runs: Runs = ()
        for _ in range(ROUNDS):
            best = min(self._grown(runs), key=self._cycles, default=runs)
            if self._cycles(best) >= GAIN * self._cycles(runs):
                break
            runs = best
        return runs

    def weigh(self, runs: Runs) -> Weighed:
        if runs not in self.known:
            strips = Strips(self.segment, runs, one_image=True, reaches=self.reaches)
            self.known[runs] = self.scale.weigh(strips)
        return self.known[runs]

    def _cycles(self, runs: Runs) -> float:
        return self.weigh(runs).cycles

    def _grown(self, runs: Runs) -> Iterator[Runs]:
        """`runs` and one more, the best that was found from each of some beginnings."""
        for first, last in self._seeds(runs):
            for pieces in FIRST_COUNTS:
                run = Run(first, last, self.images * pieces)
                if run.count > 1 and self._fits(run, runs):
                    yield self._climbed(run, runs)

    def _climbed(self, run: Run, runs: Runs) -> Runs:
        """The run changed for as long as that is faster, each change from where the last led."""
        best, improved = (*runs, run), True
        while improved and len(self.known) < MOST_WEIGHED:
            improved = False
            for change in CHANGES:
                changed = self._changed(best[-1], *change)
                while self._fits(changed, runs):
                    tried = (*runs, changed)
                    if self._cycles(tried) >= self._cycles(best):
                        break
                    best, improved = tried, True
                    changed = self._changed(best[-1], *change)
        return best

    def _changed(self, run: Run, first: int, last: int, count: int) -> Run:
        """The run with its borders so many layers on, and so many steps more strips."""
        number = self.counts.index(run.count) + count
        number = min(max(number, 0), len(self.counts) - 1)
        most = len(self.segment.layers)
        return Run(max(run.first + first, 0), min(run.last + last, most), self.counts[number])

    def _fits(self, run: Run, runs: Runs) -> bool:
        """Whether the run may be made in strips, beside or within the others."""
        if run in runs or run.last - run.first < 2 or not all(self.eligible[run.first : run.last]):
            return False
        return all(
            run.last <= other.first
            or other.last <= run.first
            or (other.first <= run.first and run.last <= other.last)
            or (run.first <= other.first and other.last <= run.last)
            for other in runs
        ) and (run.first, run.last) not in {(other.first, other.last) for other in runs}

    def _seeds(self, runs: Runs) -> list[tuple[int, int]]:
        """[first, last) of the layers that make and read values which found no room."""
        spans: dict[tuple[int, int], int] = {}
        for root in self.weigh(runs).spilled:
            users = self.users[root]
            span = (min(users), max(users) + 1)
            spans[span] = max(spans.get(span, 0), self.scale.bytes[root])
        largest = sorted(spans, key=lambda span: (-spans[span], span))[:SEEDS]
        return largest + (self._ranges() if self.images > 1 and spans else [])

    def _ranges(self) -> list[tuple[int, int]]:
        """[first, last) of layers that may lie in one run, as many as do: for image by image."""
        groups = groupby(range(len(self.eligible)), key=self.eligible.__getitem__)
        ranges = [list(positions) for able, positions in groups if able]
        return [(positions[0], positions[-1] + 1) for positions in ranges]


class Scale:
    """What the layers of a segment take, by the rows that they make."""

    def __init__(self, segment: Segment, machine: Machine, full: float) -> None:
        self.segment = segment
        self.lines = int(machine.unified_buffer.lines * full)
        self.bytes_per_cycle = machine.device_memory.bytes_per_s / machine.clock_hz
        self.work = [Work(layer, machine) for layer in segment.layers]
        self.bytes: dict[int, int] = {}
        self.row_lines: dict[int, int] = {}
        self.whole_lines: dict[int, int] = {}
        for layer in segment.layers:
            for operand in (*layer.inputs, layer.output):
                if operand.constant:
                    continue
                root, layout = id(operand.root), operand.layout
                self.bytes[root] = layout.bytes
                self.row_lines[root] = layout.row_lines
                self.whole_lines[root] = layout.box.rows * layout.row_lines
        self.known: dict[tuple[int, int], float] = {}

    def weigh(self, strips: Strips) -> Weighed:
        """Cycles of the visits one after the other, with what has no room in device memory."""
        spilled = self.spilled(strips)
        cycles = 0.0
        for visit in strips.visits:
            port = sum(self.moved_bytes(visit, spilled)) / self.bytes_per_cycle
            cycles += visit.times * max(self._work(visit), port)
        return Weighed(cycles, frozenset(spilled))

    def spilled(self, strips: Strips) -> set[int]:
        """What is left out, the largest for the longest first, until the lines suffice."""
        sizes = dict(self.whole_lines)
        held = {id(visit.held): visit.held for visit in strips.visits if visit.held}
        parts: dict[int, int] = {}
        for boxes in held.values():
            for root, kept in boxes.items():
                if root in self.row_lines:
                    parts[root] = max(parts.get(root, 0), kept.box.rows * self.row_lines[root])
        sizes.update(parts)
        spans = {root: strips.span(root) for root in sizes}
        used = np.zeros(len(self.segment.layers), np.int64)
        for position, layer in enumerate(self.segment.layers):
            used[position] = layer.table_lines
        for root, (first, last) in spans.items():
            used[first : last + 1] += sizes[root]
        spilled: set[int] = set()
        while used.max(initial=0) > self.lines:
            worst = int(used.argmax())
            alive = [r for r, s in spans.items() if r not in spilled and s[0] <= worst <= s[1]]
            if not alive:
                break
            victim = max(
                alive, key=lambda r: (sizes[r] * (1 + spans[r][1] - spans[r][0]), -spans[r][0])
            )
            first, last = spans[victim]
            used[first : last + 1] -= sizes[victim]
            tiles = min(sizes[victim], self.lines // TILE_SHARE)
            for position in strips.users[victim]:
                used[position] += tiles
            spilled.add(victim)
        return spilled

    def moved_bytes(self, visit: Visit, spilled: set[int]) -> tuple[int, int]:
        """Bytes through the port of device memory: of weights and what lies there anyway, and of
        what found no room.
        """
        layer, rows = self.segment.layers[visit.position], visit.box.rows
        if layer.kind == "alias":
            return 0, 0
        if layer.kind == "move":
            return rows * layer.output.layout.row_bytes, 0
        moved, of_spilled, lines = 0, 0, 0
        for operand, count, home in self._operands(layer, visit):
            root = id(operand.root)
            lines += count * operand.layout.row_lines * (root in spilled)
            if root in home:
                moved += count * operand.layout.row_bytes
            elif root in spilled:
                of_spilled += count * operand.layout.row_bytes
        boxes = max(1, -(-2 * lines // (self.lines // 2)))
        return moved + self.work[visit.position].weights_bytes * boxes, of_spilled

    def _operands(
        self, layer: LayerPlan, visit: Visit
    ) -> Iterator[tuple[Operand, int, frozenset[int]]]:
        """What a visit reads and makes, its rows, and what of that side lies in device memory."""
        for operand in layer.inputs:
            if not operand.constant:
                rows = source_box(layer, operand, visit.box).rows
                yield operand, rows, self.segment.entering
        yield layer.output, visit.box.rows, self.segment.leaving

    def _work(self, visit: Visit) -> float:
        """Cycles of the busier of array and vector unit."""
        key = (visit.position, visit.box.rows)
        if self.segment.layers[visit.position].kind in ("alias", "move"):
            return 0.0
        if key not in self.known:
            self.known[key] = self.work[visit.position].cycles(visit.box.rows)
        return self.known[key]
