"""How long something takes, whatever else the computer does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def measured(work: Callable[..., T], *given: Any) -> tuple[float, T]:
    """(processor seconds of this process, result)."""
    start = time.process_time()
    result = work(*given)
    return time.process_time() - start, result
