"""The classification card for people: one line an operation, its reason below."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.chips.sheet import Chip
from ridgeline.predict.card import EXAMPLE_MODEL, Place
from ridgeline.render.plain import wrapped
from ridgeline.render.table import aligned
from ridgeline.render.units import percent, quantity, seconds


def card(chip: Chip, precision: str, places: Sequence[Place], width: int) -> str:
    """The chip's ridge, then each operation with side and reason."""
    peak = chip.peak(precision).dense.value
    memory = chip.main_memory
    assert memory is not None
    assert memory.bandwidth is not None
    rate = memory.bandwidth.value
    lines = wrapped(
        f"{chip.title}, {precision}: {quantity(peak, 'OPS')} over {memory.name} at"
        f" {quantity(rate, 'B/s')} is {peak / rate:,.1f} op/byte, the ridge",
        width,
        "  ",
    )
    rows = [("operation", "", "op/byte", "peak", "least", "side")]
    for one in places:
        rows.append(
            (
                *(one.operation.family, one.operation.case, _intensity(one.intensity)),
                *(percent(one.attainable, 0), seconds(one.seconds), one.side),
            )
        )
    body = aligned(rows, (0, 1, 5))
    lines += ["", body[0]]
    for line, one in zip(body[1:], places, strict=True):
        lines += [line, *("    " + part for part in wrapped(one.reason, width - 4))]
    return "\n".join([*lines, "", *_foot(places, peak / rate, width)])


def _foot(places: Sequence[Place], ridge: float, width: int) -> list[str]:
    text = (
        "Operations are 2 x multiply-accumulates; every tensor moves once; least is the"
        " time by the roofline, peak the part of it"
        f" that the memory allows. Token by token is {EXAMPLE_MODEL}."
    )
    other = {one.ridge for one in places if not one.operation.multiplies and one.ridge != ridge}
    if other:
        text += (
            " What multiplies nothing runs on the fp32 units, whose ridge is at"
            f" {max(other):,.1f} op/byte."
        )
    return wrapped(text, width)


def _intensity(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
