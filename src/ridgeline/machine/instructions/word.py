"""The fixed-width instruction word: fields declared once, from which encoding and docs follow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, Self

from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.activity import Activity
from ridgeline.machine.instructions.state import Accesses, State
from ridgeline.machine.instructions.walk import Walk, accesses_of

WORD_BITS = 768
OPCODE_BITS = 4
COUNT_BITS = 20


class Unit(IntEnum):
    """The units, each with its own queue and count. The order is the tie rule of the port."""

    LINK = 0
    LOAD = 1
    STORE = 2
    WEIGHTS = 3
    ARRAY = 4
    VECTOR = 5


Waits = tuple[int, int, int, int, int, int]
"""For each unit, the count of drained instructions to wait for; 0 waits for nothing."""

NO_WAITS: Waits = (0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Timing:
    """An instruction's length. drained = start + issue_cycles + latency_cycles.

    The unit (and a read port, and the device-memory port when `port_cycles` > 0) is free for the
    next start `issue_cycles` (`port_cycles`) after the start.
    """

    issue_cycles: int
    latency_cycles: int
    port_cycles: int = 0


def bits(width: int, doc: str, *, signed: bool = False, default: int | float = 0) -> Any:
    """A dataclass field that occupies `width` bits of the word. A float field holds float32."""
    return field(default=default, metadata={"bits": width, "signed": signed, "doc": doc})


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Where a field lies in the word: bits [offset, offset + width)."""

    name: str
    offset: int
    width: int
    signed: bool
    is_float: bool
    doc: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """Plain data: waits and operands. Subclasses add fields, `apply`, `timing`, `accesses` and
    `activity`.
    """

    waits: Waits = NO_WAITS
    layer: int = -1
    """Index of the layer that this belongs to, for the report; not part of the word."""

    opcode: ClassVar[int] = 0
    unit: ClassVar[Unit]

    @property
    def read_banks(self) -> int:
        """Mask of the unified-buffer banks whose read port is held while it issues."""
        return 0

    @property
    def write_banks(self) -> int:
        """Mask of the unified-buffer banks whose write port is held until it drains."""
        return 0

    def apply(self, state: State) -> None:
        """Perform the instruction on the memories."""
        raise TypeError(f"{type(self).__name__} has no effect on memory")

    def timing(self, machine: Machine) -> Timing:
        """Issue, latency and port cycles on `machine`."""
        raise TypeError(f"{type(self).__name__} has no timing")

    def timed_by(self, machine: Machine) -> tuple[Any, ...]:
        """All of its operands that decide its timing (and an array's passes) on `machine`.

        It only calculates with operands, so that it takes columns of them (`Code.whole`) as well.
        """
        raise TypeError(f"{type(self).__name__} has no timing")

    def walks(self, machine: Machine) -> tuple[Walk, ...]:
        """What is read and written, reads first, for the race check and the derivation of waits.

        It only calculates with operands, so that it takes columns of them (`Code.whole`) as well.
        """
        raise TypeError(f"{type(self).__name__} has no accesses")

    def accesses(self, machine: Machine) -> Accesses:
        """The places of `walks`, by space."""
        return accesses_of(self.walks(machine))

    def activity(self, machine: Machine) -> Activity:
        """What it does that costs energy, counted in closed form: reports ask it of every one."""
        raise TypeError(f"{type(self).__name__} has no activity")

    @classmethod
    def layout(cls) -> tuple[FieldSpec, ...]:
        """Every operand field with its place in the word, after the opcode and the waits."""
        return _layout(cls)

    def encode(self) -> int:
        """The word as an unsigned integer of WORD_BITS bits."""
        word = self.opcode
        for unit, count in enumerate(self.waits):
            word |= _checked(f"waits[{unit}]", count, COUNT_BITS, False) << (
                OPCODE_BITS + COUNT_BITS * unit
            )
        for spec in self.layout():
            value = getattr(self, spec.name)
            raw = _float_bits(value) if spec.is_float else int(value)
            word |= _checked(spec.name, raw, spec.width, spec.signed) << spec.offset
        return word

    @classmethod
    def decode(cls, word: int, layer: int = -1) -> Self:
        """The instruction of this class in `word`, the inverse of `encode`, given its layer."""
        values: dict[str, Any] = {"layer": layer}
        mask = (1 << COUNT_BITS) - 1
        values["waits"] = tuple(
            (word >> (OPCODE_BITS + COUNT_BITS * unit)) & mask for unit in range(len(Unit))
        )
        for spec in cls.layout():
            raw = (word >> spec.offset) & ((1 << spec.width) - 1)
            if spec.is_float:
                values[spec.name] = struct.unpack("<f", raw.to_bytes(4, "little"))[0]
            elif spec.signed and raw >> (spec.width - 1):
                values[spec.name] = raw - (1 << spec.width)
            else:
                values[spec.name] = raw
        return cls(**values)

    def __str__(self) -> str:
        waits = " ".join(f"{Unit(u).name.lower()}>={c}" for u, c in enumerate(self.waits) if c)
        operands = " ".join(
            f"{s.name}={getattr(self, s.name)}"
            for s in self.layout()
            if getattr(self, s.name) != _default(type(self), s.name)
        )
        return f"{type(self).__name__} {operands}" + (f"  [wait {waits}]" if waits else "")


def _float_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        raise RidgelineError(f"{value} is beyond float32") from None


def _checked(name: str, value: int, width: int, signed: bool) -> int:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if not low <= value <= high:
        raise RidgelineError(
            f"operand {name}={value} does not fit its field of {width} bits ({low} to {high})"
        )
    return value & ((1 << width) - 1)


@cache
def _layout(cls: type[Instruction]) -> tuple[FieldSpec, ...]:
    offset = OPCODE_BITS + COUNT_BITS * len(Unit)
    specs: list[FieldSpec] = []
    for entry in fields(cls):
        meta: Mapping[str, Any] = entry.metadata
        if "bits" not in meta:
            continue
        is_float = isinstance(entry.default, float)
        specs.append(
            FieldSpec(entry.name, offset, meta["bits"], meta["signed"], is_float, meta["doc"])
        )
        offset += meta["bits"]
    if offset > WORD_BITS:
        raise AssertionError(f"{cls.__name__} needs {offset} bits of {WORD_BITS}")
    return tuple(specs)


@cache
def _default(cls: type[Instruction], name: str) -> Any:
    return next(f.default for f in fields(cls) if f.name == name)
