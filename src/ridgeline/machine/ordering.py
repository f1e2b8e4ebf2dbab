"""What touches what before what, over columns of numbers: see `order` for what it means.

Every loop here visits each place that an instruction touches once or twice, so that a program of
tens of thousands of instructions takes some hundredths of a second. The kernels share few arrays,
because Numba's time to compile them grows with every array that is handed on, and their zeros are
of NumPy's type, because it compiles a function anew for a constant:

code [n, 9]: the columns below. walks [walks, 24]: those of `walks.WalkTable`.
spaces [spaces, 13]: a space's size in places, and by unit where the unit's table of what it read
and of what it wrote there begins in `table`; -1 where it never does.
rule [2, 2]: at the start, and when the array shifts, whether weights and whether activations must
be there.
places, ends: those of one instruction; walk w ends before places[ends[w]].
needs [needs, 4]: counts of units that must have drained.
table: the count of the instruction that touched a place last. starts [units, most, units]: what had
drained when each instruction started. clocks [9, units]: the same of each unit's last instruction,
then of the present one at its start and at its shift, and how many of each unit there have been.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.machine.compiled import compiled

whole: Any = np.int64

UNITS = 6
WEIGHTS, ARRAY = 3, 4
DEVICE, BUFFER, SLOTS = 1, 2, 4
"""Spaces by their number in `walks.SPACES`."""
GRANULE_BYTES = 64
MOST_WALKS = 8
MOST_NEEDS = 64

SPACE, WRITES, FORWARDED, BYTES, PLANES, BASE = range(6)
COUNTS, STRIDES, X, Y = 6, 11, 16, 20
"""Columns of `walks.WalkTable`."""

UNIT, FIRST, COUNT, WAITS = range(4)
"""Columns of the code: its unit, its first walk, how many it has, and a wait for each unit."""

SIZE, READERS, WRITERS, SPACE_WIDTH = 0, 1, 1 + UNITS, 1 + 2 * UNITS
NEED_UNIT, NEED_COUNT, NEED_EARLY, NEED_KEY = range(4)
START, SHIFT, ISSUED = UNITS, UNITS + 1, UNITS + 2


@compiled
def in_bytes(first_byte: int, length: int, size: int, places: Any, begin: int, end: int) -> int:
    """Append the granules of one element that were not appended just before; -1: outside."""
    granule = first_byte // GRANULE_BYTES
    last = (first_byte + length - 1) // GRANULE_BYTES
    if granule < 0 or last >= size:
        return -1
    if end > begin and places[end - 1] == granule:
        granule += 1
    while granule <= last:
        places[end] = granule
        granule += 1
        end += 1
    return end


@compiled
def along_x(walk: Any, base: int, tap: int, size: int, places: Any, begin: int, end: int) -> int:
    """Append the places of a row of a walk; -1 where one is outside of the space."""
    for x in range(walk[COUNTS]):
        at = walk[X] + x * walk[X + 1] + tap * walk[X + 3]
        if at < 0 or at >= walk[X + 2]:
            continue
        place = base + x * walk[STRIDES]
        if walk[BYTES]:
            end = in_bytes(place, walk[BYTES], size, places, begin, end)
            if end < 0:
                return -1
            continue
        for plane in range(walk[PLANES]):
            if place + plane < 0 or place + plane >= size:
                return -1
            places[end] = place + plane
            end += 1
    return end


@compiled
def along(walk: Any, size: int, places: Any, begin: int) -> int:
    """Append the places of a whole walk from `begin` on; where they end, -1 if one is outside."""
    end = begin
    for tap_y in range(walk[COUNTS + 4]):
        for tap_x in range(walk[COUNTS + 3]):
            tap = walk[BASE] + tap_x * walk[STRIDES + 3] + tap_y * walk[STRIDES + 4]
            for image in range(walk[COUNTS + 2]):
                for y in range(walk[COUNTS + 1]):
                    at = walk[Y] + y * walk[Y + 1] + tap_y * walk[Y + 3]
                    if at < 0 or at >= walk[Y + 2]:
                        continue
                    base = tap + image * walk[STRIDES + 2] + y * walk[STRIDES + 1]
                    end = along_x(walk, base, tap_x, size, places, begin, end)
                    if end < 0:
                        return -1
    return end


@compiled
def touch(code: Any, walks: Any, spaces: Any, index: int, places: Any, ends: Any) -> bool:
    """Find the places of an instruction; False where one is outside of its space."""
    end = whole(0)
    for number in range(code[index, COUNT]):
        walk = walks[code[index, FIRST] + number]
        end = along(walk, spaces[walk[SPACE], SIZE], places, end)
        if end < 0:
            return False
        ends[number] = end
    return True


@compiled
def latest(table: Any, offset: int, places: Any, begin: int, end: int) -> int:
    """The highest count in a table at these places."""
    found = 0
    for at in range(begin, end):
        if table[offset + places[at]] > found:
            found = table[offset + places[at]]
    return found


@compiled
def need(needs: Any, size: int, key: int, unit: int, count: int, early: int) -> int:
    """Note that `count` of `unit` must have drained; equal keys are one need, the greater."""
    for number in range(size):
        if needs[number, NEED_KEY] == key:
            needs[number, NEED_COUNT] = max(needs[number, NEED_COUNT], count)
            return size
    needs[size, NEED_KEY], needs[size, NEED_UNIT] = key, unit
    needs[size, NEED_COUNT], needs[size, NEED_EARLY] = count, early
    return size + 1


@compiled
def needs_of(
    code: Any,
    walks: Any,
    spaces: Any,
    rule: Any,
    index: int,
    places: Any,
    ends: Any,
    table: Any,
    needs: Any,
    clocks: Any,
) -> int:
    """How many needs an instruction has: the last conflicting access of every unit and space.

    What its unit knows of already has no need, and is not looked for.
    """
    mine, size, begin, at_start = code[index, UNIT], whole(0), whole(0), whole(0)
    for number in range(code[index, COUNT]):
        walk = walks[code[index, FIRST] + number]
        end, space, writes = ends[number], walk[SPACE], walk[WRITES]
        early = at_start
        if mine == ARRAY and not writes:
            early = (space == SLOTS) * rule[1, 0] + (space == BUFFER) * rule[1, 1]
        for unit in range(UNITS if end > begin else 0):
            offset = spaces[space, WRITERS + unit]
            # Memory-latency pipelines of the weights unit may overtake each other; others may not.
            in_order = unit == mine and (walk[FORWARDED] or (writes and mine != WEIGHTS))
            known = in_order or clocks[ISSUED, unit] <= clocks[mine, unit]
            if offset >= 0 and not known:
                count = latest(table, offset, places, begin, end)
                key = (space * 2 + writes) * 2 * UNITS + unit
                size = need(needs, size, key, unit, count, early)
        for unit in range(UNITS if writes and end > begin else 0):
            offset = spaces[space, READERS + unit]
            known = unit == mine or clocks[ISSUED, unit] <= clocks[mine, unit]
            if offset >= 0 and not known:
                count = latest(table, offset, places, begin, end)
                key = ((space * 2 + writes) * 2 + 1) * UNITS + unit
                size = need(needs, size, key, unit, count, at_start)
        begin = end
    return size


@compiled
def know(clocks: Any, starts: Any, rule: Any, unit: int, waits: Any, clock: Any) -> None:
    """Set `clock`: what has drained when the unit's next instruction has waited.

    `rule` says whether its waits on the weights unit, and those on the others, count.
    """
    clock[:] = clocks[unit]
    for other in range(UNITS):
        count = waits[other]
        if rule[0 if other == WEIGHTS else 1] and count > clock[other]:
            for each in range(UNITS):
                clock[each] = max(clock[each], starts[other, count - 1, each])
            clock[other] = count


@compiled
def unmet(clocks: Any, starts: Any, rule: Any, unit: int, waits: Any, needs: Any, size: int) -> int:
    """The need not met under these waits that asks most, an early one first; -1: all are met."""
    know(clocks, starts, rule[0], unit, waits, clocks[START])
    if unit == ARRAY:
        know(clocks, starts, rule[1], unit, waits, clocks[SHIFT])
    worst = -1
    for number in range(size):
        early, count = needs[number, NEED_EARLY], needs[number, NEED_COUNT]
        if count <= clocks[SHIFT if early else START, needs[number, NEED_UNIT]]:
            continue
        if (
            worst < 0
            or early > needs[worst, NEED_EARLY]
            or (early == needs[worst, NEED_EARLY] and count > needs[worst, NEED_COUNT])
        ):
            worst = number
    return worst


@compiled
def fewest_waits(
    clocks: Any, starts: Any, rule: Any, unit: int, waits: Any, needs: Any, size: int
) -> None:
    """Add to the given waits the fewest that meet every need, and set the clocks by them."""
    worst = unmet(clocks, starts, rule, unit, waits, needs, size)
    if worst < 0:
        return
    given = waits.copy()
    # One wait at a time: what the awaited instruction knew often settles the others.
    while worst >= 0:
        other = needs[worst, NEED_UNIT]
        waits[other] = max(waits[other], needs[worst, NEED_COUNT])
        worst = unmet(clocks, starts, rule, unit, waits, needs, size)
    added = waits != given
    if added.sum() > 1:
        # A later one may imply an earlier one: none that is left, beyond those given, can go.
        for other in range(UNITS):
            if added[other]:
                kept = waits[other]
                waits[other] = given[other]
                if unmet(clocks, starts, rule, unit, waits, needs, size) >= 0:
                    waits[other] = kept
        unmet(clocks, starts, rule, unit, waits, needs, size)


@compiled
def record(
    code: Any,
    walks: Any,
    spaces: Any,
    index: int,
    places: Any,
    ends: Any,
    table: Any,
    clocks: Any,
    starts: Any,
) -> None:
    """Take an instruction into account, with clocks[START] as what has drained at its start."""
    unit = code[index, UNIT]
    starts[unit, clocks[ISSUED, unit]] = clocks[START]
    clocks[ISSUED, unit] += 1
    clocks[unit] = clocks[START]
    begin = 0
    for number in range(code[index, COUNT]):
        walk = walks[code[index, FIRST] + number]
        offset = spaces[walk[SPACE], (WRITERS if walk[WRITES] else READERS) + unit]
        for at in range(begin, ends[number]):
            table[offset + places[at]] = clocks[ISSUED, unit]
        begin = ends[number]


@compiled
def order(code: Any, walks: Any, spaces: Any, rule: Any, most_places: int, adds: bool) -> int:
    """The first instruction with a wait on the future, a place outside or a race; -1: none.

    With `adds`, the fewest waits that order every conflict are added to the code's own.
    """
    places, ends = np.zeros(most_places, np.int64), np.zeros(MOST_WALKS, np.int64)
    needs = np.zeros((MOST_NEEDS, 4), np.int64)
    table = np.zeros(max(spaces[:, READERS:].max(), 0) + spaces[:, SIZE].max(), np.int32)
    most = np.bincount(code[:, UNIT]).max()
    starts = np.zeros((UNITS, most, UNITS), np.int64)
    clocks = np.zeros((UNITS + 3, UNITS), np.int64)
    for index in range(code.shape[0]):
        unit, waits = code[index, UNIT], code[index, WAITS:]
        if (waits > clocks[ISSUED]).any():
            return index
        if not touch(code, walks, spaces, index, places, ends):
            return index
        size = needs_of(code, walks, spaces, rule, index, places, ends, table, needs, clocks)
        if adds:
            fewest_waits(clocks, starts, rule, unit, waits, needs, size)
        elif unmet(clocks, starts, rule, unit, waits, needs, size) >= 0:
            return index
        record(code, walks, spaces, index, places, ends, table, clocks, starts)
    return -1


@compiled
def banks(
    code: Any, walks: Any, spaces: Any, most_places: int, lines_per_bank: int, masks: Any
) -> int:
    """Set masks [n, 2] of the unified-buffer banks read and written; the first amiss, -1: none."""
    places, ends = np.zeros(most_places, np.int64), np.zeros(MOST_WALKS, np.int64)
    for index in range(code.shape[0]):
        if not touch(code, walks, spaces, index, places, ends):
            return index
        begin = 0
        for number in range(code[index, COUNT]):
            walk = walks[code[index, FIRST] + number]
            for at in range(begin, ends[number] if walk[SPACE] == BUFFER else begin):
                masks[index, walk[WRITES]] |= 1 << (places[at] // lines_per_bank)
            begin = ends[number]
    return -1


@compiled
def last_conflicts(code: Any, walks: Any, spaces: Any, most_places: int, after: Any) -> int:
    """Set `after` [n]: the last instruction before each that it must follow, -1 if none.

    Returns the first instruction that is amiss, -1 if none. Here each space has one table of what
    read, and one of what wrote, whatever the unit: those of unit 0.
    """
    places, ends = np.zeros(most_places, np.int64), np.zeros(MOST_WALKS, np.int64)
    table = np.full(spaces[:, READERS:].max() + spaces[:, SIZE].max(), -1, np.int32)
    for index in range(code.shape[0]):
        if not touch(code, walks, spaces, index, places, ends):
            return index
        begin = 0
        for number in range(code[index, COUNT]):
            walk = walks[code[index, FIRST] + number]
            for tables in range(READERS if walk[WRITES] else WRITERS, WRITERS + 1, UNITS):
                offset = spaces[walk[SPACE], tables]
                for at in range(begin, ends[number]):
                    after[index] = max(after[index], table[offset + places[at]])
            begin = ends[number]
        begin = 0
        for number in range(code[index, COUNT]):
            walk = walks[code[index, FIRST] + number]
            offset = spaces[walk[SPACE], WRITERS if walk[WRITES] else READERS]
            for at in range(begin, ends[number]):
                table[offset + places[at]] = index
            begin = ends[number]
    return -1


@compiled
def visit(
    code: Any,
    walks: Any,
    sizes: Any,
    index: int,
    places: Any,
    ends: Any,
    facts: Any,
    table: Any,
    entry: int,
) -> Any:
    """Whether all that an instruction reads is constant, and all that it writes its own already.

    With an `entry` of 0 or more, the entries of all that it writes are set to it.
    """
    constant, own, begin = True, True, 0
    for number in range(code[index, COUNT]):
        walk = walks[code[index, FIRST] + number]
        space = walk[SPACE]
        first = facts[index, 1] if space == BUFFER else 0
        end = facts[index, 2] if space == BUFFER else 1
        for at in range(begin, ends[number]):
            start = sizes[space, 2] + places[at] * sizes[space, 1]
            for piece in range(start + first, start + end):
                if not walk[WRITES]:
                    constant = constant and table[piece] != 0
                elif entry >= 0:
                    table[piece] = entry
                else:
                    own = own and table[piece] == index + 2
        begin = ends[number]
    return constant, own


@compiled
def still_there(
    code: Any, walks: Any, sizes: Any, most_places: int, facts: Any, constants: int, found: Any
) -> None:
    """Set `found` [n]: what the instruction copies, the run before left where it goes.

    facts [n, 3]: whether it only copies; the first piece, and the end of the pieces, of a line of
    the unified buffer that it touches. sizes [spaces, 3]: places, the pieces of each, and where the
    space begins in the table of pieces. The first `constants` places of device memory are constant
    when a run begins. An entry of the table is 1 for these, the number of the instruction that
    copied it from what is constant, from 2 on, or 0.
    """
    places, ends = np.zeros(most_places, np.int64), np.zeros(MOST_WALKS, np.int64)
    table = np.zeros((sizes[:, 0] * sizes[:, 1]).sum(), np.int32)
    table[sizes[DEVICE, 2] : sizes[DEVICE, 2] + constants] = 1
    for turn in range(2):
        for index in range(code.shape[0]):
            touch(code, walks, sizes, index, places, ends)
            constant, own = visit(code, walks, sizes, index, places, ends, facts, table, whole(-1))
            constant = constant and facts[index, 0] > 0
            found[index] = constant and own and turn > 0
            entry = index + 2 if constant else 0
            visit(code, walks, sizes, index, places, ends, facts, table, entry)
