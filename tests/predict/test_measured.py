"""Predictions beside measured products: on a sample that is kept here, and on all 15,000."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.predict.constants import fitted

ROOT = Path(__file__).parents[2]
FORMATS = ["bf16", "fp8", "int8", "int8_wo", "int4_wo"]


@pytest.fixture(scope="module")
def gemm() -> Any:
    spec = importlib.util.spec_from_file_location("benchmark_gemm", ROOT / "benchmarks" / "gemm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the types of their fields
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample(gemm: Any) -> Any:
    return gemm.read(ROOT / "benchmarks" / "data" / "gemm_measured.csv")


def _check_errors(gemm: Any, data: Any) -> None:
    fit = fitted()
    for form in FORMATS:
        found = [
            gemm.errors(form, one, (fit.common, fit.formats[form]))
            for (_, f), one in data.items()
            if f == form
        ]
        errors = np.concatenate(found)
        assert np.median(errors) <= 0.12, form
        assert errors.mean() <= 0.18, form


def _check_left_out(gemm: Any, data: Any, step: int) -> None:
    ratios = gemm.left_out(data, step)
    assert {form for _, form in ratios} == set(FORMATS)
    for (chip, form), ratio in ratios.items():
        assert np.median(np.abs(1 / ratio - 1)) <= 0.20, (chip, form)


def _covered(gemm: Any, data: Any) -> dict[str, float]:
    """Part of the products of each format whose time lies in the interval."""
    fit = fitted()
    inside: dict[str, list[bool]] = {}
    for (_, form), one in data.items():
        made = gemm.predicted(form, one, (fit.common, fit.formats[form]))
        for i, seconds in enumerate(one.seconds):
            spread = fit.spreads[form][gemm.side_of(made, i)]
            ratio = seconds / made.seconds[i]
            inside.setdefault(form, []).append(bool(spread.low <= ratio <= spread.high))
    return {form: sum(found) / len(found) for form, found in inside.items()}


def test_errors_on_the_sample(gemm: Any, sample: Any) -> None:
    _check_errors(gemm, sample)


def test_a_chip_left_out_is_predicted_by_the_other_on_the_sample(gemm: Any, sample: Any) -> None:
    _check_left_out(gemm, sample, 1)


def test_the_check_fails_with_one_constant_wrong(gemm: Any, sample: Any) -> None:
    fit = fitted()
    one = sample["h100-sxm5", "bf16"]
    wrong = gemm.FormatConstants(2.9e-6, 0.98, 0.4)
    assert np.median(gemm.errors("bf16", one, (fit.common, wrong))) > 0.12


@pytest.mark.peer
def test_errors_and_coverage_on_all_products(gemm: Any, reference: Path) -> None:
    data = gemm.read(reference / "data" / "gemm_measured.csv")
    _check_errors(gemm, data)
    assert all(0.80 <= part <= 0.95 for part in _covered(gemm, data).values())


@pytest.mark.peer
def test_half_of_an_interval_is_a_quarter_of_the_time(gemm: Any, reference: Path) -> None:
    data = gemm.read(reference / "data" / "gemm_measured.csv")
    fit, halves = fitted(), dict[str, list[float]]()
    for (_, form), one in data.items():
        made = gemm.predicted(form, one, (fit.common, fit.formats[form]))
        for i in range(len(one.seconds)):
            spread = fit.spreads[form][gemm.side_of(made, i)]
            halves.setdefault(form, []).append((spread.high - spread.low) / 2)
    for form, found in halves.items():
        assert np.median(found) <= (0.27 if form == "int8_wo" else 0.255), form


@pytest.mark.peer
def test_a_chip_left_out_is_predicted_by_the_other(gemm: Any, reference: Path) -> None:
    _check_left_out(gemm, gemm.read(reference / "data" / "gemm_measured.csv"), 4)


@pytest.mark.peer
def test_constants_and_intervals_hold_on_products_not_fitted(gemm: Any, reference: Path) -> None:
    data = gemm.read(reference / "data" / "gemm_measured.csv")
    order = {key: np.random.default_rng(0).permutation(len(d.seconds)) for key, d in data.items()}

    def part(key: Any, rows: Any) -> Any:
        one = data[key]
        return gemm.Measured(one.hardware, one.shapes[rows], one.seconds[rows])

    half = {key: part(key, rows[: len(rows) // 2]) for key, rows in order.items()}
    rest = {key: part(key, rows[len(rows) // 2 :]) for key, rows in order.items()}
    fits = gemm.fit_all(half, 2)
    spreads = gemm.spreads(half, fits)
    for (chip, form), one in rest.items():
        made = gemm.predicted(form, one, fits[form])
        ends = np.array([spreads[form][gemm.side_of(made, i)] for i in range(len(one.seconds))])
        ratio = one.seconds / made.seconds
        covered = np.mean((ends[:, 0] <= ratio) & (ratio <= ends[:, 1]))
        assert 0.80 <= covered <= 0.95, (chip, form)
        assert np.median(np.abs(1 / ratio - 1)) <= 0.12, (chip, form)
