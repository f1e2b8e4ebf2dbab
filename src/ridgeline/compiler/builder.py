"""Emission: instructions in program order, with weight slots, parameter slots and accumulators."""

from __future__ import annotations

from dataclasses import replace

from ridgeline.compiler.plan import WeightTile
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Accesses,
    Elementwise,
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
    WindowReduce,
)
from ridgeline.machine.operands import bank_mask

Traced = tuple[Instruction, Accesses]
"""An instruction and what it touches, worked out once."""


class Builder:
    """Collects the instructions of one device segment and tracks what the slots hold."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.code: list[Traced] = []
        self._slots: dict[int, tuple[int, int, int, int]] = {}
        self._slot_use: list[int] = list(range(machine.array.weight_slots))
        self._params: dict[int, int] = {}
        self._param_use: list[int] = list(range(machine.vector.parameter_slots))
        self._entry = 0

    def add(self, instruction: Instruction) -> None:
        """Append an instruction, with the masks of the banks that it touches."""
        accesses = instruction.accesses(self.machine)
        self.code.append((self._with_banks(instruction, accesses), accesses))

    def _with_banks(self, instruction: Instruction, accesses: Accesses) -> Instruction:
        reads = bank_mask(accesses.reads.get(Space.BUFFER), self.machine)
        writes = bank_mask(accesses.writes.get(Space.BUFFER), self.machine)
        if isinstance(instruction, (Elementwise, WindowReduce, Lookup, RealElementwise)):
            return replace(instruction, in_banks=reads, out_banks=writes)
        if isinstance(instruction, Requant):
            return replace(instruction, out_banks=writes)
        if isinstance(instruction, (Load, Store, MatMul, LoadWeights)):
            return replace(instruction, banks=reads | writes)
        return instruction

    def weights(self, tile: WeightTile, signed: bool, zero_point: int, layer: int) -> int:
        """The slot that holds a tile; loads it over the one used longest ago unless it is there."""
        key = (tile.address, tile.k, tile.n, (zero_point << 1) | signed)
        for slot, held in self._slots.items():
            if held == key:
                self._touch(self._slot_use, slot)
                return slot
        slot = self._slot_use[0]
        self._slots[slot] = key
        self._touch(self._slot_use, slot)
        self.add(
            LoadWeights(
                layer=layer,
                slot=slot,
                address=tile.address,
                row_stride=tile.n,
                k=tile.k,
                n=tile.n,
                signed=int(signed),
                zero_point=zero_point,
            )
        )
        return slot

    def params(self, address: int, count: int, layer: int) -> int:
        """The parameter slot that holds `count` records from `address`."""
        for slot, held in self._params.items():
            if held == address:
                self._touch(self._param_use, slot)
                return slot
        slot = self._param_use[0]
        self._params[slot] = address
        self._touch(self._param_use, slot)
        self.add(LoadParams(layer=layer, slot=slot, device_address=address, count=count))
        return slot

    @staticmethod
    def _touch(order: list[int], slot: int) -> None:
        order.remove(slot)
        order.append(slot)

    def entries(self, m: int) -> int:
        """The first of `m` accumulator entries, taken around the memory in turn."""
        if self._entry + m > self.machine.array.accumulator_entries:
            self._entry = 0
        first = self._entry
        self._entry += m
        return first
