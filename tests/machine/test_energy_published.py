"""Energy and power within a factor of 2 of published figures: the benchmark's quick cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("energy")


@pytest.mark.parametrize("name", ["tpu_v1", "eyeriss"])
def test_within_a_factor_of_two(benchmark: Any, name: str) -> None:
    cells = list(getattr(benchmark, name)())
    assert cells
    for cell in cells:
        assert cell.holds, cell.row()


def test_a_cell_can_fail(benchmark: Any) -> None:
    assert benchmark.Cell("m", "power", "W", 10, 20).holds
    assert not benchmark.Cell("m", "power", "W", 10, 20.1).holds
    assert not benchmark.Cell("m", "power", "W", 10, 4.9).holds


def test_the_tiles_of_alexnet_are_its_multiplications(benchmark: Any) -> None:
    """666 million an image (Chen et al. 2017)."""
    assert sum(layer.macs for layer in benchmark.ALEXNET) == pytest.approx(666e6, rel=2e-3)
