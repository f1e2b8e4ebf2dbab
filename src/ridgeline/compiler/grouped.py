"""How wide the block-diagonal tiles of a grouped convolution are on the array.

A tile of n output channels holds the weights of their groups and zeros for all else, and the zeros
come from device memory like weights: n times as many bytes as a depthwise layer has. Wide tiles
make few passes, narrow ones little to load. A slot is filled again when the product of its tile has
left the array, which counts where tiles are short.
"""

from __future__ import annotations

from ridgeline.machine.dataflow import Pass, shift_lead_cycles
from ridgeline.machine.description import Machine
from ridgeline.machine.latencies import LATENCIES

MOST_PARTS = 32
"""Widths tried: the array's columns, and equal parts of them down to this one."""
LOAD_WEIGHT = 0.25
"""What a cycle of the device-memory port counts: other layers leave it idle for most of the time,
and weights may come ahead (`ahead`). Best of 0.15, 0.3, 0.5 and 0.8 for two networks on TPU v1.
"""


def tile_outputs(machine: Machine, outputs: int, inputs: int, group: int, taps: int, m: int) -> int:
    """Output channels of one tile at most.

    For `outputs` and `inputs` channels in `group` groups, `taps` of a window and m output rows.
    """
    cols = machine.array.cols
    if group == 1 or machine.array.dataflow != "weight-stationary":
        return cols
    widths = sorted({-(-cols // part) for part in range(1, MOST_PARTS + 1)}, reverse=True)
    costs = {n: _cycles(machine, n, outputs, inputs, group, taps, m) for n in widths}
    return min(widths, key=lambda n: costs[n])


def _cycles(
    machine: Machine, n: int, outputs: int, inputs: int, group: int, taps: int, m: int
) -> float:
    """Of tiles of n outputs: of array, slots or vector unit, and in part of the memory's port."""
    per_group_in, per_group_out = inputs // group, outputs // group
    groups = -(-n // per_group_out)
    depth = min(groups * per_group_in, inputs)
    rows = min(depth, machine.array.rows)
    columns = -(-outputs // n)
    tiles = columns * taps * -(-depth // rows)
    lead = shift_lead_cycles(machine.array, Pass(rows, m)) + 1
    shift = rows / machine.array.weight_rows_per_cycle
    array = machine.array
    away = array.rows + array.cols + LATENCIES.array
    turn = (rows + lead + m + away) / array.weight_slots
    load = n * rows * machine.clock_hz / machine.device_memory.bytes_per_s
    lanes = -(-n // machine.vector.lanes)
    work = max(tiles * max(m, lead, shift, turn), columns * m * lanes)
    return work + LOAD_WEIGHT * tiles * load
