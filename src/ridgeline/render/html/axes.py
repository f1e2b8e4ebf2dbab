"""Axes of a roofline: both logarithmic, x in per cent of the width and y in pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10


@dataclass(frozen=True, slots=True)
class Axes:
    """Logarithms to base 10 of what the axes show, `height` pixels of it, and where a figure is."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    height: int

    def x(self, intensity: float) -> float:
        """Per cent from the left."""
        return 100 * (log10(intensity) - self.x_low) / (self.x_high - self.x_low)

    def y(self, per_s: float) -> float:
        """Pixels from the top."""
        return self.height * (self.y_high - log10(per_s)) / (self.y_high - self.y_low)
