"""FPGAs by part number, from `data/parts.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from ridgeline.errors import RidgelineError, did_you_mean

ECP5, XC7 = "ecp5", "xc7"

SPEEDS = (6, 7, 8)
"""Speed grades of ECP5, the slowest first."""


@dataclass(frozen=True, slots=True)
class Part:
    """An FPGA: what it holds, with its source. Static power is in watts, None where unknown.

    `nextpnr` is the option that names it; empty for a part that is counted and not placed.
    `multipliers` are DSP blocks: 18 × 18 bits on ECP5, 25 × 18 on 7 series.
    """

    name: str
    family: str
    luts: int
    flip_flops: int
    multipliers: int
    block_rams: int
    block_ram_bits: int
    source: str
    nextpnr: str = ""
    static_watts: float | None = None
    static_source: str = ""
    speed: int | None = None

    @property
    def is_placed(self) -> bool:
        return bool(self.nextpnr)

    @property
    def full_name(self) -> str:
        """With the speed grade, where timing depends on it."""
        return self.name if self.speed is None else f"{self.name}-{self.speed}"

    def holds(self, resource: str) -> int:
        """How much of a resource of RESOURCES it has."""
        return int(getattr(self, resource))


@cache
def parts() -> dict[str, Part]:
    """Every known part by its name."""
    text = resources.files("ridgeline.rtl.fpga").joinpath("data/parts.toml").read_text("utf-8")
    found = {name: Part(name=name, **row) for name, row in tomllib.loads(text).items()}
    return {n: replace(p, speed=SPEEDS[0]) if p.is_placed else p for n, p in found.items()}


def part(name: str) -> Part:
    """A part by name, such as LFE5U-85F, LFE5U-85F-8 (speed grade 8) or XC7A100T, in any case.

    Raises RidgelineError for an unknown part.
    """
    known = parts()
    base, _, speed = name.upper().rpartition("-")
    if base in known and known[base].is_placed:
        if speed not in map(str, SPEEDS):
            raise RidgelineError(
                f"no speed grade {speed}",
                where=f"--part {name}",
                fix=f"Known: {', '.join(map(str, SPEEDS))}",
            )
        return replace(known[base], speed=int(speed))
    if name.upper() not in known:
        raise RidgelineError("no such part", where=f"--part {name}", fix=did_you_mean(name, known))
    return known[name.upper()]
