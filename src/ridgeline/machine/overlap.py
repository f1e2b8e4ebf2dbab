"""A vector instruction must not read what it has itself written: its depth would decide.

`apply` reads everything, then writes. A vector unit writes a pipeline's depth after it reads, so a
line may be written in place only when no later element reads it.
"""

from __future__ import annotations

import numpy as np

from ridgeline.machine.instructions import (
    Elementwise,
    Instruction,
    Lookup,
    RealElementwise,
    WindowReduce,
)
from ridgeline.machine.instructions.array import planes
from ridgeline.machine.instructions.state import Places
from ridgeline.machine.instructions.vector import DEPTHWISE, RESCALE

Walk = tuple[Places, Places]
"""Lines, and the number of the vector with which each is read or written."""


def overlap_faults(instruction: Instruction) -> list[str]:
    """The first line that is read after, or while, the same instruction has written it."""
    if not isinstance(instruction, (Elementwise, WindowReduce, Lookup, RealElementwise)):
        return []
    one = instruction
    if not one.read_banks & one.write_banks or _lanes_apart(one):
        return []
    lines, when = _reads(one)
    written = _with_planes(one.out_lines(one.counts), one.out_format)
    first = min(int(written[0].min()), int(lines.min(initial=0)))
    span = max(int(written[0].max()), int(lines.max(initial=0))) - first + 1
    last_read = np.full(span, -1, np.int64)
    np.maximum.at(last_read, lines - first, when)
    # In place lane by lane, the groups of one vector do not meet; else they may.
    own = 0 if one.lane == one.out_lane else 1
    late = last_read[written[0] - first] + own > written[1]
    if not late.any():
        return []
    return [f"reads line {int(written[0][late][0])} after it has written it itself"]


def _lanes_apart(one: Elementwise | WindowReduce | Lookup | RealElementwise) -> bool:
    weights = isinstance(one, WindowReduce) and one.operation == DEPTHWISE
    apart = one.lane + one.channels <= one.out_lane or one.out_lane + one.channels <= one.lane
    return apart and not weights


def _with_planes(lines: Places, format_code: int) -> Walk:
    count = planes(format_code)
    numbers = np.arange(lines.size, dtype=np.int64)
    return np.concatenate([lines + p for p in range(count)]), np.tile(numbers, count)


def _reads(one: Elementwise | WindowReduce | Lookup | RealElementwise) -> Walk:
    walks: list[Walk] = []
    if isinstance(one, Elementwise):
        walks.append(_with_planes(one.a_lines(), one.format))
        if one.operation != RESCALE:
            walks.append(_with_planes(one.b_lines(), one.format))
    elif isinstance(one, RealElementwise):
        walks += [(lines, np.arange(one.m)) for lines in (one.a_lines(), one.b_lines())][
            : one.operands
        ]
    elif isinstance(one, Lookup):
        # The table is read whole before the first vector is.
        walks.append(_with_planes(one.lines(), one.format))
    else:
        for tap in range(one.taps):
            inside = one.tap_inside(tap)
            numbers = np.flatnonzero(inside)
            lines, order = _with_planes(one.tap_lines(tap)[inside], one.format)
            walks.append((lines, numbers[order]))
        if one.operation == DEPTHWISE:
            weights = one.weight_line + np.arange(one.taps, dtype=np.int64)
            walks.append((weights, np.full(one.taps, one.m, np.int64)))
    return np.concatenate([w[0] for w in walks]), np.concatenate([w[1] for w in walks])
