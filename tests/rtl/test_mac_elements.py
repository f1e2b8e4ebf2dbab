"""The arithmetic of every MAC format against the numerics, and broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mac_cases import (
    REFERENCES,
    bf16_pins,
    fp8_words,
    steps_in_amaranth,
    steps_in_verilator,
)
from ridgeline.numerics.fp8 import EXACT_TERMS, fp8_matmul_exact, fp8_products
from ridgeline.numerics.rounding import wrap
from ridgeline.rtl.mac import float32
from ridgeline.rtl.mac.formats import MAC_FORMATS
from ridgeline.rtl.mac.fp8 import Fp8

BF16, FP8, INT8 = (MAC_FORMATS[name] for name in ("bf16", "fp8_e4m3fn", "int8"))
FP8_BITS = FP8.accumulator_bits

Pins = dict[str, npt.NDArray[Any]]


def test_the_accumulator_is_as_wide_as_the_longest_sum() -> None:
    assert FP8.sum_bits(EXACT_TERMS) == FP8_BITS == 53
    assert FP8.sum_bits(16) == 42


def test_int8() -> None:
    rng = np.random.default_rng(1)
    a, b = (REFERENCES["int8"].operands(rng, (5000,)) for _ in range(2))
    rows, bits = 16, INT8.sum_bits(16)
    total = rng.integers(-(15 << 16), 15 << 16, len(a))
    signed = [np.where(x > 255, x - 512, x) for x in (a, b)]
    expected = (total + signed[0] * signed[1]) & ((1 << bits) - 1)
    pins = {"activation": a, "weight": b, "total": total & ((1 << bits) - 1)}
    pins["restart"] = np.ones(len(a), np.int64)
    got = steps_in_amaranth(INT8, rows, {name: x.tolist() for name, x in pins.items()})
    np.testing.assert_array_equal(got, expected)


def fp8_steps(pins: Pins, units: npt.NDArray[np.int64], nan: npt.NDArray[np.bool_]) -> int:
    """How many results of Verilator differ from these sums."""
    got = steps_in_verilator(FP8, EXACT_TERMS, pins).astype(np.int64)
    expected, meaning = fp8_words(units, nan, FP8_BITS)
    return int(((got ^ expected) & meaning != 0).sum())


def test_fp8_every_product_of_two() -> None:
    """65,536 pairs, alone and added to sums of every size; as many with nothing to multiply."""
    rng = np.random.default_rng(2)
    pair = np.tile(np.arange(1 << 16), 3)
    a, b = pair >> 8, pair & 255
    absent = np.repeat([False, False, True], 1 << 16)
    size = np.int64(1) << rng.integers(0, 52, pair.size)
    total = np.where(np.arange(pair.size) < 1 << 16, 0, rng.integers(-size, size))
    was_nan = (rng.random(pair.size) < 0.1) & (np.arange(pair.size) >= 1 << 16)
    product = fp8_products(a.astype(np.uint8), b.astype(np.uint8))
    units = wrap(total + np.where(absent, 0, product.units), FP8_BITS - 1)
    words, _ = fp8_words(total, np.zeros_like(was_nan), FP8_BITS)
    pins = {
        "activation": a | np.where(absent, FP8.nothing, 0),
        "weight": b,
        "total": words | was_nan.astype(np.int64) << (FP8_BITS - 1),
        "restart": np.ones(pair.size, np.uint8),
    }
    assert fp8_steps(pins, units, was_nan | (product.nan & ~absent)) == 0


def test_fp8_long_sums() -> None:
    """2^15 products in a row, as large as they can be and at random: every partial sum."""
    rng = np.random.default_rng(3)
    k = EXACT_TERMS
    codes = rng.integers(0, 256, (6, 2, k))
    codes = np.where((codes & 127) == 127, 0, codes)
    codes[0], codes[1, 0], codes[1, 1] = 126, 126, 254
    codes[2, 0, 20_000] = 127  # from here on NaN
    a, b = codes[:, 0].ravel(), codes[:, 1].ravel()
    products = fp8_products(a.astype(np.uint8), b.astype(np.uint8))
    units = wrap(np.cumsum(products.units.reshape(6, k), axis=1), FP8_BITS - 1)
    nan = np.logical_or.accumulate(products.nan.reshape(6, k), axis=1)
    ends = fp8_matmul_exact(codes[3:4, 0].astype(np.uint8), codes[3:4, 1].T.astype(np.uint8))
    assert ends.units[0, 0] == units[3, -1]
    assert abs(units).max() > 1 << 50
    restart = np.tile(np.arange(k) == 0, 6).astype(np.uint8)
    pins = {"activation": a, "weight": b, "total": np.zeros(6 * k, np.int64), "restart": restart}
    assert fp8_steps(pins, units.ravel(), nan.ravel()) == 0


def test_bf16_a_million_vectors() -> None:
    pins, expected = bf16_pins(1_000_000, seed=4)
    got = steps_in_verilator(BF16, 16, pins)
    wrong = np.flatnonzero(got != expected)
    assert wrong.size == 0, {name: hex(int(x[wrong[0]])) for name, x in pins.items()}


def ties_away(guard: Any, rest: Any, odd: Any) -> Any:
    return guard


def nothing_lower(lost: Any) -> Any:
    return lost & ~lost


def one_exponent_kept(exponent: Any) -> Any:
    return exponent < 0


def denormals_count(word: Any) -> Any:
    from amaranth.hdl import Cat

    return Cat(word[:23], word[23:31].any())


def forgets_nan(self: Fp8, nan: Any) -> Any:
    return nan & ~nan


Mutation = tuple[Any, str, Callable[..., Any]]

BF16_MUTATIONS: dict[str, Mutation] = {
    "ties away from zero": (float32, "round_up", ties_away),
    "no sticky bit": (float32, "sticky", nothing_lower),
    "small results kept": (float32, "flushes", one_exponent_kept),
    "small operands kept": (float32, "flushed", denormals_count),
}


def bf16_differences() -> int:
    pins, expected = bf16_pins(2000, seed=5)
    got = steps_in_amaranth(BF16, 4, {name: x.tolist() for name, x in pins.items()})
    return int((np.asarray(got) != expected).sum())


@pytest.mark.parametrize("name", BF16_MUTATIONS)  # whole, it is right a million times above
def test_broken_bf16_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BF16_MUTATIONS[name])
    assert bf16_differences() > 0


def fp8_differences() -> int:
    rng = np.random.default_rng(6)
    a, b = (REFERENCES["fp8_e4m3fn"].operands(rng, (500,)) for _ in range(2))
    products = fp8_products(a.astype(np.uint8), b.astype(np.uint8))
    restart = np.arange(500) % 25 == 0
    pins = {"activation": a, "weight": b, "total": np.zeros(500, int), "restart": restart + 0}
    got = steps_in_amaranth(FP8, 32, {name: x.tolist() for name, x in pins.items()})
    units = np.cumsum(products.units.reshape(20, 25), axis=1).ravel()
    nan = np.logical_or.accumulate(products.nan.reshape(20, 25), axis=1).ravel()
    assert nan.any()
    assert not nan.all()
    expected, meaning = fp8_words(units, nan, FP8.sum_bits(32))
    return int(((np.asarray(got) ^ expected) & meaning != 0).sum())


def test_fp8_that_forgets_nan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fp8_differences() == 0
    monkeypatch.setattr(Fp8, "sticky", forgets_nan)
    assert fp8_differences() > 0
