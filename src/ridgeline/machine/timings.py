"""How long every instruction of a program takes, each distinct one worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ridgeline.machine.code import Code, Integers, Operands
from ridgeline.machine.dataflow import shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import INSTRUCTIONS, Instruction, MatMul


@dataclass(frozen=True, slots=True, eq=False)
class Timings:
    """Cycles of each of n instructions, as `Timing` has them, and the passes of the array's.

    issue, latency, port, passes [n]; shift, stream, lead [n, most passes]: `lead` from the start of
    a pass's shift to the first cycle in which it may stream.
    """

    issue: Integers
    latency: Integers
    port: Integers
    passes: Integers
    shift: Integers
    stream: Integers
    lead: Integers

    @staticmethod
    def of(code: Code, machine: Machine) -> Timings:
        """The timings of `code` on `machine`."""
        lines = _lines_of(code, machine)
        numbers = np.zeros(len(code), np.int64)
        for kind, places, rows in code.kinds():
            numbers[places] = lines.numbers[kind.opcode][rows]
        by_pass = (np.ascontiguousarray(lines.lengths[numbers, :, part]) for part in range(3))
        issue, latency, port = (np.ascontiguousarray(column) for column in lines.cycles[numbers].T)
        return Timings(issue, latency, port, lines.passes[numbers], *by_pass)


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The distinct timings of a program's operands, and by opcode which of them each row has.

    cycles [lines, 3]: issue, latency, port; passes [lines]; lengths [lines, most passes, 3]: shift,
    stream and lead.
    """

    machine: Machine
    numbers: dict[int, Integers]
    cycles: Integers
    passes: Integers
    lengths: Integers


_KNOWN: WeakKeyDictionary[Operands, _Lines] = WeakKeyDictionary()
"""The compiler simulates the same instructions in several orders."""


def _lines_of(code: Code, machine: Machine) -> _Lines:
    known = _KNOWN.get(code.operands)
    if known is not None and known.machine is machine:
        return known
    found: list[_Line] = [_Line((0, 0, 0), ())]
    numbers = {
        kind.opcode: _numbers(code, kind, machine, found)
        for kind in map(INSTRUCTIONS.__getitem__, code.operands.tables)
    }
    passes = np.asarray([len(one.passes) for one in found], np.int64)
    lengths = np.zeros((len(found), int(passes.max()), 3), np.int64)
    for number, one in enumerate(found):
        lengths[number, : len(one.passes)] = np.reshape(one.passes, (-1, 3))
    cycles = np.asarray([one.cycles for one in found], np.int64)
    made = _Lines(machine, numbers, cycles, passes, lengths)
    _KNOWN[code.operands] = made
    return made


@dataclass(frozen=True, slots=True)
class _Line:
    """(issue, latency, port) cycles, and (shift, stream, lead) cycles of each pass."""

    cycles: tuple[int, int, int]
    passes: tuple[tuple[int, int, int], ...]


def _numbers(code: Code, kind: type[Instruction], machine: Machine, found: list[_Line]) -> Integers:
    """For each row of a kind the number of its line in `found`, where new ones are appended."""
    keys = [np.asarray(c) for c in code.operands.whole(kind).timed_by(machine)]
    first, number = _distinct(keys, code.operands.tables[kind.opcode].shape[1])
    found.extend(_line(code.one(kind, row), machine) for row in first.tolist())
    return number + (len(found) - len(first))


def _distinct(keys: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    """(a row of each distinct combination, the combination of each row) of columns of keys."""
    first, number = np.zeros(1, np.int64), np.zeros(rows, np.int64)
    for key in keys:
        if key.size < 2 or key.min() == key.max():
            continue
        _, column = np.unique(key, return_inverse=True)
        both = number * (int(column.max()) + 1) + column
        _, first, number = np.unique(both, return_index=True, return_inverse=True)
    return first, number


def _line(one: Instruction, machine: Machine) -> _Line:
    time = one.timing(machine)
    passes = one.passes(machine) if isinstance(one, MatMul) else ()
    return _Line(
        (time.issue_cycles, time.latency_cycles, time.port_cycles),
        tuple(
            (p.shift_cycles, p.stream_cycles, shift_lead_cycles(machine.array, p)) for p in passes
        ),
    )
