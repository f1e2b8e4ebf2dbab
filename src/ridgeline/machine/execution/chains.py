"""MatMuls whose sums are not computed yet, by the accumulator entries that they would be in."""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.machine.execution.products import Part


@dataclass(slots=True, eq=False)
class Chain:
    """MatMuls that add up in entries [entry, entry + m)."""

    entry: int
    m: int
    parts: list[Part] = field(default_factory=list[Part])
    first: int = 1 << 62
    last: int = -1
    """The lowest and highest line of the buffer that they read."""

    def add(self, part: Part) -> None:
        self.parts.append(part)
        inside = part[0].inside
        if inside is not None:
            if inside.first < self.first:
                self.first = inside.first
            if inside.last > self.last:
                self.last = inside.last


class Chains:
    """Chains of disjoint entries."""

    def __init__(self) -> None:
        self._by_entry: dict[int, Chain] = {}

    def exactly(self, entry: int, m: int) -> Chain | None:
        """The chain of just these entries."""
        chain = self._by_entry.get(entry)
        return chain if chain is not None and chain.m == m else None

    def overlapping(self, entry: int, m: int) -> list[Chain]:
        """Every chain with one of these entries."""
        return [c for c in self._by_entry.values() if c.entry < entry + m and entry < c.entry + c.m]

    def reading(self, first: int, last: int) -> list[Chain]:
        """Every chain that may read one of the lines [first, last]."""
        return [c for c in self._by_entry.values() if c.first <= last and first <= c.last]

    def all(self) -> list[Chain]:
        return list(self._by_entry.values())

    def put(self, chain: Chain) -> None:
        self._by_entry[chain.entry] = chain

    def remove(self, chain: Chain) -> None:
        del self._by_entry[chain.entry]
