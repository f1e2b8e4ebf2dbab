"""One multiplication in place of a multiplication and a division, where both give the same bits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ridgeline.numerics.quantize import stored_integers
from ridgeline.numerics.requantize import requantize

STEPS = 64
"""How many float32 below and above the quotient are tried."""


@lru_cache(maxsize=4096)
def one_scale(
    source: float,
    target: float,
    source_range: tuple[int, int],
    zeros: tuple[int, int],
    bounds: tuple[int, int],
) -> float | None:
    """A float32 scale with which a multiplication alone rescales every stored integer, if one does.

    round(float32(float32((x - zero) * source) / target)) is to be
    round(float32((x - zero) * scale)) for all x of `source_range` = (lowest, highest), after the
    target's zero point and within `bounds`. `zeros`: source and target. The nearest to
    source / target that does; None when the two roundings of the first form round ties in ways that
    no single one has.
    """
    real = np.arange(source_range[0], source_range[1] + 1, dtype=np.int64) - zeros[0]
    with np.errstate(over="ignore", under="ignore"):
        value = real.astype(np.float32) * np.float32(source)
        nearest = np.float32(np.float32(source) / np.float32(target))
    wanted = stored_integers(value, np.asarray(target, np.float32), zeros[1], *bounds)
    if not np.isfinite(nearest):
        return None
    steps = np.arange(1, STEPS + 1)
    middle = int(nearest.view(np.int32))
    tried = np.concatenate([[middle], np.stack([middle + steps, middle - steps], 1).reshape(-1)])
    candidates = tried[(tried >= 0) & (tried < 0x7F800000)].astype(np.int32).view(np.float32)
    for scale in candidates:
        if np.array_equal(requantize(real, scale, zeros[1], *bounds), wanted):
            return float(scale)
    return None
