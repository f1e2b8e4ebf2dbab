"""The time of a product: by a second, slower way, by laws, and as an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline import predict_gemm
from ridgeline.chips.custom import custom_chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.constants import fitted
from ridgeline.predict.formats import FORMATS
from ridgeline.predict.gemm import predict_gemms
from ridgeline.predict.model import (
    ClassConstants,
    FormatConstants,
    Hardware,
    Storage,
    times,
)

SIZE = st.integers(1, 70_000)
CHIPS = st.sampled_from(["a100-sxm4-80gb", "h100-sxm5", "l4", "t4", "rtx-4090"])


def _slowly(
    chip: Hardware, kept: Storage, all_of: ClassConstants, one: FormatConstants, shape: list[int]
) -> float:
    """The same by a loop over tilings, in scalar arithmetic."""
    m, n, k = shape
    best = math.inf
    for rows in (16, 32, 64, 128, 256):
        for cols in (32, 64, 128, 256):
            for parts in (1, 2, 4, 8, 16):
                alone = m <= one.vector_rows
                if rows * cols > 32768 or (parts > one.most_parts and not alone):
                    continue
                depth = 32 * -(-k // (parts * 32))
                waves = -(-(-(-m // rows) * -(-n // cols) * parts) // chip.processors)
                rate = one.compute_fraction * chip.peak_operations_per_s / chip.processors
                slower = 1 + all_of.tile_edge_elements * (rows + cols) / (rows * cols)
                multiply = 2.0 * rows * cols * depth * slower / rate
                row_bytes = min(rows, m) * kept.activation_bytes
                loaded = (row_bytes + min(cols, n) * kept.weight_bytes) * depth
                load = loaded / all_of.load_bytes_per_cycle / chip.clock_hz
                loop = 0.0 if alone else one.loop_cycles * depth / chip.clock_hz
                compute = waves * max(multiply, load, loop)
                moved = m * k * kept.activation_bytes + k * n * kept.weight_bytes
                moved += m * n * kept.output_bytes
                if parts > 1:
                    compute += all_of.split_seconds
                    moved += 4.0 * m * n * parts
                memory = moved / (one.bandwidth_fraction * chip.memory_bytes_per_s)
                p = all_of.overlap
                best = min(best, (compute**p + memory**p) ** (1 / p))
    return one.launch_seconds + best


@given(st.lists(SIZE, min_size=3, max_size=3), st.sampled_from(sorted(FORMATS)))
def test_columns_are_the_loop(shape: list[int], name: str) -> None:
    chip = Hardware(312e12, 108, 1.41e9, 2.039e12)
    fit, of = fitted(), FORMATS[name]
    arguments = (chip, of.storage, fit.common, fit.formats[of.constants])
    made = times(*arguments, np.array([shape], np.int64))
    assert made.seconds[0] == pytest.approx(_slowly(*arguments, shape), rel=1e-9)


@given(CHIPS, SIZE, SIZE, SIZE)
def test_no_product_beats_the_roofline_and_more_work_never_takes_less(
    chip: str, m: int, n: int, k: int
) -> None:
    shapes = [(m, n, k), (m + 1, n, k), (m, n + 64, k), (m, n, k + 64)]
    assume(
        2 * ((m + 1) * (k + 64) + (k + 64) * (n + 64) + (m + 1) * (n + 64)) < 16e9
    )  # T4's memory
    first, *more = predict_gemms(chip, "fp16", shapes)
    assert first.seconds is not None
    assert first.high_seconds is not None
    assert first.roofline_seconds <= first.seconds
    assert first.low_seconds < first.seconds < first.high_seconds
    assert first.useful is not None
    assert 0 < first.useful <= 1
    for one in more:
        assert one.seconds is not None
        assert one.seconds >= first.seconds


def test_a_wave_more_takes_a_step_of_time() -> None:
    # 132 processors: tiles of 128 x 256 fill one wave at m = 128, n = 132 x 256.
    full = predict_gemm("h100-sxm5", "bf16", 128 * 12, 256 * 11, 16384)
    over = predict_gemm("h100-sxm5", "bf16", 128 * 12, 256 * 11 + 8, 16384)
    assert full.waves == 1
    assert full.tile == (128, 256, 1)
    assert full.useful == pytest.approx(1.0)
    assert full.seconds is not None
    assert over.seconds is not None
    assert over.useful is not None
    assert over.useful < 0.95
    assert over.seconds > 1.05 * full.seconds


def test_a_narrow_product_without_parts_walks_along_k() -> None:
    """Measured on the A100 in int8 with n = 128: 2.15 ns for each element of k, from 8 rows on."""
    short, long = (predict_gemm("a100-sxm4-80gb", "int8", 64, 128, k) for k in (8192, 65536))
    assert short.seconds is not None
    assert long.seconds is not None
    walked = (long.seconds - short.seconds) / (65536 - 8192)
    assert walked == pytest.approx(2.15e-9, rel=0.05)
    few = predict_gemm("a100-sxm4-80gb", "int8", 4, 128, 65536).seconds
    assert few is not None
    assert few < 0.3 * long.seconds


def test_what_limits() -> None:
    assert predict_gemm("h100-sxm5", "bf16", 1, 32, 32).side == "launch"
    assert predict_gemm("h100-sxm5", "bf16", 1, 16384, 16384).side == "memory"
    assert predict_gemm("h100-sxm5", "bf16", 8192, 8192, 8192).side == "compute"


def test_weights_in_the_cache_are_not_charged_to_memory() -> None:
    small = ("l40s", "fp8", 16, 4096, 4096)  # 16.8 MB of weights in 96 MB
    cold, warm = predict_gemm(*small), predict_gemm(*small, weights="cache")
    assert cold.seconds is not None
    assert warm.seconds is not None
    assert warm.seconds < 0.8 * cold.seconds
    large = ("l40s", "fp8", 16, 16384, 16384)  # 268 MB
    assert predict_gemm(*large) == predict_gemm(*large, weights="cache")


def test_intervals_are_wider_where_no_product_was_measured() -> None:
    here = predict_gemm("h100-sxm5", "bf16", 512, 4096, 4096)
    near = predict_gemm("h200-sxm", "bf16", 512, 4096, 4096)
    far = predict_gemm("mi300x", "bf16", 512, 4096, 4096)
    assert (here.basis, near.basis, far.basis) == ("this chip", "its class", "roofline only")
    assert near.high_seconds is not None
    assert near.seconds is not None
    assert here.high_seconds is not None
    assert here.seconds is not None
    assert near.high_seconds / near.seconds > here.high_seconds / here.seconds
    assert far.seconds is None
    assert far.high_seconds is None
    assert far.low_seconds == far.roofline_seconds
    # 2 x 512 x 4096 x 4096 operations at 1307.4 T, or 42 MB at 5.3 TB/s
    assert far.low_seconds == pytest.approx(max(17.18e9 / 1307.4e12, 41.94e6 / 5.3e12), rel=1e-3)


@pytest.mark.parametrize(
    ("chip", "precision", "shape", "said"),
    [
        (
            "a100-sxm4-80gb",
            "fp8",
            (1, 1, 1),
            "--precision: a100-sxm4-80gb has no peak in 'fp8'."
            " It has: fp64, fp32, tf32, bf16, fp16, int8, int4",
        ),
        (
            "t4",
            "int4wo",
            (1, 1, 1),
            "--precision: there is no format 'int4wo' for products. Did you mean 'int4_wo' or",
        ),
        (
            "hailo-8",
            "int8",
            (1, 1, 1),
            "--chip: hailo-8 has no roofline: no source states the rate of its memory."
            " Take another chip, or a TOML file with your own figure",
        ),
        (
            "t4",
            "fp16",
            (100_000, 100_000, 100_000),
            "shape: 100000 × 100000 × 100000 needs 60 GB, and t4 has 16 GB of GDDR6."
            " Split the product, or take a chip with more memory",
        ),
        ("t4", "fp16", (0, 1, 1), "shape: m is 0. Give a whole number from 1 to 2147483647"),
    ],
)
def test_what_cannot_be_predicted_says_why(
    chip: str, precision: str, shape: tuple[int, int, int], said: str
) -> None:
    with pytest.raises(RidgelineError) as error:
        predict_gemm(chip, precision, *shape)
    assert str(error.value).startswith(said)


def test_the_users_own_figures_give_the_least_time() -> None:
    one = predict_gemm(custom_chip(["int8=100T"], "100G"), "int8", 1, 1000, 1000)
    assert one.low_seconds == pytest.approx(1_003_000 / 1e11)
    assert one.basis == "roofline only"
