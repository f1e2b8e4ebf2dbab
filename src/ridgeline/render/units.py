"""Quantities for people: three significant figures and a prefix."""

from __future__ import annotations

_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_SMALL = (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))
_BINARY = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def quantity(value: float, unit: str) -> str:
    """`value` with a decimal prefix: 51.2 GOPS, 100 MHz, 17.1 GB/s."""
    for prefix, size in _LARGE:
        if abs(value) >= size:
            return f"{_three(value / size)} {prefix}{unit}"
    return f"{_three(value)} {unit}"


def seconds(value: float) -> str:
    """A time in the unit that suits it: 1.25 ms."""
    return small(value, "s")


def small(value: float, unit: str) -> str:
    """`value` with the prefix that suits it, from nano up: 3.2 mJ, 0.9 nW, 40 W."""
    if value == 0:
        return f"0 {unit}"
    for prefix, size in _SMALL:
        if value >= size:
            return f"{_three(value / size)} {prefix}{unit}"
    return f"{_three(value / 1e-9)} n{unit}"


def per_second(count: float) -> str:
    """So many a second, without a unit: whole from a thousand on, never with an exponent there."""
    return f"{count:,.0f}" if count >= 1000 else f"{count:.4g}"


def size(count_bytes: int) -> str:
    """Bytes with a binary prefix: 24 MiB."""
    for unit, scale in _BINARY:
        if count_bytes >= scale:
            return f"{_three(count_bytes / scale)} {unit}"
    return f"{count_bytes} B"


def percent(share: float, digits: int = 1) -> str:
    """A fraction of 1 in per cent; a small one keeps a digit that is not 0."""
    if 0 < 100 * share < 0.5 * 10**-digits:
        return f"{100 * share:.1g} %" if 100 * share >= 1e-4 else "under 0.0001 %"
    return f"{100 * share:.{digits}f} %"


def _three(value: float) -> str:
    """Three significant figures, without an exponent and without trailing zeros."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.2f}"
