"""Golden vectors made by ONNX Runtime: they hold on a CPU where a live comparison cannot run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from numeric_cases import golden_cases
from single_node import meaning

FILE = Path(__file__).parents[1] / "golden" / "numerics" / "onnxruntime-1.32.npz"
CASES = dict(golden_cases())


@pytest.fixture(scope="module")
def golden_arrays() -> dict[str, np.ndarray]:
    with np.load(FILE) as file:
        return dict(file)


def test_golden_file_is_small():
    assert FILE.stat().st_size < 300_000


@pytest.mark.parametrize("name", CASES)
def test_bits_equal_golden(name, golden_arrays):
    node = CASES[name]
    stored = [golden_arrays[f"{name}/{v.name}"] if v.data is None else v.data for v in node.inputs]
    np.testing.assert_array_equal(meaning(node, stored), golden_arrays[f"{name}/output"])
