"""A machine's figures for people: each with its value and where it comes from."""

from __future__ import annotations

from typing import Any, cast

from ridgeline.machine.description import Machine
from ridgeline.machine.loader import machine_to_dict


def figures(machine: Machine) -> list[tuple[str, str, str]]:
    """(dotted key, value, source) of every field but name and description."""
    data = machine_to_dict(machine)
    sources = data.pop("sources")
    return [
        (key, _value(value), sources.get(key, "no source given"))
        for key, value in _flat(data)
        if key not in ("name", "description")
    ]


def _flat(data: dict[str, Any]) -> list[tuple[str, Any]]:
    """Dotted keys, as `sources` and --set have them; a table of rates stays one value."""
    found: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            found += [(f"{key}.{name}", inner) for name, inner in table.items()]
        else:
            found.append((key, value))
    return found


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.6g}"
    if isinstance(value, dict):
        rates = cast("dict[str, float]", value)
        return ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
    if isinstance(value, list):
        return ", ".join(cast("list[str]", value))
    return f"{value:,}" if isinstance(value, int) else str(value)
