"""The MAC formats at length: ten million bf16 vectors, and arrays of random shapes, in Verilator.

    python benchmarks/mac.py [--vectors 10000000] [--arrays 4]

Prints what differs from `ridgeline.numerics`: nothing may. Ends with 1 where something does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("RIDGELINE_CACHE", str(ROOT / "build" / "cosimulation"))

from mac_cases import (  # noqa: E402
    array_differences,
    bf16_pins,
    pins_of,
    random_tiles,
    steps_in_verilator,
)
from ridgeline.rtl.array import MacArray  # noqa: E402
from ridgeline.rtl.mac.formats import MAC_FORMATS  # noqa: E402
from ridgeline.rtl.streaming import Stream  # noqa: E402

MOST_AT_ONCE = 1_000_000


def kinds(pins: dict[str, np.ndarray], made: np.ndarray) -> dict[str, int]:
    """How many vectors are of which kind, so that it shows what was tried.

    A tie: the exact sum lies halfway between two float32, told in float64 (no operand or result
    near float32's ends, exponents close enough that float64 holds the sum).
    """
    present = pins["activation"] < 1 << 16
    with np.errstate(all="ignore"):
        a, b = (
            (pins[name].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            for name in ("activation", "weight")
        )
        total = pins["total"].view(np.float32).astype(np.float64)
        result = made.view(np.float32).astype(np.float64)
        product = np.where(present, a * b, 0.0)
        exact = total + product
        held = (exact - total == product) & (exact - product == total)
        ordinary = present & held & np.isfinite(result) & (np.abs(result) >= 2.0**-126)
        step = np.spacing(made.view(np.float32)).astype(np.float64)
        tie = ordinary & (np.abs(exact - result) == np.abs(step) / 2)
        cancels = ordinary & (np.abs(result) < np.abs(product) / 4)
        tiny = lambda x: (x != 0) & (np.abs(x) < 2.0**-126)  # noqa: E731
    return {
        "ties": int(tie.sum()),
        "lose two bits or more to cancellation": int(cancels.sum()),
        "cancel to 0": int((present & (exact == 0) & (product != 0)).sum()),
        "denormal operand": int((tiny(a) | tiny(b) | tiny(total)).sum()),
        "product or sum flushed": int((present & (tiny(product) | tiny(exact))).sum()),
        "infinite": int(np.isinf(result).sum()),
        "NaN": int(np.isnan(result).sum()),
        "+0": int((made == 0).sum()),
        "-0": int((made == 1 << 31).sum()),
    }


def vectors(count: int) -> int:
    """bf16 vectors that differ."""
    wrong, tried = 0, dict[str, int]()
    spent = 0.0
    for seed, start in enumerate(range(0, count, MOST_AT_ONCE)):
        pins, expected = bf16_pins(min(MOST_AT_ONCE, count - start), seed=100 + seed)
        begin = time.perf_counter()
        got = steps_in_verilator(MAC_FORMATS["bf16"], 16, pins)
        spent += time.perf_counter() - begin
        wrong += int((got != expected).sum())
        for name, found in kinds(pins, expected).items():
            tried[name] = tried.get(name, 0) + found
    print(f"bf16: {wrong} of {count:,} vectors differ; {spent:.1f} s in Verilator, build included")
    for name, found in tried.items():
        print(f"  {found:>10,} {name}")
    return wrong


def arrays(count: int, seed: int) -> int:
    """Sums of arrays of random shapes that differ."""
    rng = np.random.default_rng(seed)
    wrong = 0
    for number in range(count):
        rows, cols = (int(x) for x in rng.integers(4, 13, 2))
        for name, mac in MAC_FORMATS.items():
            tiles = random_tiles(mac, rows, cols, 300, seed + number)
            pins = pins_of(mac, rows, cols, tiles, seed)
            stream = Stream(MacArray(rows, cols, mac))
            words = {
                pin: as_words([*values, 0], stream.inputs[pin][1]) for pin, values in pins.items()
            }
            sums = stream.run(words)["sums"]
            made = [int.from_bytes(np.ascontiguousarray(one).tobytes(), "little") for one in sums]
            differ = array_differences(mac, rows, cols, tiles, made)
            total = sum(len(tile.activations) for tile in tiles) * cols
            print(
                f"{name} {rows} × {cols}: {differ} of {total:,} sums differ ({len(made):,} cycles)"
            )
            wrong += differ
    return wrong


def as_words(values: list[int], bits: int) -> np.ndarray:
    """Integers of any width as rows of 64-bit words."""
    size = 8 * -(-bits // 64)
    joined = b"".join(value.to_bytes(size, "little") for value in values)
    return np.frombuffer(joined, np.uint64).reshape(len(values), -1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=10_000_000)
    parser.add_argument("--arrays", type=int, default=4)
    chosen = parser.parse_args()
    return int(vectors(chosen.vectors) + arrays(chosen.arrays, seed=1) > 0)


if __name__ == "__main__":
    sys.exit(main())
