"""Whether a layer is made in parts, and where regions lie: decided by the segment's exact cycles.

In one part each weight tile is loaded once, and the last column completes every row at the end; in
several parts the first rows are complete early, for what follows, the stores and the host link.
Which is faster depends on the layers around, so the whole segment is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ridgeline.compiler.plan import TiledLayer, split_box
from ridgeline.machine.code import Code

PARTS = (1, 2, 3, 4, 6, 8, 16)
MOST_INSTRUCTIONS = 40_000
"""Instructions simulated at most in search of better parts: a bound on the time to compile."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Tiled layers, the segment's instructions for them, and its cycles."""

    layers: Sequence[TiledLayer]
    code: Code
    cycles: int


Cost = Callable[[Sequence[TiledLayer]], Trial]


def refine(starts: Sequence[Sequence[TiledLayer]], cost: Cost) -> Trial:
    """The one of `starts` that takes fewest cycles, in the best parts that were found for it."""
    left = MOST_INSTRUCTIONS
    results: list[Trial] = []
    for start in starts:
        descent = _Descent(start, cost, left // (len(starts) - len(results)))
        descent.run()
        left -= descent.spent
        results.append(descent.best)
    return min(results, key=lambda trial: trial.cycles)


class _Descent:
    """One layer improved after the other, in passes, until none improves or `most` is spent."""

    def __init__(self, start: Sequence[TiledLayer], cost: Cost, most: int) -> None:
        self.cost = cost
        self.most = most
        self.best = cost(start)
        self.spent = len(self.best.code)

    def run(self) -> None:
        improved = True
        while improved:
            improved = False
            # What enters and leaves the chip gains the most by parts, so the ends come first.
            for position in _ends_first(len(self.best.layers)):
                for parts in _candidates(self.best.layers[position]):
                    improved |= self._try(position, parts)

    def _try(self, position: int, parts: int) -> bool:
        if self.spent + len(self.best.code) > self.most:
            return False
        layers = list(self.best.layers)
        layers[position] = replace(layers[position], parts=parts)
        attempt = self.cost(layers)
        self.spent += len(attempt.code)
        if attempt.cycles >= self.best.cycles:
            return False
        self.best = attempt
        return True


def _ends_first(count: int) -> Iterator[int]:
    """0, count - 1, 1, count - 2, ..."""
    for i in range((count + 1) // 2):
        yield i
        if count - 1 - i != i:
            yield count - 1 - i


def _candidates(layer: TiledLayer) -> list[int]:
    """The other numbers of parts that a layer can be made in, one for each way to split it."""
    if layer.plan.kind in ("alias", "concat"):
        return []
    seen = {_count(layer, layer.parts): layer.parts}
    for parts in PARTS:
        seen.setdefault(_count(layer, parts), parts)
    return [parts for parts in seen.values() if parts != layer.parts]


def _count(layer: TiledLayer, parts: int) -> int:
    box = layer.boxes[0]
    return len(split_box(box, -(-box.rows // parts)))
