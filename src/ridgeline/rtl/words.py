"""Decoding: an instruction word's fields, at the places that `Instruction.layout()` states."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from amaranth.hdl import Const

from ridgeline.machine.instructions import Instruction, Unit
from ridgeline.machine.instructions.word import COUNT_BITS, OPCODE_BITS, FieldSpec
from ridgeline.rtl.registers import Bits


@cache
def _specs(kind: type[Instruction]) -> dict[str, FieldSpec]:
    return {spec.name: spec for spec in kind.layout()}


def field(word: Bits, kind: type[Instruction], name: str) -> Bits:
    """Field `name` of a word that holds an instruction of this kind, signed if it is so."""
    spec = _specs(kind)[name]
    value = word[spec.offset : spec.offset + spec.width]
    return value.as_signed() if spec.signed else value


def opcode(word: Bits) -> Bits:
    """Which instruction the word holds."""
    return word[:OPCODE_BITS]


def wait(word: Bits, unit: Unit) -> Bits:
    """The count of `unit` that the word's instruction waits for."""
    start = OPCODE_BITS + COUNT_BITS * unit
    return word[start : start + COUNT_BITS]


def waits_met(word: Bits, counts: dict[Unit, Bits], units: Iterable[Unit]) -> Bits:
    """Whether the counts of `units` have reached what the word waits for."""
    met: Bits = Const(1)
    for unit in units:
        met = met & (counts[unit] >= wait(word, unit))
    return met


def word_bits(kinds: Iterable[type[Instruction]]) -> int:
    """Bits of a word, from the lowest, that these kinds use."""
    return max(spec.offset + spec.width for kind in kinds for spec in kind.layout())


def triple(word: Bits, kind: type[Instruction], name: str) -> tuple[Bits, Bits, Bits]:
    """Fields name_0, name_1 and name_2."""
    return (
        field(word, kind, f"{name}_0"),
        field(word, kind, f"{name}_1"),
        field(word, kind, f"{name}_2"),
    )
