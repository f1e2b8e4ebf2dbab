"""The unified buffer's lines over time: who has which of them from one layer to another."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.description import Machine


@dataclass(frozen=True, slots=True)
class Request:
    """`lines` wanted from layer `first` to layer `last`; `role` says which port streams through."""

    key: tuple[str, int, int]
    lines: int
    first: int
    last: int


class Lines:
    """The unified buffer's lines over time."""

    def __init__(self, machine: Machine, spread: bool) -> None:
        self.spread = spread
        self.lines = machine.unified_buffer.lines
        self.bank_lines = machine.unified_buffer.lines_per_bank
        self.taken: list[tuple[int, int, Request]] = []

    def fit(self, request: Request) -> int | None:
        """First line of room for the request over its whole life: the place that shares fewest
        banks with what lives beside it, or a layer before or after; None when there is none.
        """
        alive = sorted(self._beside(request, 0))
        # Layers overlap in time: the next one's loads run while this one's results are written.
        # What lives at the same time counts twice, since it is near as well.
        near = self._beside(request, 1)
        best: tuple[int, int, int] | None = None
        for start in self._starts(alive, request.lines):
            end = start + request.lines
            shared = self._shared_banks(alive, start, end) + self._shared_banks(near, start, end)
            spanned = (end - 1) // self.bank_lines - start // self.bank_lines
            found = (shared, -spanned if self.spread else 0, start)
            best = min(best or found, found)
        if best is None:
            return None
        self.taken.append((best[2], best[2] + request.lines, request))
        return best[2]

    def most(self, first: int, last: int) -> int:
        """The most lines side by side that are free from one layer to another."""
        best = cursor = 0
        request = Request(("", 0, 0), 0, first, last)
        for start, end in [*sorted(self._beside(request, 0)), (self.lines, self.lines)]:
            best, cursor = max(best, start - cursor), max(cursor, end)
        return best

    def _beside(self, request: Request, layers: int) -> list[tuple[int, int]]:
        """[start, end) of what lives together with the request, or within so many layers of it."""
        return [
            (start, end)
            for start, end, other in self.taken
            if other.first <= request.last + layers and request.first <= other.last + layers
        ]

    def _starts(self, alive: list[tuple[int, int]], lines: int) -> list[int]:
        """Beginnings of room: after each neighbour, and at bank borders within a gap."""
        starts: list[int] = []
        cursor = 0
        for start, end in [*alive, (self.lines, self.lines)]:
            if start - cursor >= lines:
                starts.append(cursor)
                border = -(-cursor // self.bank_lines) * self.bank_lines
                while border + lines <= start:
                    starts.append(border)
                    starts.append(max(cursor, border - lines // 2))
                    border += self.bank_lines
            cursor = max(cursor, end)
        return starts

    def _shared_banks(self, alive: list[tuple[int, int]], start: int, end: int) -> int:
        first, last = start // self.bank_lines, (end - 1) // self.bank_lines
        return sum(
            max(0, min(last, (e - 1) // self.bank_lines) - max(first, s // self.bank_lines) + 1)
            for s, e in alive
        )
