"""The classification card: common operations on a chip, and why each lies where it lies.

An operation is its multiply-accumulates (or vector operations) and the tensors that it moves once;
the side of the ridge and the reason follow from these counts and the sheet, for any chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgeline.chips.sheet import Chip
from ridgeline.chips.versus import BYTES
from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.predict.language import WEIGHTS, decode, language_model
from ridgeline.predict.work import rates_of

Side = Literal["memory", "compute"]
PRODUCT_PRECISIONS = tuple(BYTES)
EXAMPLE_MODEL = "llama-3-8b"


@dataclass(frozen=True, slots=True)
class Tensor:
    """What an operation moves once: its elements, and what one of them takes."""

    name: str
    elements: float


@dataclass(frozen=True, slots=True)
class Operation:
    """Operations are 2 x multiply-accumulates, or vector operations where nothing is multiplied."""

    family: str
    case: str
    operations: float
    tensors: tuple[Tensor, ...]
    multiplies: bool = True

    @property
    def elements(self) -> float:
        return sum(one.elements for one in self.tensors)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation lies on a chip. `ridge` is the balance point: peak over bandwidth.

    `attainable` is the part of the peak that the memory lets it reach.
    """

    operation: Operation
    intensity: float
    ridge: float
    side: Side
    attainable: float
    seconds: float
    reason: str


def operations() -> list[Operation]:
    """Those that networks are made of."""
    found = [_product(m, 4096, 4096) for m in (1, 8, 64, 512, 4096)]
    for batch in (1, 16):
        found.append(_convolution(batch, 28, 256, 256, 3))
    found.append(_depthwise(1, 28, 256, 3))
    found.append(_vector("normalisation", "512 x 4096", 512 * 4096, 8, 2 * 4096))
    found.append(_vector("elementwise", "add, 512 x 4096", 512 * 4096, 1, 512 * 4096))
    found.append(_vector("softmax", "32 x 1024 x 1024", 32 * 1024 * 1024, 5, 0))
    for tokens in (128, 1024, 8192):
        found.append(_attention(tokens, kept=True))
    found.append(_attention(1024, kept=False))
    return [*found, *(_token(batch) for batch in (1, 32))]


def _product(m: int, n: int, k: int) -> Operation:
    tensors = (Tensor("weights", k * n), Tensor("inputs", m * k), Tensor("outputs", m * n))
    return Operation("product", f"batch {m}, {k} x {n}", 2.0 * m * n * k, tensors)


def _convolution(batch: int, edge: int, inputs: int, outputs: int, window: int) -> Operation:
    places = batch * edge * edge
    weights = inputs * outputs * window * window
    tensors = (
        Tensor("weights", weights),
        Tensor("inputs", places * inputs),
        Tensor("outputs", places * outputs),
    )
    case = f"batch {batch}, {window} x {window}, {inputs} channels"
    return Operation("convolution", case, 2.0 * places * weights, tensors)


def _depthwise(batch: int, edge: int, channels: int, window: int) -> Operation:
    places = batch * edge * edge
    tensors = (
        Tensor("inputs", places * channels),
        Tensor("outputs", places * channels),
        Tensor("weights", channels * window * window),
    )
    case = f"{window} x {window}, {channels} channels"
    return Operation("depthwise", case, 2.0 * places * channels * window * window, tensors)


def _vector(family: str, case: str, elements: int, each: int, more: int) -> Operation:
    """`each` operations an element, an exponential counted as one; `more` elements are read."""
    tensors = (Tensor("inputs", elements + more), Tensor("outputs", elements))
    return Operation(family, case, float(elements * each), tensors, multiplies=False)


def _attention(tokens: int, kept: bool) -> Operation:
    """All heads of a layer, 32 of 128; `kept` scores never leave the chip."""
    heads, size = 32, 128
    rows = heads * tokens * size
    scores = heads * tokens * tokens
    tensors = [Tensor("queries, keys and values", 3 * rows), Tensor("outputs", rows)]
    if not kept:
        # Written by the product, read and written by softmax, read by the second product.
        tensors.insert(0, Tensor("scores", 4 * scores))
    case = f"{tokens} tokens, scores {'on chip' if kept else 'in memory'}"
    return Operation("attention", case, 4.0 * scores * size, tuple(tensors))


def _token(batch: int, context: int = 1024) -> Operation:
    """One token of each text of EXAMPLE_MODEL, everything kept in one format."""
    work = decode(language_model(EXAMPLE_MODEL), WEIGHTS["bf16"], batch, context)
    tensors = (
        Tensor("weights", work.weight_bytes / 2),
        Tensor("keys and values", work.cache_bytes / 2),
    )
    case = f"batch {batch}, {context} before"
    return Operation("token by token", case, work.operations, tensors)


def default_precision(chip: Chip) -> str:
    """16 bits where a chip has them, else what comes first on its sheet."""
    found = [p for p in ("bf16", "fp16", "int8") if p in chip.precisions()]
    if not found and not chip.peaks:
        chip.peak("bf16")  # raises: no source states a peak
    return found[0] if found else chip.peaks[0].precision


def card(chip: Chip, precision: str | None = None) -> list[Place]:
    """Every operation on this chip. Raises RidgelineError without a roofline or such a peak."""
    if precision is not None and precision not in PRODUCT_PRECISIONS:
        raise RidgelineError(
            f"there is no precision '{precision}'",
            where="--precision",
            fix=did_you_mean(precision, PRODUCT_PRECISIONS),
        )
    chosen = precision or default_precision(chip)
    peak = chip.peak(chosen).dense.value
    rates = rates_of(chip, (chosen,))
    return [
        place(one, peak, rates.memory_bytes_per_s, BYTES[chosen], rates.vector_operations_per_s)
        for one in operations()
    ]


def place(
    one: Operation,
    peak_operations_per_s: float,
    bytes_per_s: float,
    element_bytes: float,
    vector_operations_per_s: float | None = None,
) -> Place:
    """Where it lies, and the sentence that says why.

    What multiplies nothing runs at the fp32 peak, where the sheet has one.
    """
    peak = peak_operations_per_s
    if not one.multiplies and vector_operations_per_s is not None:
        peak = vector_operations_per_s
    moved = one.elements * element_bytes
    intensity, ridge = one.operations / moved, peak / bytes_per_s
    side: Side = "compute" if intensity >= ridge else "memory"
    seconds = max(one.operations / peak, moved / bytes_per_s)
    attainable = min(1.0, intensity / ridge)
    reason = _reason(one, side, intensity, ridge, element_bytes)
    return Place(one, intensity, ridge, side, attainable, seconds, reason)


def _reason(
    one: Operation, side: Side, intensity: float, ridge: float, element_bytes: float
) -> str:
    """The largest tensor, what each of its elements takes part in, and what the chip would need."""
    largest = max(one.tensors, key=lambda tensor: tensor.elements)
    share = largest.elements / one.elements
    uses, needed = one.operations / one.elements, ridge * element_bytes
    if side == "compute":
        times = intensity / ridge
        shown = f"{times:.1f}" if times < 10 else f"{times:,.0f}"
        return (
            f"an element moved serves {_count(uses)} operations, {shown} times what"
            " fills the arithmetic"
        )
    return (
        f"{largest.name} are {100 * share:.0f} % of what moves; an element serves {_count(uses)}"
        f" {'operation' if _count(uses) == '1' else 'operations'}, and {_count(needed)} would"
        " fill the arithmetic"
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
