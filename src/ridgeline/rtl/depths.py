"""The pipelines stage by stage, whose sums are the constants of `machine.latencies`."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ridgeline.machine.latencies import LATENCIES, Latencies
from ridgeline.rtl import elementwise, multiply_add, requantize


@dataclass(frozen=True, slots=True)
class Stage:
    """Registers in a row, and what lies in front of them."""

    what: str
    cycles: int = 1


FEED = (Stage("unified-buffer read"), Stage("bank and sign"), Stage("zero point and mask"))
"""From a line's address to the operands at the array's edge."""

ACCUMULATE = (Stage("accumulator read"), Stage("addition"), Stage("write and count"))
"""From the array's sums to the count."""

REQUANTISE = (Stage("requantise lane", requantize.STAGES), Stage("write and count"))
"""From a sum to the count."""

OPERAND = (
    Stage("unified-buffer read"),
    Stage("bank"),
    Stage("turn to lane 0"),
    Stage("zero point"),
    Stage("product"),
)
"""From a line's address to operands, or their products, in the vector unit."""

DEPTHS: dict[str, tuple[Stage, ...]] = {
    "load": (Stage("response"), Stage("buffer write"), Stage("count")),
    "store": (Stage("unified-buffer read"), Stage("write queue"), Stage("write and count")),
    "weights": (Stage("response"), Stage("zero point and slot write"), Stage("count")),
    "weights_from_buffer": (
        Stage("unified-buffer read"),
        Stage("zero point and slot write"),
        Stage("count"),
    ),
    "array": FEED + ACCUMULATE,
    "vector": (Stage("accumulator read"), *REQUANTISE),
    "vector_from_buffer": (*OPERAND, Stage("sum"), *REQUANTISE),
    "vector_real": (
        *OPERAND,
        Stage("first multiply-add", elementwise.SECOND_PASS),
        Stage("second multiply-add", multiply_add.STAGES),
        Stage("where its point lies"),
        Stage("nearest integer and clamp", requantize.STAGES - requantize.REAL_STAGE),
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
