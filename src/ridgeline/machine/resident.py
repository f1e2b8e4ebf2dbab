"""What a second run of a program need not bring again: constants that are still where they go.

A run right behind another finds the slots and the unified buffer as that one left them. Where a
Load, LoadWeights or LoadParams would write what lies there already, a warm run leaves it out. Which
ones follows from the program alone: those whose sources are constants, and whose places nothing
else has written since the run before.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np
import numpy.typing as npt

from ridgeline.machine.code import Code, Integers
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, LoadParams, LoadWeights, Space
from ridgeline.machine.instructions.state import GRANULE_BYTES
from ridgeline.machine.order import synchronise_code
from ridgeline.machine.program import DeviceSegment, Program
from ridgeline.machine.walks import SPACES, space_sizes

COPIES = (Load, LoadWeights, LoadParams)


def warm_program(program: Program) -> Program:
    """The program for a run right behind another: without what is in its place already.

    Its bits are those of `program`, if the memories are as a run of either left them.
    """
    left_out = still_there(program)
    if not left_out.any():
        return program
    begin, segments = 0, list(program.segments)
    for number, segment in enumerate(segments):
        if not isinstance(segment, DeviceSegment):
            continue
        code = segment.code
        kept = np.flatnonzero(~left_out[begin : begin + len(code)])
        begin += len(code)
        bare = code.ordered(kept).with_waits(np.zeros((len(kept), code.waits.shape[1]), np.int64))
        sizes = (program.host_bytes, program.device_bytes)
        segments[number] = DeviceSegment(synchronise_code(bare, program.machine, *sizes))
    return replace(program, segments=tuple(segments))


def still_there(program: Program) -> npt.NDArray[np.bool_]:
    """Whether a run before left what an instruction of the device segments brings in place [n]."""
    from ridgeline.machine import ordering

    codes = [s.code for s in program.segments if isinstance(s, DeviceSegment)]
    codes = [code for code in codes if len(code)]
    if not codes:
        return np.zeros(0, np.bool_)
    code, machine = Code.joined(codes), program.machine
    facts, pieces = _facts(code, machine)
    table = code.walks(machine)
    places = space_sizes(machine, program.host_bytes, program.device_bytes)
    each = [pieces if space == Space.BUFFER else 1 for space in SPACES]
    lengths = np.asarray([places[space] for space in SPACES]) * each
    starts = np.cumsum(lengths) - lengths
    sizes = np.column_stack([[places[space] for space in SPACES], each, starts]).astype(np.int64)
    found = np.zeros(len(code), np.bool_)
    columns = np.column_stack([code.units, table.first, table.counts])
    constants = program.constants.size // GRANULE_BYTES
    ordering.still_there(columns, table.lines, sizes, table.most_places, facts, constants, found)
    return found


def _facts(code: Code, machine: Machine) -> tuple[Integers, int]:
    """([n, 3]: whether it only copies, first and end of the pieces of a line it touches; pieces).

    Pieces are so small that what copies touches whole ones; all else touches whole lines.
    """
    line = machine.unified_buffer.line_bytes
    lanes = np.zeros((len(code), 2), np.int64)
    lanes[:, 1] = line
    copies = np.isin(code.opcodes, [kind.opcode for kind in COPIES])
    for kind, places, rows in code.kinds():
        whole = code.operands.whole(kind)
        if kind is Load:
            first, width = whole.lane, whole.element_bytes
        elif kind is LoadWeights:
            first, width = whole.lane, whole.n + (whole.k - whole.n) * whole.transposed
        else:
            continue
        lanes[places, 0], lanes[places, 1] = first[rows], (first + width)[rows]
    piece = gcd(line, *np.unique(lanes).tolist())
    return np.column_stack([copies.astype(np.int64), lanes // piece]), line // piece
