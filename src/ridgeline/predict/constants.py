"""The fitted constants and how far off they are: `predict/data/gemm.toml`, with their source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ridgeline.predict.model import ClassConstants, FormatConstants

SIDES = ("launch", "compute", "memory")


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over predicted time: what 7.5 % lie below and 7.5 % above."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """The constants of one class of chips: `spreads` by format and side on chips measured."""

    source: str
    chips: tuple[str, ...]
    common: ClassConstants
    formats: dict[str, FormatConstants]
    spreads: dict[str, dict[str, Spread]]
    elsewhere: Spread
    """On a chip of the class that was left out of the fit."""


@cache
def fitted() -> Fitted:
    """The constants of NVIDIA's GPUs with tensor cores, the only class with measured products."""
    path = resources.files("ridgeline.predict") / "data" / "gemm.toml"
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    formats: dict[str, dict[str, Any]] = data["formats"]
    return Fitted(
        source=data["source"],
        chips=tuple(data["chips"]),
        common=ClassConstants(**data["class"]),
        formats={name: FormatConstants(**table["constants"]) for name, table in formats.items()},
        spreads={
            name: {side: Spread(*table["spread"][side]) for side in SIDES}
            for name, table in formats.items()
        },
        elsewhere=Spread(*data["elsewhere"]["spread"]),
    )
