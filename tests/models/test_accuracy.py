"""What INT8 loses against float on real tasks stays within the bars of docs/models.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import accuracy

from ridgeline.frontend.runtime import cpu_matches

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not cpu_matches(), reason="other integer results on this CPU"),
]


@pytest.mark.parametrize("name", accuracy.TASKS)
def test_bars(name: str) -> None:
    result = accuracy.measure(accuracy.TASKS[name]())
    missed = [found for found in result.measures if not found.met]
    assert not missed, missed
    assert result.values_compared > 0
