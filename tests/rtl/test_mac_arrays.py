"""Arrays of every MAC format alone: tiles as close as they may follow, against the numerics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mac_cases import REFERENCES, Tile, placed, random_tiles, run_array
from ridgeline.rtl.mac.format import array_cycles
from ridgeline.rtl.mac.formats import MAC_FORMATS

NAMES = list(MAC_FORMATS)


@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (1, 3), (5, 2)])
@pytest.mark.parametrize("name", NAMES)
def test_tiles_follow_each_other(name: str, rows: int, cols: int) -> None:
    mac = MAC_FORMATS[name]
    tiles = random_tiles(mac, rows, cols, 12, seed=rows * 10 + cols)
    assert run_array(mac, rows, cols, tiles) == 0


@pytest.mark.parametrize("name", NAMES)
def test_weights_one_cycle_earlier_are_too_early(name: str) -> None:
    mac, rows, cols = MAC_FORMATS[name], 4, 2
    rng = np.random.default_rng(3)
    operands = REFERENCES[name].operands
    first = placed(mac, Tile(operands(rng, (1, rows)), operands(rng, (rows, cols))), None)
    first = replace(first, stream=first.stream + 2 * rows)  # so that only the wave is in the way
    second = placed(mac, Tile(operands(rng, (9, rows)), operands(rng, (rows, cols))), first)
    assert run_array(mac, rows, cols, [first, second]) == 0
    early = replace(second, shift=second.shift - 1)
    assert run_array(mac, rows, cols, [first, early]) > 0


def test_times_of_an_array() -> None:
    """rows × the addition, and what comes before the first one and beside the first column."""
    times = {name: array_cycles(mac, 16, 16) for name, mac in MAC_FORMATS.items()}
    assert times == {"int8": 32, "fp8_e4m3fn": 16 + 2 + 15, "bf16": 5 * 16 + 2 + 15}
