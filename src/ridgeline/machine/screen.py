"""A quick proof that a segment is legal, over its columns: the rules of `check`, all at once.

It proves or it does not: only when it does not does `check` go through the instructions one by one,
and finds the words for what is wrong. Rules for a single instruction are asked once for all
instructions that differ only in where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ridgeline.machine.code import Code, Integers, operand_names
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import (
    Instruction,
    LoadWeights,
    MatMul,
    Requant,
)
from ridgeline.machine.instructions.word import COUNT_BITS
from ridgeline.machine.operands import operand_faults
from ridgeline.machine.order import is_ordered, touched_banks
from ridgeline.machine.overlap import overlap_faults
from ridgeline.machine.walks import BASE, BYTES, COUNTS, LEVELS, SPACE, STRIDES

LINES = ("line", "a_line", "b_line", "weight_line", "table_line", "out_line")
POSITIONS = frozenset(
    (*LINES, "host_address", "device_address", "address", "entry", "x_origin", "y_origin")
)
"""Operands that say where an instruction works; what it may do there is a matter of the others."""

MASKS = frozenset(("banks", "in_banks", "out_banks"))
MOST_PLACES = 1 << 26
"""Places of one instruction beyond which its walk is not tried out."""

FLOAT32_MOST = float(np.finfo(np.float32).max)


def proved_legal(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> bool:
    """Whether every rule of `check` surely holds for these instructions."""
    if not len(code):
        return True
    if not (_fields_hold(code) and _operands_hold(code, machine)):
        return False
    if not _bytes_hold(code, machine, host_bytes, device_bytes):
        return False
    if code.walks(machine).most_places > MOST_PLACES:
        return False
    return (
        _banks_hold(code, machine)
        and _nothing_overlaps(code)
        and is_ordered(code, machine, host_bytes, device_bytes)
        and _slots_hold(code)
        and (machine.array.dataflow != "output-stationary" or _chains_hold(code))
    )


def _fields_hold(code: Code) -> bool:
    """Every operand fits its field of the word."""
    if code.waits.min() < 0 or code.waits.max() >> COUNT_BITS:
        return False
    for kind, _, _ in code.kinds():
        names, table = operand_names(kind), code.operands.tables[kind.opcode]
        for spec in kind.layout():
            column = table[names.index(spec.name)]
            if spec.is_float:
                if not (np.abs(column.view(np.float64)) <= FLOAT32_MOST).all():
                    return False
                continue
            low, high = (
                (-1 << spec.width - 1, 1 << spec.width - 1) if spec.signed else (0, 1 << spec.width)
            )
            if column.min(initial=0) < low or column.max(initial=0) >= high:
                return False
    return True


def _operands_hold(code: Code, machine: Machine) -> bool:
    for kind, _, _ in code.kinds():
        kept = [name for name in operand_names(kind) if name not in POSITIONS]
        columns = code.operands.tables[kind.opcode]
        names = operand_names(kind)
        key = [columns[names.index(name)] for name in kept]
        if not _each_holds(code, kind, key, lambda one: not operand_faults(one, machine)):
            return False
    return True


def _each_holds(
    code: Code,
    kind: type[Instruction],
    key: Iterable[Integers],
    holds: Callable[[Instruction], bool],
) -> bool:
    """Whether a rule holds for one row of each distinct key."""
    known: set[tuple[Any, ...]] = set()
    for row, values in enumerate(zip(*(column.tolist() for column in key), strict=True)):
        if values not in known:
            known.add(values)
            if not holds(code.one(kind, row)):
                return False
    return True


def _bytes_hold(code: Code, machine: Machine, host_bytes: int, device_bytes: int) -> bool:
    """Every byte touched lies in its memory."""
    sizes = np.asarray([host_bytes, device_bytes], np.int64)  # The first two of SPACES.
    lines = code.walks(machine).lines
    counts = lines[:, COUNTS : COUNTS + LEVELS]
    lines = lines[(lines[:, SPACE] < len(sizes)) & counts.all(axis=1)]
    reach = (lines[:, COUNTS : COUNTS + LEVELS] - 1) * lines[:, STRIDES : STRIDES + LEVELS]
    first = lines[:, BASE] + np.minimum(reach, 0).sum(axis=1)
    end = lines[:, BASE] + np.maximum(reach, 0).sum(axis=1) + lines[:, BYTES]
    inside = (first >= 0) & (end <= sizes[lines[:, SPACE]])
    return bool((inside & (first < end)).all())


def _banks_hold(code: Code, machine: Machine) -> bool:
    """Every bank touched is named."""
    try:
        reads, writes = touched_banks(code, machine)
    except IndexError:
        return False
    named_reads, named_writes = code.banks()
    return not ((reads & ~named_reads) | (writes & ~named_writes)).any()


def _nothing_overlaps(code: Code) -> bool:
    """No vector instruction reads what it has written: asked once of all that lie alike."""
    for kind, _, _ in code.kinds():
        names, table = operand_names(kind), code.operands.tables[kind.opcode]
        if not {"in_banks", "out_banks"} <= set(names):
            continue
        out = table[names.index("out_line")]
        masks = table[names.index("in_banks")] & table[names.index("out_banks")]
        key = [masks != 0]
        for name, column in zip(names, table, strict=True):
            if name not in MASKS:
                key.append(column - out if name in LINES else column)
        if not _each_holds(code, kind, key, lambda one: not overlap_faults(one)):
            return False
    return True


def _columns(code: Code, kind: type[Instruction], *names: str) -> tuple[Integers, ...]:
    """Where the instructions of a kind stand, and these operands of them, in program order."""
    found = np.flatnonzero(code.opcodes == kind.opcode)
    if not found.size:
        return (found,) * (1 + len(names))
    table, every = code.operands.tables[kind.opcode], operand_names(kind)
    return (found, *(table[every.index(name)][code.rows[found]] for name in names))


def _slots_hold(code: Code) -> bool:
    """A MatMul keeps only the weights of the one before, from a slot not loaded since."""
    at, slot, k, keep = _columns(code, MatMul, "slot", "k", "keep_weights")
    loaded, into = _columns(code, LoadWeights, "slot")
    kept = np.flatnonzero(keep)
    if not kept.size:
        return True
    if kept[0] == 0 or (slot[kept] != slot[kept - 1]).any() or (k[kept] != k[kept - 1]).any():
        return False
    ranks = np.sort(into * len(code) + loaded)
    between = np.searchsorted(ranks, slot[kept] * len(code) + at[kept])
    before = np.searchsorted(ranks, slot[kept] * len(code) + at[kept - 1])
    return bool((between == before).all())


def _chains_hold(code: Code) -> bool:
    """Sums stay in an output-stationary array from a chain's first MatMul to its last."""
    at, entry, accumulate, last, *counts = _columns(
        code, MatMul, "entry", "accumulate", "last", "count_0", "count_1", "count_2"
    )
    m = counts[0] * counts[1] * counts[2]
    if not at.size:
        return True
    open_before = np.concatenate([[0], 1 - last[:-1]])
    same = np.concatenate([[True], (entry[1:] == entry[:-1]) & (m[1:] == m[:-1])])
    if (
        (accumulate != open_before).any()
        or (open_before.astype(bool) & ~same).any()
        or not last[-1]
    ):
        return False
    reader, first, *reads = _columns(code, Requant, "entry", "count_0", "count_1", "count_2")
    previous = np.searchsorted(at, reader) - 1
    open_then = (previous >= 0) & (last[previous] == 0)
    end, start, stop = (
        first + reads[0] * reads[1] * reads[2],
        entry[previous],
        (entry + m)[previous],
    )
    return not (open_then & (end > start) & (stop > first)).any()
