"""Emission: instructions in program order, with weight slots, parameter slots and accumulators."""

from __future__ import annotations

from ridgeline.compiler.plan import WeightTile
from ridgeline.machine.code import Code, Row, row_of
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, LoadParams, LoadWeights
from ridgeline.machine.order import touched_banks


class Builder:
    """Collects the instructions of one device segment and tracks what the slots hold."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._opcodes: list[int] = []
        self._layers: list[int] = []
        self._rows: list[int] = []
        self._tables: dict[int, list[Row]] = {}
        self._slots: dict[int, tuple[int, int, int, int]] = {}
        self._slot_use: list[int] = list(range(machine.array.weight_slots))
        self._params: dict[int, int] = {}
        self._param_use: list[int] = list(range(machine.vector.parameter_slots))
        self._entry = 0

    def add(self, instruction: Instruction) -> None:
        """Append an instruction; its masks of banks follow from what it touches."""
        self.put(type(instruction), instruction.layer, row_of(instruction))

    def put(self, kind: type[Instruction], layer: int, row: Row) -> None:
        """Append an instruction given as the values of its operands, in their order."""
        table = self._tables.setdefault(kind.opcode, [])
        self._opcodes.append(kind.opcode)
        self._layers.append(layer)
        self._rows.append(len(table))
        table.append(row)

    def code(self) -> Code:
        """All instructions so far, in program order, with the masks of the banks they touch."""
        code = Code.made(self._opcodes, self._layers, self._rows, self._tables)
        return code.with_banks(*touched_banks(code, self.machine))

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
