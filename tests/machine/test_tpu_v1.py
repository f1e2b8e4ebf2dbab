"""The smallest application of the TPU v1 paper, as benchmarks/tpu_v1.py builds it."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("tpu_v1", BENCHMARKS / "tpu_v1.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tpu_v1"] = module  # where dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def test_declared_cells_hold_but_one(benchmark: Any) -> None:
    """Of every application; docs/validation.md gives the reason of the one that is missed."""
    papers = tomllib.loads((BENCHMARKS / "data" / "tpu_v1.toml").read_text())
    missed: list[tuple[str, str]] = []
    for name, paper in papers.items():
        found = benchmark.measured(name)
        parts = ("active", "weight_stall", "weight_shift", "non_matrix")
        assert sum(found[cell] for cell in parts) == pytest.approx(100)
        missed += [
            (name, cell)
            for cell in paper["declared"]
            if benchmark.missed(cell, paper[cell], found[cell])
        ]
    assert missed == [("LSTM1", "weight_stall")]


def test_mlp1_beside_its_memory(benchmark: Any) -> None:
    """No faster than 5 million weights at 34 GB/s, and less than half slower."""
    paper = tomllib.loads((BENCHMARKS / "data" / "tpu_v1.toml").read_text())["MLP1"]
    most = 2 * paper["batch"] * 34e9 / 1e12
    assert 0.67 * most < benchmark.measured("MLP1")["tops"] < most


@pytest.mark.parametrize(
    ("cell", "paper", "here", "expected"),
    [
        ("tops", 10.0, 12.1, True),
        ("tops", 10.0, 8.1, False),
        ("active", 50.0, 58.1, True),
        ("active", 4.9, 60.0, False),
    ],
)
def test_what_counts_as_missed(
    benchmark: Any, cell: str, paper: float, here: float, expected: bool
) -> None:
    assert benchmark.missed(cell, paper, here) is expected
