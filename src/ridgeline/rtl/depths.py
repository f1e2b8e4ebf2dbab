"""The pipelines stage by stage, whose sums are the constants of `machine.latencies`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ridgeline.machine.latencies import LATENCIES, Latencies
from ridgeline.rtl import requantize


@dataclass(frozen=True, slots=True)
class Stage:
    """Registers in a row, and what lies in front of them."""

    what: str
    cycles: int = 1


FEED = (Stage("unified-buffer read"), Stage("bank and sign"), Stage("zero point and mask"))
"""From a line's address to the operands at the array's edge."""

ACCUMULATE = (Stage("accumulator read"), Stage("addition"), Stage("write and count"))
"""From the array's sums to the count."""

DEPTHS: dict[str, tuple[Stage, ...]] = {
    "load": (Stage("response"), Stage("buffer write"), Stage("count")),
    "store": (Stage("unified-buffer read"), Stage("write queue"), Stage("write and count")),
    "weights": (Stage("response"), Stage("zero point and slot write"), Stage("count")),
    "array": FEED + ACCUMULATE,
    "vector": (
        Stage("accumulator read"),
        Stage("requantise lane", requantize.STAGES),
        Stage("write and count"),
    ),
}
"""For each latency that hardware has, its stages. Load and weights come after the memory's latency,
the array's own rows + cols between its feed and its accumulators."""


def depth(stages: tuple[Stage, ...]) -> int:
    """Cycles of stages in a row."""
    return sum(stage.cycles for stage in stages)


def spare(name: str) -> int:
    """Cycles by which the latency `name` is longer than its stages: registers that do nothing."""
    left: int = getattr(LATENCIES, name) - depth(DEPTHS[name])
    if left < 0:
        raise ValueError(f"LATENCIES.{name} is {-left} cycles shorter than the hardware's pipeline")
    return left


def table() -> str:
    """The stages of every latency as a Markdown table."""
    lines = ["| latency | cycles | stages |", "|---|---|---|"]
    for field in fields(Latencies):
        cycles = getattr(LATENCIES, field.name)
        if field.name not in DEPTHS:
            lines.append(f"| `{field.name}` | {cycles} | no hardware |")
            continue
        names = [
            stage.what if stage.cycles == 1 else f"{stage.what} ({stage.cycles})"
            for stage in DEPTHS[field.name]
        ]
        extra = [f"spare ({spare(field.name)})"] if spare(field.name) else []
        lines.append(f"| `{field.name}` | {cycles} | {', '.join(names + extra)} |")
    return "\n".join(lines) + "\n"
