"""A layer's instructions where some of its weight tiles lie in the unified buffer beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ridgeline.compiler.plan import Held
from ridgeline.compiler.schedule import Ahead
from ridgeline.machine.code import Code, Operands, operand_names
from ridgeline.machine.instructions import Load, LoadWeights

HELD_ROWS = 64
"""Rows of a weight tile that one Load brings: few enough to let others at the port in between."""


def with_held(code: Code, held: Sequence[Held]) -> Code:
    """The Loads of the held tiles, then the instructions of one layer with its LoadWeights of them
    taken from the unified buffer. Without LoadWeights, where the layer before left all that this
    one computes with in the slots, there is nothing to bring.
    """
    if not held or LoadWeights.opcode not in code.operands.tables:
        return code
    layer = int(code.layers[0])
    names = operand_names(LoadWeights)
    table = code.operands.tables[LoadWeights.opcode].copy()
    column = {name: table[names.index(name)] for name in names}
    addresses = column["address"].copy()
    for one in held:
        # Tiles of equal bytes lie at one address, whatever their shape.
        shape = (column["k"] == one.tile.k) & (column["row_stride"] == one.tile.width)
        rows = (addresses == one.tile.address) & shape
        column["from_buffer"][rows] = 1
        column["address"][rows] = one.line
        column["lane"][rows] = one.lane
        column["row_stride"][rows] = 1
    tables = {**code.operands.tables, LoadWeights.opcode: table}
    loads = Code.of([load for one in held for load in _loads(one, layer)])
    return Code.joined([loads, replace(code, operands=Operands(tables))])


def _loads(held: Held, layer: int) -> list[Load]:
    tile = held.tile
    return [
        Load(
            layer=layer,
            device_address=tile.address + first * tile.width,
            line=held.line + first,
            lane=held.lane,
            element_bytes=tile.width,
            count_0=min(HELD_ROWS, tile.k - first),
            device_stride_0=tile.width,
            line_stride_0=1,
        )
        for first in range(0, tile.k, HELD_ROWS)
    ]


def ahead_of(code: Code, held: Sequence[Held], start: int) -> list[Ahead]:
    """The Loads of `held` in a layer's instructions as `with_held` made them, where these stand
    from number `start` on. A tile that another layer left in its slot has none: it is not read.
    """
    if not held or LoadWeights.opcode not in code.operands.tables:
        return []
    names = operand_names(LoadWeights)
    places = np.flatnonzero(code.opcodes == LoadWeights.opcode)
    table = code.operands.tables[LoadWeights.opcode][:, code.rows[places]]
    taken = table[names.index("from_buffer")] == 1
    keys = zip(
        table[names.index("address"), taken].tolist(),
        table[names.index("lane"), taken].tolist(),
        places[taken].tolist(),
        strict=True,
    )
    users: dict[tuple[int, int], int] = {}
    for line, lane, place in keys:
        users.setdefault((line, lane), place)
    found: list[Ahead] = []
    load = start
    for one in held:
        count = -(-one.tile.k // HELD_ROWS)
        user = users.get((one.line, one.lane))
        if user is not None:
            found += [Ahead(load + i, start + user, one.since) for i in range(count)]
        load += count
    return found
