"""The nested address walk that loads, stores, windows, taps and outputs share, in hardware.

Each address needs one adder: the place where the level above began, plus that level's stride.
Arithmetic is modulo the address width, which is exact for every place that is really used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal

from ridgeline.rtl.registers import Bits, named

Counts = Sequence[Bits]
Place = tuple[Bits, Sequence[Bits | None]]
"""Where an address starts, and its stride at each level; None where it does not move."""

COUNT_BITS = (20, 16, 16)
"""Widest counts of transfers and of the array, level by level."""


class Walk:
    """Counters of several levels and any number of addresses that they move.

    `busy` while it visits a place, `last` in its last place, `first` in its first; `ends[i]`: the
    levels up to i are all at their ends.
    """

    def __init__(
        self,
        m: Module,
        name: str,
        addresses: dict[str, Shape | int],
        count_bits: Sequence[int] = COUNT_BITS,
    ) -> None:
        self.busy = Signal(name=f"{name}_busy")
        self.first = Signal(name=f"{name}_first", reset_less=True)
        self.last = Signal(name=f"{name}_last")
        self._counts, self._left = (
            [
                Signal(bits, name=f"{name}_{what}_{i}", reset_less=True)
                for i, bits in enumerate(count_bits)
            ]
            for what in ("count", "left")
        )
        levels = len(count_bits)
        # Registers know beforehand where a level is at its end, and whether it always is.
        self._single, self._here = (
            [Signal(name=f"{name}_{what}_{i}", reset_less=True) for i in range(levels)]
            for what in ("single", "here")
        )
        self._addresses = {
            key: _Address(f"{name}_{key}", kind, levels) for key, kind in addresses.items()
        }
        self.ends: list[Signal] = []
        ended: Bits = None
        for level, here in enumerate(self._here):
            ended = named(m, here if ended is None else ended & here, f"{name}_end_{level}")
            self.ends.append(ended)
        m.d.comb += self.last.eq(self.busy & ended)
        for address in self._addresses.values():
            address.move(m, self.ends)

    def __getitem__(self, key: str) -> Signal:
        """The address `key` of the place visited."""
        return self._addresses[key].current

    def following(self, key: str) -> Signal:
        """The address `key` of the place visited next."""
        return self._addresses[key].moved

    def load(self, counts: Counts, places: dict[str, Place]) -> list[Any]:
        """Assignments for every cycle in which a walk could start, whether it does or not."""
        moves: list[Any] = [self.first.eq(1)]
        for level, count in enumerate(counts):
            moves += [
                self._counts[level].eq(count),
                self._left[level].eq(count),
                self._single[level].eq(count == 1),
                self._here[level].eq(count == 1),
            ]
        for key, (start, strides) in places.items():
            moves += self._addresses[key].start(start, strides)
        return moves

    def start(self, counts: Counts, places: dict[str, Place]) -> list[Any]:
        """Assignments for the cycle in which the unit accepts an instruction."""
        return [*self.load(counts, places), self.begin()]

    def begin(self) -> Any:
        """What only a walk that starts does, beside `load`."""
        return self.busy.eq(1)

    def step(self, m: Module) -> None:
        """Go to the next place at the end of this cycle; call it inside an m.If."""
        m.d.sync += self.first.eq(0)
        below: Bits = None
        for level, (count, left) in enumerate(zip(self._counts, self._left, strict=True)):
            here, single = self._here[level], self._single[level]
            with m.If(True if below is None else below):
                m.d.sync += [
                    left.eq(Mux(here, count, left - 1)),
                    here.eq(Mux(here, single, left == 2)),
                ]
            below = self.ends[level]
        with m.If(self.ends[-1]):
            m.d.sync += self.busy.eq(0)
        for address in self._addresses.values():
            address.step(m, self.ends)


class _Address:
    """One address: where it is, and where the current repetition of each level began."""

    def __init__(self, name: str, kind: Shape | int, levels: int) -> None:
        self.current = Signal(kind, name=name, reset_less=True)
        self.began = [
            Signal(kind, name=f"{name}_began_{i}", reset_less=True) for i in range(1, levels)
        ]
        self.strides = [
            Signal(kind, name=f"{name}_stride_{i}", reset_less=True) for i in range(levels)
        ]
        self.moved = Signal(kind, name=f"{name}_next")

    def start(self, start: Bits, strides: Sequence[Bits | None]) -> list[Any]:
        moves = [place.eq(start) for place in (self.current, *self.began)]
        for mine, stride in zip(self.strides, strides, strict=True):
            moves.append(mine.eq(0 if stride is None else stride))
        return moves

    def move(self, m: Module, ends: list[Signal]) -> None:
        """The highest level that moves decides from where, and how far."""
        origin, stride = self.began[-1] if self.began else self.current, self.strides[-1]
        origins = [self.current, *self.began]
        for level in range(len(self.strides) - 2, -1, -1):
            origin = Mux(ends[level], origin, origins[level])
            stride = Mux(ends[level], stride, self.strides[level])
        m.d.comb += self.moved.eq(origin + stride)

    def step(self, m: Module, ends: list[Signal]) -> None:
        m.d.sync += self.current.eq(self.moved)
        for level, began in enumerate(self.began):
            with m.If(ends[level]):
                m.d.sync += began.eq(self.moved)
