"""`predict_gemm`: the time of a product of matrices on a chip, as an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
import numpy.typing as npt

from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip, Memory
from ridgeline.errors import RidgelineError
from ridgeline.predict import formats
from ridgeline.predict.constants import Fitted, Spread, fitted
from ridgeline.predict.model import CANDIDATES, Floats, Hardware, Storage, Times, times

Basis = Literal["this chip", "its class", "roofline only"]
"""What was measured: products on this chip, on others of its class, or none."""
Weights = Literal["memory", "cache"]
Shapes = npt.NDArray[np.int64]
"""[products, 3]: m, n, k."""
LARGEST = 2**31 - 1
_AT_ONCE = 4096
"""Products whose tilings are weighed at once, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of [m, k] × [k, n]: 85 of 100 lie between `low_seconds` and `high_seconds`.

    With basis "roofline only", `low_seconds` is the least time, and the others are None: unknown.
    `side` is what most of the time goes to. `tile` is (rows, columns, parts of k), `useful` the
    part of the multiplications of all waves that are the product's. None where there is no model.
    """

    m: int
    n: int
    k: int
    low_seconds: float
    seconds: float | None
    high_seconds: float | None
    roofline_seconds: float
    side: str
    basis: Basis
    tile: tuple[int, int, int] | None = None
    waves: int | None = None
    useful: float | None = None

    @property
    def operations(self) -> int:
        """2 × multiply-accumulates."""
        return 2 * self.m * self.n * self.k


def predict_gemm(
    chip: Chip | str, precision: str, m: int, n: int, k: int, *, weights: Weights = "memory"
) -> Prediction:
    """The time of a product with m × n results over k, on a chip or the chip called so.

    `precision` is bf16, fp16, fp8, int8 (SmoothQuant), int8_wo or int4_wo (weights only). Weights
    come from main memory, or, with "cache" and where they fit, from the last level on the chip: of
    a product that runs again and again. Raises RidgelineError for a chip without a roofline or such
    a peak, and for operands that its memory does not hold.
    """
    return predict_gemms(chip, precision, [(m, n, k)], weights=weights)[0]


def predict_gemms(
    chip: Chip | str,
    precision: str,
    shapes: Sequence[tuple[int, int, int]],
    *,
    weights: Weights = "memory",
) -> list[Prediction]:
    """As `predict_gemm`, for many (m, n, k) of one chip and precision."""
    sheet = load_chip(chip) if isinstance(chip, str) else chip
    wanted = formats.find(precision)
    for shape in shapes:
        _check_shape(shape, wanted.storage, sheet)
    peak_operations_per_s = formats.peak_of(sheet, wanted).dense.value
    bandwidth = bandwidth_of(sheet)
    hardware = hardware_of(sheet, peak_operations_per_s, bandwidth)
    found: list[Prediction] = []
    for start in range(0, len(shapes), _AT_ONCE):
        chunk = np.array(shapes[start : start + _AT_ONCE], np.int64).reshape(-1, 3)
        rooflines = _rooflines(chunk, wanted.storage, peak_operations_per_s, bandwidth)
        if hardware is None:
            found += _least_times(chunk, rooflines)
            continue
        fit = fitted()
        cached = _cached(chunk, wanted.storage, sheet) if weights == "cache" else None
        common, constants = fit.common, fit.formats[wanted.constants]
        made = times(hardware, wanted.storage, common, constants, chunk, cached)
        found += _predictions(sheet, wanted.constants, chunk, rooflines.max(axis=1), made, fit)
    return found


def hardware_of(chip: Chip, peak_operations_per_s: float, bandwidth: float) -> Hardware | None:
    """What the model needs, for a chip of the class that was measured; None for others."""
    if chip.vendor != "NVIDIA" or chip.chip_class != "gpu":
        return None
    if chip.processors is None or chip.clock is None:
        return None
    processors = int(chip.processors.value)
    return Hardware(peak_operations_per_s, processors, chip.clock.value, bandwidth)


def bandwidth_of(chip: Chip) -> float:
    memory = chip.main_memory
    if memory is None or memory.bandwidth is None:
        raise RidgelineError(
            f"{chip.name} has no roofline: no source states the rate of its memory",
            where="--chip",
            fix="Take another chip, or a TOML file with your own figure",
        )
    return memory.bandwidth.value


def _check_shape(shape: tuple[int, int, int], storage: Storage, chip: Chip) -> None:
    m, n, k = shape
    for name, value in zip("mnk", shape, strict=True):
        if not 1 <= value <= LARGEST:
            raise RidgelineError(
                f"{name} is {value}", where="shape", fix=f"Give a whole number from 1 to {LARGEST}"
            )
    memory = chip.main_memory
    if memory is None or memory.size is None:
        return
    needed = m * k * storage.activation_bytes + k * n * storage.weight_bytes
    needed += m * n * storage.output_bytes
    if needed > _capacity_bytes(memory):
        raise RidgelineError(
            f"{m} × {n} × {k} needs {needed / 1e9:,.4g} GB, and {chip.name} has"
            f" {memory.size.value / 1e9:,.4g} GB of {memory.name}",
            where="shape",
            fix="Split the product, or take a chip with more memory",
        )


def _capacity_bytes(memory: Memory) -> float:
    return memory.size.value if memory.size is not None else inf


def _rooflines(
    shapes: Shapes,
    storage: Storage,
    peak_operations_per_s: float,
    bytes_per_s: float,
) -> Floats:
    """Least seconds of arithmetic and of memory [products, 2]; the larger is the roofline's."""
    m, n, k = shapes.astype(np.float64).T
    moved = m * k * storage.activation_bytes + k * n * storage.weight_bytes
    moved += m * n * storage.output_bytes
    return np.stack([2 * m * n * k / peak_operations_per_s, moved / bytes_per_s], axis=1)


def _least_times(
    shapes: Shapes,
    rooflines: Floats,
) -> list[Prediction]:
    found: list[Prediction] = []
    for (m, n, k), (compute, memory) in zip(shapes.tolist(), rooflines.tolist(), strict=True):
        least, side = max(compute, memory), "compute" if compute > memory else "memory"
        found.append(Prediction(m, n, k, least, None, None, least, side, "roofline only"))
    return found


def _cached(shapes: Shapes, storage: Storage, chip: Chip) -> npt.NDArray[np.bool_]:
    """Whether weights fit into the largest on-chip memory."""
    sizes = [m.size.value for m in chip.memories if m.level == "on-chip" and m.size is not None]
    weights = shapes[:, 1].astype(np.float64) * shapes[:, 2] * storage.weight_bytes
    return weights <= max(sizes, default=0.0)


def _predictions(
    chip: Chip,
    constants: str,
    shapes: Shapes,
    rooflines: Floats,
    made: Times,
    fit: Fitted,
) -> list[Prediction]:
    basis: Basis = "this chip" if chip.name in fit.chips else "its class"
    found: list[Prediction] = []
    for i, (m, n, k) in enumerate(shapes.tolist()):
        side = side_of(made, i)
        inside = fit.spreads[constants][side]
        spread = inside if basis == "this chip" else _wider(inside, fit.elsewhere)
        seconds = float(made.seconds[i])
        rows, cols, parts = CANDIDATES[made.candidate[i]].tolist()
        found.append(
            Prediction(
                *(m, n, k, seconds * spread.low, seconds, seconds * spread.high),
                *(float(rooflines[i]), side, basis, (rows, cols, parts)),
                *(int(made.waves[i]), float(made.useful[i])),
            )
        )
    return found


def _wider(one: Spread, other: Spread) -> Spread:
    return Spread(min(one.low, other.low), max(one.high, other.high))


def side_of(made: Times, i: int) -> str:
    """What most of the time of product i goes to: the launch, multiplying, or memory."""
    parts = {
        "launch": made.launch_seconds,
        "compute": float(made.compute_seconds[i]),
        "memory": float(made.memory_seconds[i]),
    }
    return max(parts, key=lambda side: parts[side])
