"""Operands that look for the faults of a multiply-add: for every test and benchmark of MACs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Vectors = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32]]


def bf16_vectors(count: int, seed: int) -> Vectors:
    """a, b (bfloat16) and total (float32), a third of each kind below, shuffled.

    Any bits at all; edges of the formats; and totals beside the product: every distance of
    exponents within reach, ties and their neighbours, cancellation to the last bits and to nothing.
    """
    rng = np.random.default_rng(seed)
    parts = [_any(rng, count), _edges(rng, count), _near(rng, count)]
    kind = rng.integers(0, len(parts), count)
    a, b, total = (np.choose(kind, list(column)) for column in zip(*parts, strict=True))
    return (
        a.astype(np.uint16).view(ml_dtypes.bfloat16),
        b.astype(np.uint16).view(ml_dtypes.bfloat16),
        total.astype(np.uint32).view(np.float32),
    )


_Three = tuple[Words, Words, Words]


def _any(rng: np.random.Generator, count: int) -> _Three:
    a, b = (rng.integers(0, 1 << 16, count, np.uint32) for _ in range(2))
    return a, b, rng.integers(0, 1 << 32, count, np.uint32)


def _pick(rng: np.random.Generator, count: int, bits: int) -> Words:
    """A sign, an exponent at an edge or anywhere, a fraction at an edge or anywhere."""
    top = (1 << bits) - 1
    exponents = rng.choice([0, 1, 2, 63, 64, 126, 127, 128, 190, 191, 253, 254, 255], count)
    fractions = rng.choice([0, 1, 2, top // 2, top // 2 + 1, top - 1, top], count)
    exponents = np.where(rng.random(count) < 0.2, rng.integers(0, 256, count), exponents)
    fractions = np.where(rng.random(count) < 0.2, rng.integers(0, top + 1, count), fractions)
    sign = rng.integers(0, 2, count)
    return (sign << (8 + bits) | exponents << bits | fractions).astype(np.uint32)


def _edges(rng: np.random.Generator, count: int) -> _Three:
    return _pick(rng, count, 7), _pick(rng, count, 7), _pick(rng, count, 23)


def _near(rng: np.random.Generator, count: int) -> _Three:
    """Totals whose exponent is near the product's, with few bits, or the product itself, negated,
    some last places beside it; a fifth of the products near 2^-126 or 2^128.
    """
    exponent_a = rng.integers(1, 255, count)
    wanted = np.where(
        rng.random(count) < 0.2,
        rng.choice([-128, -127, -126, -125, -103, -102, 125, 126, 127, 128], count),
        rng.integers(-124, 125, count),
    )
    exponent_b = np.clip(wanted + 254 - exponent_a, 1, 254)
    fractions = [
        np.where(
            rng.random(count) < 0.5, rng.integers(0, 128, count), rng.choice([0, 1, 64], count)
        )
        for _ in range(2)
    ]
    signs = [rng.integers(0, 2, count) << 15 for _ in range(3)]
    a = (signs[0] | exponent_a << 7 | fractions[0]).astype(np.uint32)
    b = (signs[1] | exponent_b << 7 | fractions[1]).astype(np.uint32)
    floats = [x.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32) for x in (a, b)]
    with np.errstate(all="ignore"):
        product = (floats[0] * floats[1]).view(np.uint32).astype(np.int64)
    beside = (product ^ (1 << 31)) + rng.integers(-3, 4, count)
    distance = np.where(rng.random(count) < 0.6, rng.integers(-30, 31, count), 0)
    exponent = np.clip((product >> 23 & 255) + distance, 0, 255)
    fraction = rng.integers(0, 1 << 23, count) & -(1 << rng.integers(0, 24, count))
    fraction |= rng.integers(0, 2, count)
    apart = signs[2] << 16 | exponent << 23 | fraction
    total = np.where(rng.random(count) < 0.3, beside, apart)
    return a, b, (total & 0xFFFFFFFF).astype(np.uint32)
