"""What a chip offers in one precision: its roofs, and how much of each others have attained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import exp, inf
from statistics import median

from ridgeline.chips.loader import chip_names, load_chip
from ridgeline.chips.sheet import PRECISIONS, Chip, Memory, Peak
from ridgeline.chips.versus import BYTES
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.constants import Fitted, Spread, fitted
from ridgeline.predict.formats import FORMATS
from ridgeline.predict.gemm import hardware_of
from ridgeline.predict.model import FormatConstants, Hardware
from ridgeline.predict.systems import SOFTWARE, half_log_width, systems
from ridgeline.predict.whole_models import class_of
from ridgeline.roofline.bound import Basis

_SIDES = re.compile(r"(\d+)x(\d+)")
_ARRAYS = ("tpu", "npu", "user")
LARGEST_SIDE = 4096
COMPILED = "NVIDIA gpu, TensorRT"
"""Whose start of a layer is taken where only single products were measured."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bits of a stored weight and of a stored activation."""

    weight_bits: int
    activation_bits: int


@dataclass(frozen=True, slots=True)
class Array:
    """`count` arrays of `rows` (along k) × `cols` (along n), one step each cycle of the clock."""

    rows: int
    cols: int
    count: float
    clock_hz: float


@dataclass(frozen=True, slots=True)
class Fractions:
    """Attained of the dense peak and of the memory's rate, and seconds to start a kernel."""

    compute: float
    bandwidth: float
    launch_seconds: float


@dataclass(frozen=True, slots=True)
class Roof:
    """A chip in one precision.

    `grid` is there where products are modelled tile by tile, `array` where the sheet says its
    sides. `spreads` are measured over predicted time, by what limits a layer.
    """

    chip: Chip
    precision: str
    peak: Peak
    storage: Storage
    memory: Memory
    on_chip: Memory | None
    link_bytes_per_s: float | None
    vector_operations_per_s: float | None
    fractions: Fractions
    grid: Hardware | None
    array: Array | None
    basis: Basis
    spreads: dict[str, Spread]
    elsewhere: Spread

    @property
    def memory_bytes_per_s(self) -> float:
        assert self.memory.bandwidth is not None
        return self.memory.bandwidth.value

    @property
    def balance(self) -> float:
        """Operations for each byte of main memory at which both roofs take the same time."""
        return self.peak.dense.value / self.memory_bytes_per_s

    @property
    def near_bytes_per_s(self) -> float:
        """Of the memory on the chip: what its sheet says, or what processors of a grid load.

        It is infinite where neither is known.
        """
        if self.on_chip is not None and self.on_chip.bandwidth is not None:
            return self.on_chip.bandwidth.value
        if self.grid is not None:
            per_cycle = fitted().common.load_bytes_per_cycle
            return per_cycle * self.grid.clock_hz * self.grid.processors
        return inf

    def spread(self, limit: str) -> Spread:
        return self.spreads.get(limit, self.elsewhere)


def roof_of(chip: Chip, precision: str) -> Roof:
    """The roofs of a chip in a precision of `chips.PRECISIONS`, or int8_wo, int4_wo.

    Raises RidgelineError for a precision that there is not or that the chip lacks (naming those
    it has), and for a chip whose memory's rate no source states.
    """
    wanted = FORMATS.get(precision)
    peaks = wanted.peaks if wanted else (precision,)
    if wanted is None and precision not in PRECISIONS:
        raise RidgelineError(
            f"there is no precision '{precision}'",
            where="--precision",
            fix=did_you_mean(precision, (*PRECISIONS, *FORMATS)),
        )
    found = next((p for p in peaks if p in chip.precisions()), peaks[0])
    peak = chip.peak(found)
    memory = chip.main_memory
    if memory is None or memory.bandwidth is None:
        raise RidgelineError(
            f"{chip.name} has no roofline: no source states the rate of its memory",
            where="--chip",
            fix="Take another chip, or give your own figures: --peak int8=100T --bandwidth 300G",
        )
    on_chip = [m for m in chip.memories if m.level == "on-chip" and m.size is not None]
    grid = hardware_of(chip, peak.dense.value, memory.bandwidth.value)
    fractions, basis, spreads, elsewhere = _attained(chip, precision, grid)
    vector = chip.peak("fp32").dense.value if "fp32" in chip.precisions() else None
    return Roof(
        *(chip, precision, peak, storage_of(precision), memory),
        *(max(on_chip, key=_size, default=None), chip.host_bytes_per_s, vector),
        *(fractions, grid, _array(chip, peak), basis, spreads, elsewhere),
    )


def usual_precision(chip: Chip) -> str:
    """What inference is run in where nobody says: 16 bits, else 8, else what there is."""
    has = chip.precisions()
    for precision in ("fp16", "bf16", "int8", *has):
        if precision in has:
            return precision
    raise RidgelineError(
        f"{chip.name} has no roofline: no source states a peak of it",
        where="--chip",
        fix="Take another chip, or give your own figures: --peak int8=100T --bandwidth 300G",
    )


def _size(memory: Memory) -> float:
    return memory.size.value if memory.size is not None else 0.0


def storage_of(precision: str) -> Storage:
    """Four-bit precisions keep activations in 8 bits; weight-only formats in 16."""
    if precision in ("int8_wo", "int4_wo"):
        return Storage(4 if precision == "int4_wo" else 8, 16)
    bits = int(8 * BYTES[precision])
    return Storage(bits, max(bits, 8))


def _attained(
    chip: Chip, precision: str, grid: Hardware | None
) -> tuple[Fractions, Basis, dict[str, Spread], Spread]:
    if grid is not None:
        return _of_products(chip, precision, fitted())
    for software in (*SOFTWARE["sample"], *SOFTWARE["token"]):
        name = f"{class_of(chip)}, {software}"
        width = half_log_width(name) if name in systems() else None
        if width is not None:
            one = systems()[name]
            part = one.constants
            bandwidth = min(1.0, part.bandwidth_fraction)
            fractions = Fractions(part.compute_fraction, bandwidth, part.launch_seconds)
            basis: Basis = "this chip" if chip.name in one.chips else "its class"
            return fractions, basis, {}, Spread(exp(-width), exp(width))
    return _of_others()


def _of_products(
    chip: Chip, precision: str, fit: Fitted
) -> tuple[Fractions, Basis, dict[str, Spread], Spread]:
    """The class of chips whose single products were measured."""
    constants = format_constants(precision)
    found = fit.formats[constants]
    basis: Basis = "this chip" if chip.name in fit.chips else "its class"
    spreads = fit.spreads[constants]
    if basis == "its class":
        out = fit.elsewhere
        spreads = {
            side: Spread(min(s.low, out.low), max(s.high, out.high)) for side, s in spreads.items()
        }
    # Whole models say what starting a layer takes, for every format alike: single products in 8
    # bits were measured with what quantises their operands before each, those in 16 bits alone,
    # one after another, so that a change of format would seem to change the start.
    launch = systems()[COMPILED].constants.launch_seconds
    fractions = Fractions(found.compute_fraction, found.bandwidth_fraction, launch)
    return fractions, basis, spreads, fit.elsewhere


def format_constants(precision: str) -> str:
    """Whose fitted constants a precision takes: those of bf16 where it was not measured."""
    wanted = FORMATS.get(precision)
    return wanted.constants if wanted else "int8" if precision == "int4" else "bf16"


def grid_constants(precision: str) -> FormatConstants:
    return fitted().formats[format_constants(precision)]


def _of_others() -> tuple[Fractions, Basis, dict[str, Spread], Spread]:
    """Nobody measured such a chip: what chips of other classes attained, from least to most."""
    compute = sorted(
        min(1.0, best.operations.value / peak.dense.value)
        for chip in map(load_chip, chip_names())
        for peak in chip.peaks
        if (best := chip.best_achieved(peak.precision)) and best.operations.kind == "measured"
    )
    bandwidth = sorted(min(1.0, s.constants.bandwidth_fraction) for s in systems().values())
    likely = Fractions(median(compute), median(bandwidth), 0.0)
    slowest = max(likely.compute / compute[0], likely.bandwidth / bandwidth[0])
    return likely, "attained fractions", {}, Spread(max(likely.compute, likely.bandwidth), slowest)


def _array(chip: Chip, peak: Peak) -> Array | None:
    """The systolic array that the sheet describes, if its sides are there and the clock is."""
    # "4 x 128x128" are four arrays: the sides are those without spaces around the x.
    tight = _SIDES.search(chip.array)
    if tight is None or chip.clock is None or chip.chip_class not in _ARRAYS:
        return None
    rows, cols = int(tight[1]), int(tight[2])
    if not (1 < rows <= LARGEST_SIDE and 1 < cols <= LARGEST_SIDE):
        return None
    count = peak.dense.value / (2 * rows * cols * chip.clock.value)
    return Array(rows, cols, count, chip.clock.value) if count >= 0.2 else None
