"""Whether a layer is made in parts, and where regions lie: decided by the segment's exact cycles.

In one part each weight tile is loaded once, and the last column completes every row at the end; in
several parts the first rows are complete early, for what follows, the stores and the host link.
Which is faster depends on the layers around, so the whole segment is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import combinations

from ridgeline.compiler.layout import Box
from ridgeline.compiler.plan import TiledLayer, split_box
from ridgeline.machine.code import Code

PARTS = (1, 2, 3, 4, 6, 8, 16)
MOST_INSTRUCTIONS = 20_000
"""Instructions simulated at most in search of better parts: a bound on the time to compile."""
SMALL, MOST_OF_SMALL = 1_000, 80_000
"""Programs of so few instructions, whose layers are few too, are searched for longer."""
EACH = 300
"""What a simulation costs beside its instructions, in instructions."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Tiled layers, the segment's instructions for them, and its cycles."""

    layers: Sequence[TiledLayer]
    code: Code
    cycles: int


TRIED = 2
"""Starts that are improved: those that take fewest cycles as they are."""

Change = dict[str, int]
"""Fields of a TiledLayer that are set otherwise."""
Cost = Callable[[Sequence[TiledLayer]], Trial]


def refine(
    starts: Iterable[Trial],
    cost: Cost,
    entering: AbstractSet[int],
    most_rows: int,
) -> Trial:
    """The one of `starts` that takes fewest cycles, in the best parts that were found for it.

    `entering`: id(root) of what lies in device memory when the segment begins. A MatMul streams
    `most_rows` at most.
    """
    trials = nsmallest(TRIED, starts, key=lambda trial: trial.cycles)
    left = MOST_OF_SMALL if len(trials[0].code) <= SMALL else MOST_INSTRUCTIONS
    results: list[Trial] = []
    for number, trial in enumerate(trials):
        most = left // (len(trials) - number)
        descent = _Descent(trial, cost, most, _bringing(trial.layers, entering), most_rows)
        descent.run()
        left -= descent.spent
        results.append(descent.best)
    return min(results, key=lambda trial: trial.cycles)


class _Descent:
    """One layer improved after the other, in passes, until none improves or `most` is spent."""

    def __init__(
        self,
        start: Trial,
        cost: Cost,
        most: int,
        bringing: AbstractSet[int],
        most_rows: int,
    ) -> None:
        self.bringing = bringing
        self.most_rows = most_rows
        self.cost = cost
        self.most = most
        self.best = start
        self.spent = len(self.best.code) + EACH

    def run(self) -> None:
        while self._pass(self._changes) or self._pass(self._pairs):
            pass

    def _pass(self, changes: Callable[[int], list[Change]]) -> bool:
        """Try all of these of every layer; whether one was better."""
        improved = False
        # What enters and leaves the chip gains the most by parts, so the ends come first.
        for position in _ends_first(len(self.best.layers)):
            for change in changes(position):
                improved |= self._try(position, change)
        return improved

    def _try(self, position: int, change: Change) -> bool:
        if self.spent + len(self.best.code) > self.most:
            return False
        layers = list(self.best.layers)
        layers[position] = replace(layers[position], **change)
        attempt = self.cost(layers)
        self.spent += len(attempt.code) + EACH
        if attempt.cycles >= self.best.cycles:
            return False
        self.best = attempt
        return True

    def _changes(self, position: int) -> list[Change]:
        """What else may be tried of a layer, one field each."""
        layer = self.best.layers[position]
        if layer.plan.kind in ("alias", "concat"):
            return []
        box = layer.boxes[0]
        changes = [{"parts": count} for count in _others(box, layer.parts)]
        if position in self.bringing:
            changes += [{"load_parts": count} for count in PARTS if count != layer.load_parts]
        if layer.store and len(layer.boxes) * layer.parts == 1:
            changes += [{"store_parts": count} for count in _others(box, layer.store_parts)]
        if layer.rows:
            most = min(self.most_rows, box.rows)
            heights = {-(-most // count) for count in PARTS} - {layer.rows}
            changes += [{"rows": rows} for rows in sorted(heights, reverse=True)]
        return changes

    def _pairs(self, position: int) -> list[Change]:
        """Two fields of a layer at once, where one alone gains nothing."""
        changes = self._changes(position)
        return [a | b for a, b in combinations(changes, 2) if a.keys() != b.keys()]


def _ends_first(count: int) -> Iterator[int]:
    """0, count - 1, 1, count - 2, ..."""
    for i in range((count + 1) // 2):
        yield i
        if count - 1 - i != i:
            yield count - 1 - i


def _others(box: Box, count: int) -> list[int]:
    """The other numbers of parts that a box can be made in, one for each way to split it."""
    seen = {_parts(box, count): count}
    for other in PARTS:
        seen.setdefault(_parts(box, other), other)
    return [other for other in seen.values() if other != count]


def _parts(box: Box, count: int) -> int:
    return len(split_box(box, -(-box.rows // count)))


def _bringing(layers: Sequence[TiledLayer], entering: AbstractSet[int]) -> set[int]:
    """The positions of layers that bring an operand on chip which stays there."""
    found: set[int] = set()
    seen: set[int] = set()
    for position, layer in enumerate(layers):
        if layer.plan.kind == "alias":
            continue
        if layer.brings:
            found.add(position)
        for operand, loaded in zip(layer.plan.inputs, layer.loads[0], strict=True):
            root = id(operand.root)
            if not loaded and root in entering and root not in seen:
                seen.add(root)
                found.add(position)
    return found
