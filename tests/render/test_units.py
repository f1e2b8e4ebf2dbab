"""Figures as people read them."""

from __future__ import annotations

import pytest

from ridgeline.render.units import per_second


@pytest.mark.parametrize(
    ("count", "text"),
    [(31836.4, "31,836"), (1e7, "10,000,000"), (999.96, "1000"), (12.345, "12.35"), (0.0, "0")],
)
def test_so_many_a_second_has_no_exponent(count: float, text: str) -> None:
    assert per_second(count) == text
