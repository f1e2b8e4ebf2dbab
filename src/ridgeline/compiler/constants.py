"""What device memory starts with: weight tiles, parameters and tables, each packed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Layout
from ridgeline.compiler.plan import ColumnTile, WeightTile
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.state import GRANULE_BYTES

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
    most_outputs: int = 0,
) -> tuple[ColumnTile, ...]:
    """Tiles of weights [kernel y, kernel x, channels / group, outputs], column tile by column tile.

    A column has at most `most_outputs`, or as many as the array. With groups, a tile covers the
    channels of all its outputs' groups, and weights of foreign groups are the zero point: the tile
    is block-diagonal.
    """
    outputs = weights.shape[3]
    columns: list[ColumnTile] = []
    for first, n in _aligned_chunks(0, outputs, most_outputs or machine.array.cols, machine):
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
    per_group_in, outputs = weights.shape[2], weights.shape[3]
    per_group_out = outputs // group
    low = first // per_group_out * per_group_in
    high = ((first + n - 1) // per_group_out + 1) * per_group_in
    chunks = [
        (channel, k, *_tile(weights, group, zero_point, channel, k, first, n))
        for channel, k in _aligned_chunks(low, high, machine.array.rows, machine)
    ]
    tiles: list[WeightTile] = []
    for tap_y, tap_x in np.ndindex(weights.shape[:2]):
        for channel, k, packed, real in chunks:
            block, lane = divmod(channel, layout.line_bytes)
            address = pool.add(packed[tap_y, tap_x].tobytes())
            tiles.append(WeightTile(address, k, n, tap_y, tap_x, block, lane, real))
    return tiles


def _tile(
    weights: Weights, group: int, zero_point: int, channel: int, k: int, first: int, n: int
) -> tuple[Weights, int]:
    """([kernel y, kernel x, k, n] weights from input `channel` and output `first` on, how many of
    a tap's are real).
    """
    if group == 1:
        return np.ascontiguousarray(weights[:, :, channel : channel + k, first : first + n]), k * n
    per_group_in, per_group_out = weights.shape[2], weights.shape[3] // group
    tile = np.full((*weights.shape[:2], k, n), zero_point, weights.dtype)
    inputs, outputs = np.arange(channel, channel + k), np.arange(first, first + n)
    same = inputs[:, None] // per_group_in == outputs[None, :] // per_group_out
    rows, cols = np.nonzero(same)
    tile[:, :, rows, cols] = weights[:, :, inputs[rows] % per_group_in, outputs[cols]]
    return tile, int(same.sum())


def pack_lines(pool: ConstantPool, layout: Layout, table: Weights) -> tuple[int, int]:
    """(address, lines) of a table [taps, channels] of bytes as lines, block after block."""
    taps = table.shape[0]
    lines = np.zeros((layout.blocks, taps, layout.line_bytes), np.uint8)
    for block in range(layout.blocks):
        width = layout.block_channels(block)
        start = block * layout.line_bytes
        lines[block, :, :width] = table[:, start : start + width].view(np.uint8)
    return pool.add(lines.tobytes()), layout.blocks * taps
