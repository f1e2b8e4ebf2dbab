from __future__ import annotations

import os
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "build" / "cosimulation"


@pytest.fixture(scope="session", autouse=True)
def _models_stay_in_the_project() -> None:
    os.environ.setdefault("RIDGELINE_CACHE", str(BUILT))
