"""What an element of a descriptor costs: a cycle, and bursts that nobody paid for yet."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from ridgeline.rtl.registers import Bits, named
from ridgeline.rtl.shape import Shape


class Bursts:
    """`paid`: the element at hand is in its last cycle, or waits only for memory to take it.

    An element pays for every burst that it touches, except its first where the element before it
    ended in that burst. The cost of an element is worked out in the cycle before it is at hand, so
    that `paid` is a register.
    """

    def __init__(self, m: Module, shape: Shape) -> None:
        self._below = shape.burst_bits
        self._burst_cycles = int(shape.machine.burst_cycles)
        most = (2 + shape.response_bytes) * self._burst_cycles
        self.paid = Signal(name="element_is_paid", reset_less=True)
        self._left = Signal(range(max(most, 2)), name="cycles_left", reset_less=True)
        self._more = Signal(range(shape.response_bytes + 2), name="more_bursts", reset_less=True)

    def start(self, m: Module, name: str, address: Bits, count_bytes: Bits) -> list[Any]:
        """Assignments for a descriptor's first element, which pays for every burst."""
        more = self._further(m, address, count_bytes, f"first_{name}")
        return self._cost(m, more, more + 1, f"first_{name}")

    def step(self, m: Module, address: Bits, following: Bits, count_bytes: Bits) -> list[Any]:
        """Assignments for the element at `following`, behind the one at `address`."""
        more = self._further(m, following, count_bytes, "next")
        bursts = following[self._below :]
        ended = named(m, (address[self._below :] + self._more)[: len(bursts)], "burst_paid")
        return self._cost(m, more, more + (bursts != ended), "next")

    def pay(self) -> list[Any]:
        """Assignments for a cycle in which the element at hand is not paid for yet."""
        return [self._left.eq(self._left - 1), self.paid.eq(self._left == 1)]

    def _further(self, m: Module, address: Bits, count_bytes: Bits, name: str) -> Bits:
        """Bursts that an element touches behind its first."""
        last = (address[: self._below] + count_bytes - 1)[self._below :]
        return named(m, last[: len(self._more)], f"{name}_more")

    def _cost(self, m: Module, more: Bits, fresh: Bits, name: str) -> list[Any]:
        cycles = named(m, fresh * self._burst_cycles, f"{name}_cycles")
        return [
            self._more.eq(more),
            self.paid.eq(cycles <= 1),
            self._left.eq(Mux(cycles == 0, 0, cycles - 1)),
        ]
