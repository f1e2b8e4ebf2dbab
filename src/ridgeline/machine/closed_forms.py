"""What a GEMM costs on an array of SCALE-Sim's machine and of ours, and why they differ.

SCALE-Sim 3 (scalesim-project/SCALE-Sim, `double_buffer` off the array): folds one after the other,
the stationary operand loaded before each and no second register plane; it reports the index of the
last cycle, not their count. Ours is `dataflow.array_schedule`, which the clocked array confirms.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ridgeline.machine.dataflow import DATAFLOW_RULES, PassTimes, Tile, array_schedule
from ridgeline.machine.description import MAX_ACCUMULATOR_ENTRIES, Array, Dataflow

ARRAY_REGISTERS = 4
"""Cycles that our array has once beyond fill and drain: the control's register between shift and
stream, the register at the edge, the product and the partial sum of an element."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """m output rows, n output columns, k deep."""

    m: int
    k: int
    n: int

    @property
    def macs(self) -> int:
        return self.m * self.k * self.n


def folds(gemm: Gemm, rows: int, cols: int, dataflow: Dataflow) -> int:
    """How often the stationary operand (or block of sums) fills the array."""
    along_rows = gemm.m if dataflow == "output-stationary" else gemm.k
    along_cols = gemm.m if dataflow == "input-stationary" else gemm.n
    return -(-along_rows // rows) * -(-along_cols // cols)


def scalesim_cycles(gemm: Gemm, rows: int, cols: int, dataflow: Dataflow) -> int:
    """The cycles that SCALE-Sim reports: folds * (load + fill and drain + stream) - 1."""
    stream = {
        "weight-stationary": gemm.m,
        "input-stationary": gemm.n,
        "output-stationary": gemm.k,
    }[dataflow]
    load = 0 if dataflow == "output-stationary" else rows
    return folds(gemm, rows, cols, dataflow) * (load + rows + cols - 2 + stream) - 1


def bare_array(rows: int, cols: int, dataflow: Dataflow) -> Array:
    """An int8 array that moves one row of weights a cycle and whose accumulators are ample."""
    return Array(
        rows=rows,
        cols=cols,
        dataflow=dataflow,
        macs_per_pe_per_cycle={"int8": Fraction(1)},
        weight_rows_per_cycle=1,
        weight_slots=2,
        accumulator_entries=MAX_ACCUMULATOR_ENTRIES,
        accumulator_bits=32,
    )


def _parts(total: int, most: int) -> list[int]:
    whole, rest = divmod(total, most)
    return [most] * whole + ([rest] if rest else [])


def tiles_of(gemm: Gemm, array: Array) -> list[Tile]:
    """The MatMuls of a GEMM: tiles of at most rows x cols weights, k innermost."""
    most_m = DATAFLOW_RULES[array.dataflow].most_m(array)
    depths = _parts(gemm.k, array.rows)
    return [
        Tile(m, n, k, last=place == len(depths) - 1)
        for m in _parts(gemm.m, most_m)
        for n in _parts(gemm.n, array.cols)
        for place, k in enumerate(depths)
    ]


def ridgeline_cycles(gemm: Gemm, rows: int, cols: int, dataflow: Dataflow) -> int:
    """Cycles from the first shift to the last sum out of our array, every operand being ready."""
    return compare(gemm, rows, cols, dataflow).ours


@dataclass(frozen=True, slots=True)
class Comparison:
    """Cycles of both; `reasons` sum to simulated - ours."""

    simulated: int
    ours: int
    reasons: dict[str, int]


def compare(gemm: Gemm, rows: int, cols: int, dataflow: Dataflow) -> Comparison:
    """SCALE-Sim's cycles, ours, and each reason's part of the difference, counted on its own."""
    array = bare_array(rows, cols, dataflow)
    tiles = tiles_of(gemm, array)
    times = array_schedule(array, tiles)
    count = folds(gemm, rows, cols, dataflow)
    output = dataflow == "output-stationary"
    edge = rows + cols - 2
    reasons = {
        "operand loaded before each fold": 0 if output else count * rows,
        "fill and drain of each fold": (count - 1) * edge,
        "shift that our stream does not hide": -_gaps(times),
        "rows that our sums drain through": -sum(t.m - 1 for t in tiles if output and t.last),
        "registers of our array": -ARRAY_REGISTERS,
        "last index taken for the count": -1,
    }
    ours = times[-1].stream_end + rows + cols + 1
    return Comparison(scalesim_cycles(gemm, rows, cols, dataflow), ours, reasons)


def _gaps(times: list[PassTimes]) -> int:
    """Cycles between the end of a stream and the start of the next."""
    return sum(after.stream_start - before.stream_end for before, after in pairwise(times))
