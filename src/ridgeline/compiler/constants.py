"""What device memory starts with: weight tiles, parameters and tables, each packed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Layout
from ridgeline.compiler.plan import ColumnTile, WeightTile
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.state import GRANULE_BYTES
from ridgeline.machine.instructions.weights import MOST_BLOCK_ROWS, MOST_COLUMN

Weights = npt.NDArray[Any]


class ConstantPool:
    """Bytes at growing addresses; equal content is kept once."""

    def __init__(self, align_bytes: int) -> None:
        self.align_bytes = align_bytes
        self._data = bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Address of `data`, aligned to a burst."""
        if data not in self._known:
            self._data += bytes(-len(self._data) % self.align_bytes)
            self._known[data] = len(self._data)
            self._data += data
        return self._known[data]

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The whole pool, padded to a granule so that nothing shares its last one."""
        padded = bytes(self._data) + bytes(-len(self._data) % GRANULE_BYTES)
        return np.frombuffer(padded, np.uint8)


def pack_params(
    pool: ConstantPool, bias: npt.NDArray[np.int32], scale: npt.NDArray[np.float32]
) -> int:
    """Address of the records (int32 bias, float32 scale) of some channels."""
    records = np.empty((bias.size, 2), "<i4")
    records[:, 0] = bias
    records[:, 1] = scale.astype("<f4").view("<i4")
    return pool.add(records.tobytes())


def pack_columns(
    pool: ConstantPool,
    machine: Machine,
    layout: Layout,
    weights: Weights,
    group: int,
    zero_point: int,
    bias: npt.NDArray[np.int32],
    scale: npt.NDArray[np.float32],
) -> tuple[ColumnTile, ...]:
    """Tiles of weights [kernel y, kernel x, channels / group, outputs], column tile by column tile.

    With groups, a tile covers the channels of all its outputs' groups, and weights of foreign
    groups are zero: it is block-diagonal, and the constants hold its blocks alone where they are
    narrower. So a column as wide as the array is never worse than narrower ones, which pass over
    the same rows at least as often.
    """
    outputs = weights.shape[3]
    columns: list[ColumnTile] = []
    for first, n in _aligned_chunks(0, outputs, machine.array.cols, machine):
        span = slice(first, first + n)
        params = pack_params(pool, bias[span], scale[span])
        tiles = _tiles_of_columns(pool, machine, layout, weights, group, zero_point, first, n)
        columns.append(ColumnTile(first, n, params, tuple(tiles)))
    return tuple(columns)


def _aligned_chunks(start: int, end: int, size: int, machine: Machine) -> list[tuple[int, int]]:
    """(first, count) of chunks at multiples of `size` that cover [start, end), within lines."""
    line = machine.unified_buffer.line_bytes
    chunks: list[tuple[int, int]] = []
    for block in range(start // line * line, end, line):
        for first in range(block, min(block + line, end), size):
            stop = min(first + size, block + line, end)
            if stop > start:
                chunks.append((first, stop - first))
    return chunks


def _tiles_of_columns(
    pool: ConstantPool,
    machine: Machine,
    layout: Layout,
    weights: Weights,
    group: int,
    zero_point: int,
    first: int,
    n: int,
) -> list[WeightTile]:
    chunks = [
        (channel, k, _packed(weights, group, zero_point, channel, k, first, n))
        for channel, k in _input_chunks(
            weights.shape[2], weights.shape[3], group, first, n, machine
        )
    ]
    tiles: list[WeightTile] = []
    for tap_y, tap_x in np.ndindex(weights.shape[:2]):
        for channel, k, packed in chunks:
            block, lane = divmod(channel, layout.line_bytes)
            tap = packed.rows[tap_y, tap_x]
            address, width = pool.add(tap.tobytes()), tap.shape[1]
            tiles.append(
                WeightTile(
                    *(address, k, n, width, tap_y, tap_x, block, lane, packed.real),
                    *packed.blocks,
                )
            )
    return tiles


def _input_chunks(
    per_group_in: int, outputs: int, group: int, first: int, n: int, machine: Machine
) -> list[tuple[int, int]]:
    """(first channel, rows) of the tiles that outputs [first, first + n) have for one tap.

    A chunk begins where a line divides into the array's rows, so the first one may begin with
    channels of other outputs' groups.
    """
    per_group_out = outputs // group
    low = first // per_group_out * per_group_in
    high = ((first + n - 1) // per_group_out + 1) * per_group_in
    return _aligned_chunks(low, high, machine.array.rows, machine)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A tile's rows [kernel y, kernel x, k, width] as memory holds them, its real weights at one
    tap, and its `block_rows`, `block_row` and `column`.
    """

    rows: Weights
    real: int
    blocks: tuple[int, int, int] = (0, 0, 0)


def _packed(
    weights: Weights, group: int, zero_point: int, channel: int, k: int, first: int, n: int
) -> _Packed:
    """The weights from input `channel` and output `first` on, k x n of them."""
    if group == 1:
        dense = weights[:, :, channel : channel + k, first : first + n]
        return _Packed(np.ascontiguousarray(dense), k * n)
    per_group_in, per_group_out = weights.shape[2], weights.shape[3] // group
    inputs, outputs = np.arange(channel, channel + k), np.arange(first, first + n)
    same = inputs[:, None] // per_group_in == outputs[None, :] // per_group_out
    real = int(same.sum())
    column = channel // per_group_in * per_group_out - first
    last = (channel + k - 1) // per_group_in * per_group_out - first
    fits = column >= -MOST_COLUMN and last <= MOST_COLUMN and per_group_in <= MOST_BLOCK_ROWS
    if per_group_out < n and fits:
        own = (inputs // per_group_in * per_group_out)[:, None]
        within = inputs[:, None] % per_group_in
        rows = weights[:, :, within, own + np.arange(per_group_out)]
        return _Packed(rows, real, (per_group_in, channel % per_group_in, column))
    tile = np.full((*weights.shape[:2], k, n), zero_point, weights.dtype)
    own_rows, cols = np.nonzero(same)
    tile[:, :, own_rows, cols] = weights[:, :, inputs[own_rows] % per_group_in, outputs[cols]]
    return _Packed(tile, real)


def pack_lines(pool: ConstantPool, layout: Layout, table: Weights) -> tuple[int, int]:
    """(address, lines) of a table [taps, channels] of bytes as lines, block after block."""
    taps = table.shape[0]
    lines = np.zeros((layout.blocks, taps, layout.line_bytes), np.uint8)
    for block in range(layout.blocks):
        width = layout.block_channels(block)
        start = block * layout.line_bytes
        lines[block, :, :width] = table[:, start : start + width].view(np.uint8)
    return pool.add(lines.tobytes()), layout.blocks * taps
