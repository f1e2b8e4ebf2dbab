"""Write docs/isa.md from the instruction classes: `python docs/generate_isa.py`.

Everything about one instruction comes from its class, so the reference cannot disagree with what is
executed, timed and encoded.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path

from ridgeline.machine.instructions import HALT_OPCODE, INSTRUCTIONS, Instruction, Unit
from ridgeline.machine.instructions.state import GRANULE_BYTES
from ridgeline.machine.instructions.word import COUNT_BITS, OPCODE_BITS, WORD_BITS
from ridgeline.machine.latencies import LATENCIES, Latencies

TARGET = Path(__file__).parent / "isa.md"

HEAD = f"""# Instruction set

<!-- Written by docs/generate_isa.py from src/ridgeline/machine/instructions; do not edit. -->

An instruction is one word of {WORD_BITS} bits, stored little endian: the opcode in bits 0 to
{OPCODE_BITS - 1}, then {len(Unit)} wait counts of {COUNT_BITS} bits, then the operands of its kind.
Unused bits are 0.

## Units and order

| unit | number | what it does | opcodes |
|---|---|---|---|
"""

WORK = {
    Unit.LINK: "host memory ⇄ device memory",
    Unit.LOAD: "device memory → unified buffer",
    Unit.STORE: "unified buffer → device memory",
    Unit.WEIGHTS: "weights and parameters → weight slots and parameter slots",
    Unit.ARRAY: "activations × weight slot → accumulators",
    Unit.VECTOR: "accumulators or unified buffer → unified buffer",
}

ORDER = f"""
Each unit works through its own queue in order and counts the instructions that it has drained. An
instruction holds one count for each unit and starts when every unit has drained at least that many;
0 waits for nothing. A wait may only name what comes earlier in the program, so a program cannot
deadlock. Two accesses to one place of which one writes must be ordered by waits, or `check` refuses
the program as a race. A place is a unified-buffer line, an accumulator entry, a weight slot, a
parameter slot, or {GRANULE_BYTES} bytes of device or host memory: finer neighbours count as one.

One instruction a cycle is dispatched, in program order, to its unit's queue, which holds
`queue_depth`; it may start in the cycle after. When several could start in one cycle, the array
goes first, then the vector unit, then the users of the device-memory port: of these, the one that
has been ready longest, then by the unit's number. An instruction holds the read port of each bank
that it names while it issues, and the write port until it drains; a unit never waits for itself.
Results of a unit never overtake each other: behind an instruction of a deeper pipeline a vector
instruction starts as much later as its own is shallower, and weights from the unified buffer start
once those from device memory have drained.

## Memories and numbers

- **Bursts.** An element of a descriptor costs the device-memory port every burst that it touches,
  except its first one where the element before it ended in that burst; and at least its share of a
  cycle on the on-chip side. Rates are exact fractions; the sum is rounded up once.
- **int16** vectors lie in two lines: low bytes, then, in the line behind, high bytes. "Planes" is
  the number of these lines: 1 for 8 bits, 2 for int16.
- **Sums** wrap at the accumulator's width, the bias included. Requantisation, and the order of the
  float32 operations, are in [numerics](numerics.md).
- **max** of a window with no tap inside is the lowest value that `low` allows.

Opcode {HALT_OPCODE} is Halt: it ends a device segment when every unit has drained everything. It
has no operands, and no class.

## Latencies

Cycles from an instruction's last issued element until its unit's count shows it, in
`machine/latencies.py`, which the timing and the hardware both read.

| latency | cycles |
|---|---|
"""


def text() -> str:
    """The whole page."""
    parts = [HEAD + "".join(_unit_row(unit) for unit in Unit) + ORDER]
    parts.append(
        "".join(f"| {f.name} | {getattr(LATENCIES, f.name)} |\n" for f in fields(Latencies))
    )
    notes = (inspect.getdoc(Latencies) or "").splitlines()[2:]
    parts.append("\n" + "".join(f"{'' if n.startswith(' ') else '- '}{n}\n" for n in notes))
    parts.append("\n## Instructions\n")
    parts += [_instruction(kind) for kind in INSTRUCTIONS.values()]
    return "".join(parts)


def _unit_row(unit: Unit) -> str:
    kinds = [k for k in INSTRUCTIONS.values() if k.unit is unit]
    names = ", ".join(f"{kind.opcode} {kind.__name__}" for kind in kinds)
    return f"| {unit.name.lower()} | {int(unit)} | {WORK[unit]} | {names} |\n"


def _instruction(kind: type[Instruction]) -> str:
    used = max(spec.offset + spec.width for spec in kind.layout())
    lines = [
        f"\n### {kind.__name__}\n\n",
        f"Opcode {kind.opcode}, {kind.unit.name.lower()} unit, {used} of {WORD_BITS} bits.\n\n",
        _meaning(kind) + "\n\n",
        f"Time: {inspect.getdoc(kind.timing)}\n\n",
        "| bits | field | | meaning |\n|---|---|---|---|\n",
    ]
    for spec in kind.layout():
        last = spec.offset + spec.width - 1
        form = "float32" if spec.is_float else ("signed" if spec.signed else "")
        lines.append(f"| {spec.offset}–{last} | {spec.name} | {form} | {spec.doc} |\n")
    return "".join(lines)


def _meaning(kind: type[Instruction]) -> str:
    """The class's docstring, and those of the classes that give it more than one field."""
    found: list[str] = []
    for one in kind.__mro__:
        if not is_dataclass(one) or not any("bits" in f.metadata for f in fields(one)):
            continue
        doc = one.__doc__ or ""
        if not doc.startswith(one.__name__ + "("):  # what dataclass writes where there is none
            found.append(inspect.cleandoc(doc))
    return "\n\n".join(found)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8", newline="\n")
    print(f"wrote {TARGET}")
