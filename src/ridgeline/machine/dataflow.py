"""The three dataflows of the array: how a MatMul becomes passes, and what limits its tile.

A pass shifts a stationary operand into the array's second register plane, then streams the other
operand past it. Weight-stationary keeps the k x n weight tile and streams m activation rows;
input-stationary keeps the m activation rows and streams n weight columns; output-stationary keeps
the m x n sums, streams k steps and drains m rows through the array. Adding a dataflow is one row of
`DATAFLOW_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ridgeline.machine.description import Array


@dataclass(frozen=True, slots=True)
class Pass:
    """`shift_cycles` on one loader for the stationary operand, then `stream_cycles` of stream."""

    shift_cycles: int
    stream_cycles: int


@dataclass(frozen=True, slots=True)
class Tile:
    """What one MatMul multiplies: m rows, n columns, k deep; `planes` byte planes of activations.

    `keep_weights`: the slot is the one of the MatMul before. `last`: the sums leave the array.
    """

    m: int
    n: int
    k: int
    planes: int = 1
    keep_weights: bool = False
    last: bool = True


@dataclass(frozen=True, slots=True)
class Traffic:
    """What moves within the array for one MatMul, exactly; sums are counted, not their bytes.

    `operand_writes` and `sum_writes` are writes into the registers of elements that carry an
    operand (a byte) or a sum of the tile. The register of a product counts with its multiplication.
    """

    operand_writes: int
    sum_writes: int
    slot_reads: int
    """Weights read from the slot, each time that they are."""
    vectors_out: int
    """Vectors of `cols` sums that reach the accumulators."""
    vectors_back: int
    """Vectors that it reads from the accumulators to add its own further byte planes to."""
    vectors_added_to: int
    """Vectors that it reads besides if it accumulates."""


@dataclass(frozen=True, slots=True)
class DataflowRule:
    """One dataflow: its passes, its traffic, its largest m, and which operand's arrival gates the
    shift.
    """

    passes: Callable[[Tile], tuple[Pass, ...]]
    traffic: Callable[[Tile, int, int], Traffic]
    """Of a tile in an array of so many rows and columns."""
    most_m: Callable[[Array], int]
    shift_gated_by_weights: bool
    shift_gated_by_activations: bool


def _weight_stationary(tile: Tile) -> tuple[Pass, ...]:
    return (Pass(0 if tile.keep_weights else tile.k, tile.m * tile.planes),)


def _input_stationary(tile: Tile) -> tuple[Pass, ...]:
    # A unified-buffer line holds one activation row, which is one column of the stationary operand:
    # m lines shift in, whatever their depth k.
    return (Pass(tile.m, tile.n),) * tile.planes


def _output_stationary(tile: Tile) -> tuple[Pass, ...]:
    # Each byte plane takes a step for each k, and at least the m cycles in which its m lines come
    # through the port. Sums without a second plane leave a column one a cycle, and row i may begin
    # its next sum as it passes the last one on: i + 1 cycles after its own last product.
    line_bound = max(tile.k, tile.m)
    final = tile.k + tile.m - 1 if tile.last else line_bound
    return (Pass(0, (tile.planes - 1) * line_bound + final),)


def _stationary_traffic(
    tile: Tile, rows: int, cols: int, held: int, vectors: int, used_cols: int, slot_reads: int
) -> Traffic:
    """`held` operands go into a shadow, then into use; `vectors` of k pass every column, and the
    sums of the `used_cols` columns pass every row.
    """
    passing = vectors * tile.k * cols
    sums = vectors * used_cols * rows
    # A second byte plane is added to the sums of the first, in the accumulators.
    whole = vectors // tile.planes
    return Traffic(2 * held + passing, sums, slot_reads, vectors, vectors - whole, whole)


def _weight_stationary_traffic(tile: Tile, rows: int, cols: int) -> Traffic:
    held = 0 if tile.keep_weights else tile.k * tile.n
    return _stationary_traffic(tile, rows, cols, held, tile.m * tile.planes, tile.n, held)


def _input_stationary_traffic(tile: Tile, rows: int, cols: int) -> Traffic:
    held, weights = tile.m * tile.k * tile.planes, tile.k * tile.n * tile.planes
    return _stationary_traffic(tile, rows, cols, held, tile.n * tile.planes, tile.m, weights)


def _output_stationary_traffic(tile: Tile, rows: int, cols: int) -> Traffic:
    macs = tile.m * tile.n * tile.k * tile.planes
    activations = tile.m * tile.k * tile.planes * cols
    weights = tile.k * tile.n * tile.planes
    # The sum of row i passes the rows below it on its way out.
    leaving = tile.n * (tile.m * (rows - 1) - tile.m * (tile.m - 1) // 2) if tile.last else 0
    vectors = tile.m if tile.last else 0
    operands = activations + weights * rows
    # What it accumulates to stays in the array.
    return Traffic(operands, macs + leaving, weights, vectors, 0, 0)


DATAFLOW_RULES: dict[str, DataflowRule] = {
    "weight-stationary": DataflowRule(
        _weight_stationary,
        _weight_stationary_traffic,
        lambda array: array.accumulator_entries,
        True,
        False,
    ),
    "input-stationary": DataflowRule(
        _input_stationary,
        _input_stationary_traffic,
        lambda array: min(array.cols, array.accumulator_entries),
        False,
        True,
    ),
    "output-stationary": DataflowRule(
        _output_stationary,
        _output_stationary_traffic,
        lambda array: min(array.rows, array.accumulator_entries),
        False,
        False,
    ),
}


@dataclass(frozen=True, slots=True)
class PassTimes:
    """When one pass shifted (start) and streamed (start and end: the cycle the next may start)."""

    shift_start: int
    stream_start: int
    stream_end: int


def shift_lead_cycles(array: Array, one: Pass) -> int:
    """Cycles from the start of a pass's shift to the first in which its stream may begin."""
    return max(min(array.stream_after_rows, one.shift_cycles), 1)


def array_schedule(array: Array, tiles: list[Tile]) -> list[PassTimes]:
    """Times of passes that follow each other with every operand ready at cycle 0: a closed form.

    shift(j) >= stream(j-1) + 1 and >= the end of the shift that used its loader before (there are
    `weight_rows_per_cycle` loaders, used in turn, each moving one row a cycle);
    stream(j) >= shift(j) + its lead, since the swap wave runs behind the rows as they shift in, and
    >= stream(j-1) + its length. So tiles follow at max(m, shift) without a bubble.
    """
    loaders = [0] * array.weight_rows_per_cycle
    turn = 0
    times: list[PassTimes] = []
    free, entered = 0, 0
    for tile in tiles:
        for one in DATAFLOW_RULES[array.dataflow].passes(tile):
            shift = entered
            if one.shift_cycles:
                shift = max(shift, loaders[turn])
                loaders[turn] = shift + one.shift_cycles
                turn = (turn + 1) % len(loaders)
            stream = max(shift + shift_lead_cycles(array, one), free)
            free, entered = stream + one.stream_cycles, stream + 1
            times.append(PassTimes(shift, stream, free))
    return times
