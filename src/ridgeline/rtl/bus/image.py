"""A program's instructions as they lie in memory: each cut to what its kind uses."""

from __future__ import annotations

from collections.abc import Iterable

from ridgeline.machine.instructions import HALT_OPCODE, Instruction
from ridgeline.machine.program import WORD_BYTES
from ridgeline.rtl.shape import COVERED_KINDS

CHUNK_BYTES = 16
"""Instructions are whole numbers of these, so that their length is a few bits of hardware."""

_HALT = HALT_OPCODE.to_bytes(CHUNK_BYTES, "little")


def chunks_by_opcode() -> dict[int, int]:
    """How many chunks the instructions of each kind have, Halt's included."""
    bits = CHUNK_BYTES * 8
    kinds = sorted(COVERED_KINDS, key=lambda kind: kind.opcode)
    return {HALT_OPCODE: 1} | {kind.opcode: -(-_used_bits(kind) // bits) for kind in kinds}


def _used_bits(kind: type[Instruction]) -> int:
    return max(spec.offset + spec.width for spec in kind.layout())


def image(instructions: Iterable[Instruction]) -> bytes:
    """The instructions one after the other, Halt last: what the fetch unit reads."""
    chunks = chunks_by_opcode()
    words = (
        one.encode().to_bytes(WORD_BYTES, "little")[: chunks[one.opcode] * CHUNK_BYTES]
        for one in instructions
    )
    return b"".join(words) + _HALT
