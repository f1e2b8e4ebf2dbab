"""The three-level address walk that loads, stores, windows and outputs share, in hardware.

Each address needs one adder: the place where the level above began, plus that level's stride.
Arithmetic is modulo the address width, which is exact for every place that is really used.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal

from ridgeline.rtl.registers import Bits

Counts = tuple[Bits, Bits, Bits]
Place = tuple[Bits, tuple[Bits | None, Bits | None, Bits | None]]
"""Where an address starts, and its stride at each level; None where it does not move."""

COUNT_BITS = (20, 16, 16)
"""Widest counts of any instruction, level by level."""


class Walk:
    """Counters of three levels and any number of addresses that they move.

    `busy` while it visits a place, `last` in its last place, `first` in its first.
    """

    def __init__(self, m: Module, name: str, addresses: dict[str, Shape | int]) -> None:
        self.busy = Signal(name=f"{name}_busy")
        self.first = Signal(name=f"{name}_first", reset_less=True)
        self.last = Signal(name=f"{name}_last")
        self._counts = [
            Signal(bits, name=f"{name}_count_{i}", reset_less=True)
            for i, bits in enumerate(COUNT_BITS)
        ]
        self._left = [
            Signal(bits, name=f"{name}_left_{i}", reset_less=True)
            for i, bits in enumerate(COUNT_BITS)
        ]
        self._addresses = {key: _Address(f"{name}_{key}", kind) for key, kind in addresses.items()}
        self._ends = [Signal(name=f"{name}_end_{i}") for i in range(3)]
        m.d.comb += [end.eq(left == 1) for end, left in zip(self._ends, self._left, strict=True)]
        m.d.comb += self.last.eq(self.busy & self._ends[0] & self._ends[1] & self._ends[2])

    def __getitem__(self, key: str) -> Signal:
        """The address `key` of the place visited."""
        return self._addresses[key].current

    def start(self, counts: Counts, places: dict[str, Place]) -> list[Any]:
        """Assignments for the cycle in which the unit accepts an instruction."""
        moves: list[Any] = [self.busy.eq(1), self.first.eq(1)]
        for mine, left, count in zip(self._counts, self._left, counts, strict=True):
            moves += [mine.eq(count), left.eq(count)]
        for key, (start, strides) in places.items():
            moves += self._addresses[key].start(start, strides)
        return moves

    def step(self, m: Module) -> None:
        """Go to the next place at the end of this cycle; call it inside an m.If."""
        ends = self._ends
        m.d.sync += self.first.eq(0)
        with m.If(~ends[0]):
            m.d.sync += self._left[0].eq(self._left[0] - 1)
        with m.Else():
            m.d.sync += self._left[0].eq(self._counts[0])
            with m.If(~ends[1]):
                m.d.sync += self._left[1].eq(self._left[1] - 1)
            with m.Else():
                m.d.sync += self._left[1].eq(self._counts[1])
                with m.If(~ends[2]):
                    m.d.sync += self._left[2].eq(self._left[2] - 1)
                with m.Else():
                    m.d.sync += self.busy.eq(0)
        for address in self._addresses.values():
            address.step(m, ends[0], ends[1])


class _Address:
    """One address: where it is, and where the current row and image began."""

    def __init__(self, name: str, kind: Shape | int) -> None:
        self.current = Signal(kind, name=name, reset_less=True)
        self.row = Signal(kind, name=f"{name}_row", reset_less=True)
        self.image = Signal(kind, name=f"{name}_image", reset_less=True)
        self.strides = [Signal(kind, name=f"{name}_stride_{i}", reset_less=True) for i in range(3)]

    def start(self, start: Bits, strides: tuple[Bits | None, ...]) -> list[Any]:
        moves = [self.current.eq(start), self.row.eq(start), self.image.eq(start)]
        for mine, stride in zip(self.strides, strides, strict=True):
            moves.append(mine.eq(0 if stride is None else stride))
        return moves

    def step(self, m: Module, row_ends: Bits, image_ends: Bits) -> None:
        origin = Mux(row_ends, Mux(image_ends, self.image, self.row), self.current)
        stride = Mux(row_ends, Mux(image_ends, self.strides[2], self.strides[1]), self.strides[0])
        moved = Signal(self.current.shape(), name=f"{self.current.name}_next")
        m.d.comb += moved.eq(origin + stride)
        m.d.sync += self.current.eq(moved)
        with m.If(row_ends):
            m.d.sync += self.row.eq(moved)
        with m.If(row_ends & image_ends):
            m.d.sync += self.image.eq(moved)
