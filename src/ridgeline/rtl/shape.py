"""Widths of the hardware's registers and buses, derived from the machine."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    Load,
    LoadParams,
    LoadWeights,
    Lookup,
    MatMul,
    Requant,
    Store,
    Unit,
    WindowReduce,
)
from ridgeline.machine.instructions.weights import PARAMETER_BYTES

UNITS = (Unit.LOAD, Unit.STORE, Unit.WEIGHTS, Unit.ARRAY, Unit.VECTOR)
"""The units that hardware has: all but the link."""

UNIT_KINDS: dict[Unit, tuple[type[Instruction], ...]] = {
    Unit.LOAD: (Load,),
    Unit.STORE: (Store,),
    Unit.WEIGHTS: (LoadWeights, LoadParams),
    Unit.ARRAY: (MatMul,),
    Unit.VECTOR: (Requant, Elementwise, WindowReduce, Lookup),
}
"""What each unit's decoder knows."""

COVERED_KINDS: frozenset[type[Instruction]] = frozenset(
    kind for kinds in UNIT_KINDS.values() for kind in kinds
)

WEIGHT_BITS = 9
"""An operand of the array, its zero point subtracted."""

SUM_BITS = 32
"""An accumulator."""


def index_bits(count: int) -> int:
    """Bits of an index below `count`, at least 1."""
    return max((count - 1).bit_length(), 1)


@dataclass(frozen=True, slots=True)
class Shape:
    """The machine seen as widths."""

    machine: Machine

    @property
    def rows(self) -> int:
        return self.machine.array.rows

    @property
    def cols(self) -> int:
        return self.machine.array.cols

    @property
    def line_bytes(self) -> int:
        return self.machine.unified_buffer.line_bytes

    @property
    def banks(self) -> int:
        return self.machine.unified_buffer.banks

    @property
    def line_bits(self) -> int:
        return index_bits(self.machine.unified_buffer.lines)

    @property
    def bank_line_bits(self) -> int:
        """Bits of a line's place within its bank; the bank is what lies above them."""
        return (self.machine.unified_buffer.lines_per_bank - 1).bit_length()

    @property
    def lane_bits(self) -> int:
        """Bits of a byte's place within a line."""
        return index_bits(self.line_bytes)

    @property
    def extent_bits(self) -> int:
        """Bits of a number of bytes or channels, at most a line of them."""
        return self.line_bytes.bit_length()

    def has(self, *operations: str) -> bool:
        """Whether the vector unit has any of these operations."""
        return not set(operations).isdisjoint(self.machine.vector.operations)

    @property
    def row_bits(self) -> int:
        return index_bits(self.rows)

    @property
    def weight_address_bits(self) -> int:
        return index_bits(self.machine.array.weight_slots) + self.row_bits

    @property
    def entry_bits(self) -> int:
        return index_bits(self.machine.array.accumulator_entries)

    @property
    def parameter_slot_bits(self) -> int:
        return index_bits(self.machine.vector.parameter_slots)

    @property
    def group_records(self) -> int:
        """Parameter records that arrive together: as many as a line is wide, at least one."""
        return max(self.line_bytes // PARAMETER_BYTES, 1)

    @property
    def group_bits(self) -> int:
        return index_bits(-(-self.line_bytes // self.group_records))

    @property
    def response_bytes(self) -> int:
        """Width of the bus on which device memory answers."""
        return max(self.line_bytes, PARAMETER_BYTES)

    @property
    def request_bits(self) -> int:
        """Bits of a number of bytes asked for at once."""
        return self.response_bytes.bit_length()

    @property
    def address_bits(self) -> int:
        return index_bits(self.machine.device_memory.bytes)

    @property
    def burst_bits(self) -> int:
        return self.machine.device_memory.burst_bytes.bit_length() - 1

    @property
    def target_bits(self) -> int:
        """Bits of where a transfer's element lies on chip: line, weight row or parameter group."""
        return max(
            self.line_bits, self.weight_address_bits, self.parameter_slot_bits + self.group_bits
        )
