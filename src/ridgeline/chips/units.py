"""The keys of a sheet's figures, each with its unit and scale, and what no chip can have."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.errors import RidgelineError

LARGEST = 1e30
"""Above it no figure of a chip makes sense; whole numbers in TOML have no end."""
OPERATIONS = {"operations_per_s": ("operations/s", 1.0)}
_SCALES = {
    "kb": 1e3,
    "kib": 2.0**10,
    "mb": 1e6,
    "mib": 2.0**20,
    "gb": 1e9,
    "gib": 2.0**30,
    "tb": 1e12,
    "tib": 2.0**40,
}
_DECIMAL = (1.0, 1e3, 1e6, 1e9, 1e12)
SIZES = {"size_bytes": ("bytes", 1.0)} | {
    f"size_{unit}": ("bytes", scale) for unit, scale in _SCALES.items()
}
BANDWIDTHS = {"bandwidth_bytes_per_s": ("bytes/s", 1.0)} | {
    f"bandwidth_{unit}_per_s": ("bytes/s", scale) for unit, scale in _SCALES.items()
}
HERTZ = {"hz": ("Hz", 1.0)}
WATTS = {"watts": ("W", 1.0)}
COUNT = {"count": ("", 1.0)}
MACS = {"macs_per_cycle": ("MACs/cycle", 1.0), "macs": ("MACs", 1.0)}
LIMITS = {
    "operations/s": (1e6, 1e20),
    "bytes": (1e3, 1e16),
    "bytes/s": (1e3, 1e18),
    "Hz": (1e5, 1e11),
    "W": (1e-4, 1e6),
}
"""Far around what the catalogue has: outside, a prefix was counted twice or left out."""


def check_size(value: float, key: str, units: Mapping[str, tuple[str, float]], where: str) -> None:
    """Raise RidgelineError for a slip of the unit, naming keys under which it would be right."""
    unit, scale = units[key]
    low, high = LIMITS.get(unit, (0.0, LARGEST))
    if low <= value * scale <= high:
        return
    side = "more" if value * scale > high else "less"
    right = [
        other
        for other, (same, by) in units.items()
        if same == unit and low <= value * by <= high and float(by) in _DECIMAL
    ]
    if right:
        fix = f"Is it {' or '.join(right[:3])}?"
    else:
        fix = f"Give {unit} from {low:g} to {high:g}, such as 2040e6 for 2,040 million"
    raise RidgelineError(
        f"{value:g} is {value * scale:.3g} {unit}, {side} than any chip has", where=where, fix=fix
    )
