"""What-if: a workload on several chips in each of their precisions, for several batches, with
another peak or another memory's rate.

Tiles, waves and what stays on chip are worked out here, for each step of PEAKS; another rate of the
main memory, and the sum of all parts, are a formula that a page works out itself (`again`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ridgeline.chips.sheet import Chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.constants import fitted
from ridgeline.roofline.bound import Part
from ridgeline.roofline.estimate import parts_of
from ridgeline.roofline.roof import Roof, roof_of
from ridgeline.workload.layer import Workload

PEAKS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Times the sheet's dense peak."""
SHEET = PEAKS.index(1.0)
RESOURCES: tuple[str, ...] = ("launch", "compute", "vector", "near", "main", "link")
"""In the order of a row's seconds: starting, arithmetic, elementwise, the memory on the chip, main
memory, host link."""
UNUSED = "fp64"
"""No model is run in it."""


@dataclass(frozen=True, slots=True)
class Try:
    """One chip, precision and batch.

    `seconds` has of each layer those of RESOURCES, `compute` its arithmetic for each of PEAKS.
    `layers_bytes` are all operands once (None: unknown). `refused` says why there are none.
    """

    batch: int
    seconds: tuple[tuple[float, ...], ...] = ()
    compute: tuple[tuple[float, ...], ...] = ()
    layers_bytes: tuple[int | None, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """A chip in a precision, with its roofs and a Try for each batch."""

    roof: Roof
    tries: tuple[Try, ...]


def options_of(workloads: Sequence[Workload], chips: Sequence[Chip]) -> tuple[Option, ...]:
    """Every precision of every chip but fp64, with every workload (one for each batch)."""
    found: list[Option] = []
    for chip in chips:
        for precision in chip.precisions():
            if precision == UNUSED and len(chip.precisions()) > 1:
                continue
            roof = roof_of(chip, precision)
            found.append(Option(roof, tuple(_try(workload, roof) for workload in workloads)))
    return tuple(found)


def _try(workload: Workload, roof: Roof) -> Try:
    try:
        stored, parts = parts_of(workload, roof)
    except RidgelineError as error:
        return Try(workload.batch, refused=error.what)
    rows = [_row(one, roof) for one in parts]
    at = RESOURCES.index("compute")
    by_peak: list[list[float]] = []
    for times in PEAKS:
        changed = rows
        if times != 1.0:
            other = scaled_roof(roof, times)
            changed = [_row(one, other) for one in parts_of(workload, other)[1]]
        by_peak.append([row[at] for row in changed])
    return Try(
        *(workload.batch, tuple(rows), tuple(zip(*by_peak, strict=True))),
        tuple(layer.moved_bytes for layer in stored.layers),
    )


def _row(parts: Sequence[Part], roof: Roof) -> tuple[float, ...]:
    names = {"launch": "launch", "compute": "compute", "vector": "vector", "host link": "link"}
    seconds: dict[str, float] = dict.fromkeys(RESOURCES, 0.0)
    for part in parts:
        place = "main" if part.resource == roof.memory.name else "near"
        seconds[names.get(part.resource, place)] += part.seconds
    return tuple(seconds[name] for name in RESOURCES)


def scaled_roof(roof: Roof, peak_times: float = 1.0, bandwidth_times: float = 1.0) -> Roof:
    """The chip with another dense peak in its precision and another rate of its main memory.

    On a grid every processor multiplies faster; of arrays there are more.
    """
    dense = replace(roof.peak.dense, value=roof.peak.dense.value * peak_times)
    peak = replace(roof.peak, dense=dense, units=None, unchecked="a what-if")
    rate = roof.memory.bandwidth
    assert rate is not None
    faster = replace(rate, value=rate.value * bandwidth_times)
    memory = replace(roof.memory, bandwidth=faster)
    grid, array = roof.grid, roof.array
    if grid is not None:
        grid = replace(
            grid,
            peak_operations_per_s=grid.peak_operations_per_s * peak_times,
            memory_bytes_per_s=grid.memory_bytes_per_s * bandwidth_times,
        )
    if array is not None:
        array = replace(array, count=array.count * peak_times)
    on_chip = memory if roof.on_chip is roof.memory else roof.on_chip
    return replace(roof, peak=peak, memory=memory, on_chip=on_chip, grid=grid, array=array)


def again(one: Try, peak: int = SHEET, bandwidth_times: float = 1.0) -> list[float]:
    """Seconds of each layer with the peak of PEAKS[peak] and another rate of the main memory.

    The same formula is in the page's script: launch + (sum of the others ** p) ** (1 / p).
    """
    p = fitted().common.overlap
    found: list[float] = []
    for row, compute in zip(one.seconds, one.compute, strict=True):
        launch, _, vector, near, main, link = row
        rest = (compute[peak], vector, near, main / bandwidth_times, link)
        found.append(launch + sum(part**p for part in rest) ** (1 / p))
    return found
