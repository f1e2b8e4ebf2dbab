"""How long every instruction of a program takes, each distinct one worked out once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.dataflow import shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, MatMul


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
        numbers = np.zeros(len(code), np.int64)
        found: list[_Line] = [_Line((0, 0, 0), ())]
        for kind, places, rows in code.kinds():
            numbers[places] = _numbers(code, kind, machine, found)[rows]
        table = np.asarray([one.cycles for one in found], np.int64)[numbers]
        passes = np.asarray([len(one.passes) for one in found], np.int64)
        most = int(passes.max())
        lengths = np.zeros((len(found), most, 3), np.int64)
        for number, one in enumerate(found):
            lengths[number, : len(one.passes)] = np.reshape(one.passes, (-1, 3))
        by_pass = (np.ascontiguousarray(lengths[numbers, :, part]) for part in range(3))
        issue, latency, port = (np.ascontiguousarray(column) for column in table.T)
        return Timings(issue, latency, port, passes[numbers], *by_pass)


@dataclass(frozen=True, slots=True)
class _Line:
    """(issue, latency, port) cycles, and (shift, stream, lead) cycles of each pass."""

    cycles: tuple[int, int, int]
    passes: tuple[tuple[int, int, int], ...]


def _numbers(code: Code, kind: type[Instruction], machine: Machine, found: list[_Line]) -> Integers:
    """For each row of a kind the number of its line in `found`, where new ones are appended."""
    columns = [np.asarray(c).tolist() for c in code.operands.whole(kind).timed_by(machine)]
    known: dict[tuple[int, ...], int] = {}
    numbers: list[int] = []
    for row, key in enumerate(zip(*columns, strict=True)):
        number = known.get(key)
        if number is None:
            number = known[key] = len(found)
            found.append(_line(code.one(kind, row), machine))
        numbers.append(number)
    return np.asarray(numbers, np.int64)


def _line(one: Instruction, machine: Machine) -> _Line:
    time = one.timing(machine)
    passes = one.passes(machine) if isinstance(one, MatMul) else ()
    return _Line(
        (time.issue_cycles, time.latency_cycles, time.port_cycles),
        tuple(
            (p.shift_cycles, p.stream_cycles, shift_lead_cycles(machine.array, p)) for p in passes
        ),
    )
