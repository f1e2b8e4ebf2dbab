"""Ranges without the parts in which the functions that read a value are flat.

HardSwish is 0 below -3 and GELU almost: what a convolution makes there need not be told apart, so
the steps go to the values that matter. Saturation then gives the flat part's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ridgeline.frontend.tabulate import ENTRIES, tabulate
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import DType
from ridgeline.quant.calibrate import Range
from ridgeline.quant.parameters import activation_quant
from ridgeline.quant.select import KEEPING

# Each round sees the function with finer steps than the one before.
_ROUNDS = 3
# Operators whose result shares its scale with other values.
_SHARING = (*KEEPING, "Concat")


def narrow_ranges(
    graph: Graph, nodes: Sequence[Node], ranges: Mapping[int, Range], dtype: DType
) -> dict[int, Range]:
    """`ranges` (by id(value)) cut at the ends to what changes the result of some Lookup of `nodes`
    by a step. A value that anything else reads keeps its range.
    """
    chosen = {id(n) for n in nodes if n.op == "Lookup"}
    users, outputs = graph.users(), {id(v) for v in graph.outputs}
    found = dict(ranges)
    for node in graph.nodes:
        value = node.output if len(node.outputs) == 1 else None
        if value is None or node.op in _SHARING or id(value) not in ranges:
            continue
        readers = users.get(id(value), [])
        if readers and id(value) not in outputs and all(id(r) in chosen for r in readers):
            found[id(value)] = _narrowed(value, readers, ranges, dtype)
    return found


def _narrowed(
    value: Value, readers: Sequence[Node], ranges: Mapping[int, Range], dtype: DType
) -> Range:
    low, high = ranges[id(value)]
    for _ in range(_ROUNDS):
        parts = [_uneven_part(r, (low, high), ranges[id(r.output)], dtype) for r in readers]
        kept = min(p[0] for p in parts), max(p[1] for p in parts)
        if kept == (low, high):
            break
        low, high = kept
    return low, high


def _uneven_part(node: Node, x: Range, y: Range, dtype: DType) -> Range:
    """The part of `x` outside of which the stored result is that of the part's ends."""
    x_quant, y_quant = activation_quant(*x, dtype), activation_quant(*y, dtype)
    types = (TensorType((ENTRIES,), dtype, quant) for quant in (x_quant, y_quant))
    table = tabulate(node.attrs["function"], *types).astype(np.int64)
    if dtype.low < 0:
        table = np.roll(table, -dtype.low)
    uneven = np.nonzero(table != table[0])[0], np.nonzero(table != table[-1])[0]
    if not uneven[0].size:
        return x  # the same everywhere: nothing to gain
    first, last = int(uneven[0][0]) - 1, int(uneven[1][-1]) + 1
    scale, zero = float(x_quant.scale), int(x_quant.zero_point) - dtype.low
    return max(x[0], (first - zero) * scale), min(x[1], (last - zero) * scale)
