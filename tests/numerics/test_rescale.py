"""One scale in place of two: the same integers for every stored value, or none is given."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.numerics.quantize import stored_integers
from ridgeline.numerics.requantize import requantize
from ridgeline.numerics.rescale import one_scale

INT8, UINT8 = (-128, 127), (0, 255)


def both_ways(
    source: np.float32, target: np.float32, zeros: tuple[int, int], bounds: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Stored integers by two steps; by one, where there is a scale for it."""
    real = np.arange(bounds[0], bounds[1] + 1) - zeros[0]
    value = real.astype(np.float32) * source
    wanted = stored_integers(value, np.asarray(target), zeros[1], *bounds)
    scale = one_scale(float(source), float(target), bounds, zeros, bounds)
    if scale is None:
        return wanted, None
    return wanted, requantize(real, scale, zeros[1], *bounds)


@pytest.mark.parametrize("bounds", [INT8, UINT8])
def test_random_scales_have_one(bounds: tuple[int, int]) -> None:
    rng = np.random.default_rng(bounds[1])
    for _ in range(400):
        source = np.float32((rng.random() + 0.5) * 2.0 ** rng.integers(-9, 2))
        target = np.float32(source * 2.0 ** rng.uniform(-3, 3))
        zero, other = (int(v) for v in rng.integers(bounds[0], bounds[1] + 1, 2))
        wanted, made = both_ways(source, target, (zero, other), bounds)
        assert made is not None
        np.testing.assert_array_equal(made, wanted)


def test_ties_that_round_both_ways_have_none() -> None:
    """Half the scale: some products round to a tie, some beside it."""
    rng = np.random.default_rng(1)
    missing = 0
    for _ in range(200):
        source = np.float32(rng.random() + 0.5)
        wanted, made = both_ways(source, np.float32(source * 2), (0, 0), INT8)
        if made is None:
            missing += 1
            ties = np.arange(-128, 128) % 2 == 1
            even = np.rint(np.arange(-128, 128) / 2)
            assert (wanted != even)[ties].any()
            assert (wanted == even)[~ties].all()
        else:
            np.testing.assert_array_equal(made, wanted)
    assert missing > 100


def test_quotients_beyond_float32_have_none() -> None:
    assert one_scale(3e38, 1e-38, INT8, (0, 0), INT8) is None
