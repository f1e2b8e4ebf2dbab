"""Draws instructions one after the other, such that the program they make is legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ridgeline.machine.description import Machine
from ridgeline.machine.fuzz.draw import Draw
from ridgeline.machine.fuzz.operands import Operands
from ridgeline.machine.instructions import (
    INSTRUCTIONS,
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
    Space,
    Store,
    Unit,
    WindowReduce,
)
from ridgeline.machine.operands import bank_mask
from ridgeline.machine.overlap import overlap_faults

ALL_KINDS: frozenset[type[Instruction]] = frozenset(INSTRUCTIONS.values())

# How often each kind is drawn, relative to the others.
_SHARES: dict[type[Instruction], int] = {
    HostRead: 2,
    HostWrite: 2,
    Load: 5,
    Store: 5,
    LoadWeights: 6,
    LoadParams: 3,
    MatMul: 12,
    Requant: 8,
    Elementwise: 4,
    WindowReduce: 5,
    Lookup: 3,
    RealElementwise: 4,
}


def _any(instruction: Instruction) -> bool:
    return True


class Maker:
    """Draws instructions one by one, keeping what the next must fit to."""

    def __init__(
        self,
        machine: Machine,
        draw: Draw,
        kinds: frozenset[type[Instruction]],
        accepts: Callable[[Instruction], bool] | None = None,
    ) -> None:
        self.machine = machine
        self.accepts = accepts or _any
        self.draw = draw
        self.operands = Operands(machine, draw)
        self.device_bytes = self.operands.device_bytes
        self.instructions: list[Instruction] = []
        self.issued = [0] * len(Unit)
        self.previous: MatMul | None = None
        self.refilled: set[int] = set()
        one = self.operands
        makers: dict[type[Instruction], Callable[[], Instruction]] = {
            HostRead: one.host_read,
            HostWrite: one.host_write,
            Load: one.load,
            Store: one.store,
            LoadWeights: one.load_weights,
            LoadParams: one.load_params,
            MatMul: self._matmul,
            Requant: lambda: one.requant(self.previous),
            Elementwise: one.elementwise,
            WindowReduce: one.window_reduce,
            Lookup: one.lookup,
            RealElementwise: one.real_elementwise,
        }
        able: dict[type[Instruction], bool] = {
            Elementwise: bool(one.elementwise_operations),
            WindowReduce: bool(one.window_operations),
            Lookup: "lookup" in machine.vector.operations,
            RealElementwise: bool(one.real_operations),
        }
        chosen = [kind for kind in makers if kind in kinds and able.get(kind, True)]
        self.makers = [makers[kind] for kind in chosen]
        shares = np.asarray([_SHARES[kind] for kind in chosen], np.float64)
        self.shares = shares / shares.sum()

    def add(self) -> None:
        """Draw one more instruction, with its banks and perhaps waits that nothing needs."""
        one = self._drawn()
        while not self.accepts(one) or overlap_faults(one) or self._reads_open_sums(one):
            one = self._drawn()
        self._append(replace(one, waits=self._random_waits()))

    def close(self) -> None:
        """End a chain of sums that are still inside an output-stationary array."""
        if self._open_chain() is not None:
            self._append(replace(self._with_banks(self._matmul()), last=1))

    def _matmul(self) -> MatMul:
        return self.operands.matmul(self.previous, self.refilled)

    def _drawn(self) -> Instruction:
        return self._with_banks(self.makers[self.draw.weighted(self.shares)]())

    def _open_chain(self) -> MatMul | None:
        stays = self.machine.array.dataflow == "output-stationary"
        previous = self.previous
        return previous if stays and previous is not None and not previous.last else None

    def _reads_open_sums(self, one: Instruction) -> bool:
        chain = self._open_chain()
        if chain is None or not isinstance(one, Requant):
            return False
        return one.entry < chain.entry + chain.m and chain.entry < one.entry + one.m

    def _append(self, one: Instruction) -> None:
        self.instructions.append(one)
        self.issued[one.unit] += 1
        if isinstance(one, MatMul):
            self.previous = one
            self.refilled.clear()
        if isinstance(one, LoadWeights):
            self.refilled.add(one.slot)

    def _random_waits(self) -> tuple[int, int, int, int, int, int]:
        waits = [0] * len(Unit)
        if self.draw.chance(0.15):
            unit = self.draw.between(0, len(Unit) - 1)
            if self.issued[unit]:
                waits[unit] = self.draw.between(max(1, self.issued[unit] - 2), self.issued[unit])
        link, load, store, weights, array, vector = waits
        return (link, load, store, weights, array, vector)

    def _with_banks(self, one: Instruction) -> Instruction:
        accesses = one.accesses(self.machine)
        read = bank_mask(accesses.reads.get(Space.BUFFER), self.machine)
        written = bank_mask(accesses.writes.get(Space.BUFFER), self.machine)
        extra = 0
        if self.draw.chance(0.1):
            extra = 1 << self.draw.between(0, self.machine.unified_buffer.banks - 1)
        if isinstance(one, (Elementwise, WindowReduce, Lookup, RealElementwise)):
            return replace(one, in_banks=read | extra, out_banks=written)
        if isinstance(one, Requant):
            return replace(one, out_banks=written | extra)
        if isinstance(one, (Load, Store, MatMul)):
            return replace(one, banks=read | written | extra)
        if isinstance(one, LoadWeights) and one.from_buffer:
            return replace(one, banks=read | extra)
        return one
