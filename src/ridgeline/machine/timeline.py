"""The event loop of `simulate` over columns of numbers; see there for what it means.

The kernels share few arrays, because Numba's time to compile them grows with every array that is
handed on:

code [n, 13 + 3 passes]: the columns below. lists [units, most]: the instructions of each unit.
rule [14]: the depth of a queue; whether the array holds banks while it shifts; by unit, who is
first of those that use the port; by unit, whether a shift minds waits on it.
times [n, 7]: what is found. units [5, units]: by unit what has happened so far.
drained, popped [units, most]: when each instruction of a unit drained, and left its queue.
banks [4, banks]: until when, and by which unit, each bank is held for reading and for writing.
loaders: until when each is busy. one [8]: single numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.machine.compiled import compiled

whole: Any = np.int64

UNITS = 6
ARRAY, VECTOR = 4, 5
NEVER = 1 << 60
"""A cycle later than any: what cannot be known yet."""
MOST_BANKS = 64

WHY_UNIT, WHY_DISPATCH, WHY_SHIFT, WHY_BANK, WHY_PORT = range(UNITS, UNITS + 5)
"""The last obstacle, behind the units themselves."""

DISPATCHED, SHIFTED, READY, START, ISSUED, DRAINED, WHY = range(7)
"""Columns of the times."""

UNIT, ISSUE, LATENCY, PORT, READS, WRITES, PASSES, WAITS = range(8)
SHIFT, STREAM, LEAD, PASS_WIDTH = WAITS + UNITS, WAITS + UNITS + 1, WAITS + UNITS + 2, 3
"""Columns of the code: a wait for each unit; then for each pass the cycles of its shift, of its
stream, and from the start of the one to the first of the other."""

QUEUE_DEPTH, BANKS_AT_SHIFT, RANKS = range(3)
GATES = RANKS + UNITS

POPS, QUEUED, POSITION, UNIT_FREE, ANSWERED = range(5)
"""How many left the queue, entered it, have drained; when the unit is free, and when the last one
that used the device-memory port has drained."""

READING, WRITING = 0, 2
"""Rows of the banks: until when; the unit is in the row behind."""

TURN, ENTERED, FREE, NUMBER, SHIFTING, PORT_FREE, SENT, LAST_SENT = range(8)
"""The array's next loader, when its next pass may shift, when it may stream, the number of the pass
and when that shifted (-1: not yet); when the port is free; how many instructions have been
dispatched, and when the last one was."""

OF_ARRAY, OF_VECTOR, OF_PORT = 0, 1, 2
"""Who goes first in one cycle."""


@compiled
def waits_done(code: Any, index: int, rule: Any, gated: bool, units: Any, drained: Any) -> Any:
    """(when its waits are satisfied, NEVER if not yet; the last unit); gated: those of a shift."""
    when, what = 0, -1
    for unit in range(UNITS):
        wanted = code[index, WAITS + unit]
        if wanted == 0 or (gated and not rule[GATES + unit]):
            continue
        if wanted > units[POSITION, unit]:
            return NEVER, unit
        if drained[unit, wanted - 1] > when:
            when, what = drained[unit, wanted - 1], unit
    return when, what


@compiled
def banks_free(banks: Any, row: int, unit: int, mask: int) -> int:
    """When no other unit holds any of these banks."""
    when = 0
    bank = 0
    while mask:
        if mask & 1 and banks[row + 1, bank] != unit and banks[row, bank] > when:
            when = banks[row, bank]
        mask >>= 1
        bank += 1
    return when


@compiled
def hold_banks(banks: Any, row: int, unit: int, mask: int, end: int) -> None:
    """Hold these banks until `end`; one that the unit holds for longer, until then."""
    bank = 0
    while mask:
        if mask & 1:
            if banks[row + 1, bank] != unit or end > banks[row, bank]:
                banks[row, bank] = end
            banks[row + 1, bank] = unit
        mask >>= 1
        bank += 1


@compiled
def dispatch(code: Any, rule: Any, times: Any, units: Any, popped: Any, one: Any) -> None:
    """Send instructions to their queues, one a cycle, while the next one's queue has room."""
    while one[SENT] < code.shape[0]:
        index = one[SENT]
        unit = code[index, UNIT]
        place = units[QUEUED, unit] - rule[QUEUE_DEPTH]
        room = 0
        if place >= 0:
            if units[POPS, unit] <= place:
                return
            room = popped[unit, place] + 1
        one[LAST_SENT] = max(one[LAST_SENT] + 1, room)
        times[index, DISPATCHED] = one[LAST_SENT]
        units[QUEUED, unit] += 1
        one[SENT] += 1


@compiled
def array_time(
    code: Any,
    index: int,
    rule: Any,
    times: Any,
    units: Any,
    drained: Any,
    banks: Any,
    loaders: Any,
    one: Any,
) -> Any:
    """(cycle, ready, obstacle) of the array's next shift or stream; NEVER: not known yet."""
    array = whole(ARRAY)
    held = banks_free(banks, READING, array, code[index, READS])
    if one[SHIFTING] < 0:
        when = max(one[ENTERED], times[index, DISPATCHED] + 1)
        if code[index, SHIFT + PASS_WIDTH * one[NUMBER]]:
            when = max(when, loaders[one[TURN]])
            when = max(when, waits_done(code, index, rule, True, units, drained)[0])
            if rule[BANKS_AT_SHIFT]:
                when = max(when, held)
        return when, when, WHY_SHIFT
    ready, why = waits_done(code, index, rule, False, units, drained)
    if one[FREE] >= ready:
        ready, why = one[FREE], WHY_UNIT
    led = one[SHIFTING] + code[index, LEAD + PASS_WIDTH * one[NUMBER]]
    if led > ready:
        ready, why = led, WHY_SHIFT
    when = ready
    if not rule[BANKS_AT_SHIFT] and held > when:
        when, why = held, WHY_BANK
    return when, ready, why


@compiled
def unit_time(
    code: Any,
    index: int,
    rule: Any,
    times: Any,
    units: Any,
    drained: Any,
    banks: Any,
    one: Any,
) -> Any:
    """(start, ready, obstacle) of another unit's next instruction; NEVER: not known yet."""
    unit = code[index, UNIT]
    ready, why = waits_done(code, index, rule, False, units, drained)
    free = units[UNIT_FREE, unit]
    # Results never overtake. Behind a deeper pipeline the vector unit waits until its own is as far
    # from its end; what comes from device memory may be late, so weights wait until it is there.
    if unit == VECTOR and units[POSITION, unit]:
        free = max(free, drained[unit, units[POSITION, unit] - 1] - code[index, LATENCY])
    if not code[index, PORT]:
        free = max(free, units[ANSWERED, unit])
    if free >= ready:
        ready, why = free, WHY_UNIT
    if times[index, DISPATCHED] + 1 > ready:
        ready, why = times[index, DISPATCHED] + 1, WHY_DISPATCH
    held = banks_free(banks, READING, unit, code[index, READS])
    held = max(held, banks_free(banks, WRITING, unit, code[index, WRITES]))
    when = max(ready, held)
    if code[index, PORT]:
        when = max(when, one[PORT_FREE])
    if when > ready:
        why = WHY_BANK if held >= when else WHY_PORT
    return when, ready, why


@compiled
def shift_in(
    code: Any,
    index: int,
    when: int,
    rule: Any,
    units: Any,
    popped: Any,
    banks: Any,
    loaders: Any,
    one: Any,
) -> None:
    """The array begins to shift the stationary operand of a pass in."""
    if one[NUMBER] == 0:
        popped[ARRAY, units[POPS, ARRAY]] = when
        units[POPS, ARRAY] += 1
    cycles = code[index, SHIFT + PASS_WIDTH * one[NUMBER]]
    if cycles:
        loaders[one[TURN]] = when + cycles
        one[TURN] = (one[TURN] + 1) % loaders.size
        if rule[BANKS_AT_SHIFT]:
            hold_banks(banks, READING, whole(ARRAY), code[index, READS], when + cycles)
    one[SHIFTING] = when


@compiled
def stream(
    code: Any,
    index: int,
    when: int,
    ready: int,
    why: int,
    rule: Any,
    times: Any,
    banks: Any,
    one: Any,
) -> bool:
    """The array streams a pass; whether that completes the instruction."""
    if one[NUMBER] == 0:
        times[index, SHIFTED], times[index, READY] = one[SHIFTING], ready
        times[index, START], times[index, WHY] = when, why
    one[FREE] = when + code[index, STREAM + PASS_WIDTH * one[NUMBER]]
    one[ENTERED], one[SHIFTING] = when + 1, -1
    if not rule[BANKS_AT_SHIFT]:
        hold_banks(banks, READING, whole(ARRAY), code[index, READS], one[FREE])
    one[NUMBER] += 1
    if one[NUMBER] < code[index, PASSES]:
        return False
    one[NUMBER] = 0
    times[index, ISSUED] = one[FREE]
    times[index, DRAINED] = one[FREE] + code[index, LATENCY]
    return True


@compiled
def start(
    code: Any,
    index: int,
    when: int,
    ready: int,
    why: int,
    times: Any,
    units: Any,
    popped: Any,
    banks: Any,
    one: Any,
) -> None:
    """Another unit than the array starts its next instruction."""
    unit = code[index, UNIT]
    issued = when + code[index, ISSUE]
    end = issued + code[index, LATENCY]
    hold_banks(banks, READING, unit, code[index, READS], issued)
    hold_banks(banks, WRITING, unit, code[index, WRITES], end)
    if code[index, PORT]:
        one[PORT_FREE] = when + code[index, PORT]
        units[ANSWERED, unit] = end
    units[UNIT_FREE, unit] = issued
    popped[unit, units[POPS, unit]] = when
    units[POPS, unit] += 1
    times[index, SHIFTED], times[index, READY] = ready, ready
    times[index, START], times[index, WHY] = when, why
    times[index, ISSUED], times[index, DRAINED] = issued, end


@compiled
def choose(
    code: Any,
    lists: Any,
    rule: Any,
    times: Any,
    units: Any,
    drained: Any,
    banks: Any,
    loaders: Any,
    one: Any,
) -> Any:
    """(unit, cycle, ready, obstacle) of what can start first; unit -1 where nothing ever can."""
    chosen, first, first_rank, first_tie, is_ready, why = -1, NEVER, 0, 0, 0, 0
    for unit in range(UNITS):
        if units[POSITION, unit] >= units[QUEUED, unit]:
            continue
        index, tie = lists[unit, units[POSITION, unit]], 0
        if unit == ARRAY:
            when, ready, what = array_time(
                code, index, rule, times, units, drained, banks, loaders, one
            )
            rank = OF_ARRAY
        else:
            when, ready, what = unit_time(code, index, rule, times, units, drained, banks, one)
            rank = OF_VECTOR
            if unit != VECTOR:
                # All that may use the port rank alike, then by time of request, then by unit.
                rank = OF_PORT
                tie = min(ready, NEVER) * UNITS + rule[RANKS + unit]
        if when >= NEVER or when > first:
            continue
        if when < first or rank < first_rank or (rank == first_rank and tie < first_tie):
            chosen, first, first_rank, first_tie = unit, when, rank, tie
            is_ready, why = ready, what
    return chosen, first, is_ready, why


@compiled
def run(code: Any, lists: Any, rule: Any, loader_count: int, times: Any, units: Any) -> int:
    """Find the times; the last cycle of dispatch.

    When fewer than all have drained (`units`), the program is in a deadlock.
    """
    drained, popped = np.zeros(lists.shape, np.int64), np.zeros(lists.shape, np.int64)
    banks = np.zeros((4, MOST_BANKS), np.int64)
    banks[READING + 1], banks[WRITING + 1] = -1, -1
    loaders = np.zeros(loader_count, np.int64)
    one = np.zeros(8, np.int64)
    one[SHIFTING], one[LAST_SENT] = -1, -1
    left = code.shape[0]
    dispatch(code, rule, times, units, popped, one)
    while left:
        unit, when, ready, why = choose(
            code, lists, rule, times, units, drained, banks, loaders, one
        )
        if unit < 0:
            break
        index = lists[unit, units[POSITION, unit]]
        done = True
        if unit != ARRAY:
            start(code, index, when, ready, why, times, units, popped, banks, one)
        elif one[SHIFTING] < 0:
            done = False
            shift_in(code, index, when, rule, units, popped, banks, loaders, one)
        else:
            done = stream(code, index, when, ready, why, rule, times, banks, one)
        if done:
            drained[unit, units[POSITION, unit]] = times[index, DRAINED]
            units[POSITION, unit] += 1
            left -= 1
        dispatch(code, rule, times, units, popped, one)
    return one[LAST_SENT]
