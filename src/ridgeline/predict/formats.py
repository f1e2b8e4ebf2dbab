"""Number formats of products: which peak they use, what they store, whose constants they take."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.chips.sheet import Chip, Peak
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.model import Storage


@dataclass(frozen=True, slots=True)
class Format:
    """`peaks`: precisions of a sheet that it can multiply in, the first that a chip has."""

    name: str
    peaks: tuple[str, ...]
    storage: Storage
    constants: str
    meaning: str


_ROWS = (
    Format("bf16", ("bf16",), Storage(2, 2), "bf16", "bf16 activations and weights"),
    Format("fp16", ("fp16",), Storage(2, 2), "bf16", "fp16 activations and weights"),
    Format("fp8", ("fp8",), Storage(1, 1), "fp8", "fp8 activations and weights"),
    Format("int8", ("int8",), Storage(1, 1), "int8", "int8 activations and weights (SmoothQuant)"),
    Format(
        "int8_wo", ("bf16", "fp16"), Storage(2, 1), "int8_wo", "int8 weights, multiplied in bf16"
    ),
    Format(
        "int4_wo", ("bf16", "fp16"), Storage(2, 0.5), "int4_wo", "int4 weights, multiplied in bf16"
    ),
)
FORMATS = {row.name: row for row in _ROWS}
"""Results are stored in two bytes in all of them."""


def find(name: str) -> Format:
    """The format called so. Raises RidgelineError with the near ones."""
    if name not in FORMATS:
        raise RidgelineError(
            f"there is no format '{name}' for products",
            where="--precision",
            fix=did_you_mean(name, FORMATS),
        )
    return FORMATS[name]


def peak_of(chip: Chip, of: Format) -> Peak:
    """The peak that this format is multiplied at. Raises RidgelineError if the chip has none."""
    for precision in of.peaks:
        if precision in chip.precisions():
            return chip.peak(precision)
    return chip.peak(of.peaks[0])
