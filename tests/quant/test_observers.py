from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.quant.observers import LeastError, MinMax, Observer, Percentile, create_observer
from ridgeline.quant.recipe import Recipe


def _seen(observer: Observer, *batches: list[float]) -> tuple[float, float]:
    for batch in batches:
        observer.observe(np.array(batch, np.float32))
    return observer.range()


def test_min_max() -> None:
    assert _seen(MinMax(), [1, 2], [-3, 0.5]) == (-3, 2)


@pytest.mark.parametrize("observer", [MinMax(), Percentile(99)])
def test_nothing_seen_is_zero(observer: Observer) -> None:
    assert observer.range() == (0, 0)
    assert _seen(observer, []) == (0, 0)


def test_all_zeros() -> None:
    assert _seen(Percentile(99), [0, 0, 0]) == (0, 0)


def test_the_whole_is_min_max() -> None:
    assert _seen(Percentile(100), [1, 2], [-3, 0.5], [70, 1]) == (-3, 70)


def test_outliers_are_cut_on_both_sides() -> None:
    generator = np.random.default_rng(0)
    values = generator.standard_normal(1_000_000).astype(np.float32)
    observer = Percentile(99)
    for part in np.split(values, 10):
        observer.observe(part)
    observer.observe(np.array([1000, -500], np.float32))
    low, high = observer.range()
    exact_low, exact_high = np.percentile(values, [0.5, 99.5])
    bin_width = 2 * 1000 / 4096
    assert exact_high <= high <= exact_high + bin_width
    assert exact_low - bin_width <= low <= exact_low


def test_one_sided_values_keep_their_side() -> None:
    values = np.linspace(0, 10, 100_001).astype(np.float32)
    observer = Percentile(98)
    observer.observe(values)
    low, high = observer.range()
    assert low == 0
    assert high == pytest.approx(9.9, abs=0.01)


@given(st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1), min_size=1))
def test_never_wider_than_min_max(batches: list[list[float]]) -> None:
    low, high = _seen(Percentile(90), *batches)
    least, most = _seen(MinMax(), *batches)
    assert least <= low or low == 0
    assert high <= most or high == 0


def test_batches_do_not_matter() -> None:
    generator = np.random.default_rng(0)
    values = generator.standard_normal(4096).astype(np.float32) * 3
    values[0] = np.abs(values).max() * 1.5  # the reach is the same from the first batch on
    parts, whole = Percentile(99), Percentile(99)
    whole.observe(values)
    for part in np.split(values, 8):
        parts.observe(part)
    assert parts.range() == whole.range()


def test_the_recipe_chooses() -> None:
    assert isinstance(create_observer(Recipe()), MinMax)
    assert isinstance(create_observer(Recipe(observer="percentile")), Percentile)
    assert isinstance(create_observer(Recipe(observer="error")), LeastError)


def test_least_error_is_the_least_of_a_brute_force_search() -> None:
    """Normal values and one far out: real rounding and saturation to 8 bits of all of them."""
    values = np.append(np.random.default_rng(1).normal(0, 1, 200_000), -11.0)
    low, high = _seen(LeastError(255), values)

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        stored = np.clip(np.rint((values - low) / step), 0, 255)
        return float(np.square(stored * step + low - values).sum())

    shares = np.linspace(0.1, 1, 19)
    least = min(error(values.min() * a, values.max() * b) for a in shares for b in shares)
    assert error(low, high) <= 1.02 * least
    assert error(low, high) < 0.8 * error(values.min(), values.max())


def test_least_error_keeps_all_of_what_has_no_outliers() -> None:
    values = np.linspace(-3, 5, 10001)
    low, high = _seen(LeastError(255), values)
    assert (low, high) == pytest.approx((-3, 5), rel=0.05)
    assert _seen(LeastError(255), np.zeros(8)) == (0.0, 0.0)
    low, high = _seen(LeastError(255), np.linspace(0, 1, 1000))
    assert low == 0
