"""What single instructions refuse."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeline.errors import RidgelineError
from ridgeline.machine.instructions import LoadParams, State
from ridgeline.machine.loader import load_machine


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, -1.0, -0.0])
def test_scales_that_the_lane_does_not_take(scale: float) -> None:
    state = State.blank(load_machine("tiny-8"), 64, 64)
    state.device[4:8] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
    with pytest.raises(RidgelineError, match="a scale that is negative or not finite"):
        LoadParams(count=1).apply(state)
