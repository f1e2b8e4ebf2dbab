"""A workload on a chip: each layer's arithmetic beside what each memory must move for it."""

from __future__ import annotations

from functools import reduce
from math import isinf

from ridgeline.chips.loader import load_chip
from ridgeline.chips.sheet import Chip
from ridgeline.errors import RidgelineError
from ridgeline.predict.constants import fitted
from ridgeline.roofline.bound import NOTHING, Bound, Interval, LayerTime, Part
from ridgeline.roofline.cause import FULL, cause_of, scaled
from ridgeline.roofline.occupancy import Occupied, occupied
from ridgeline.roofline.residence import Residence, passing_bytes, resident
from ridgeline.roofline.roof import Roof, roof_of
from ridgeline.workload.layer import Layer, Product, Workload

CURES = tuple(1 << power for power in range(1, 13))
"""Batches that are tried, in multiples of the one asked for."""


def bound_of(workload: Workload, chip: Chip | str, precision: str) -> Bound:
    """The time of a workload on a chip, or the chip called so, in a precision of its sheet.

    Weights are as after a run before: those that fit on the chip are there. Raises RidgelineError
    for a chip without a roofline or such a peak, and for a model that its memory does not hold.
    """
    sheet = load_chip(chip) if isinstance(chip, str) else chip
    roof = roof_of(sheet, precision)
    stored, timing = _prepared(workload, roof)
    kept = timing.kept
    layers = tuple(timing.time(layer) for layer in stored.layers)
    seconds = reduce(Interval.__add__, (one.seconds for one in layers), NOTHING)
    return Bound(
        *(
            stored,
            sheet,
            precision,
            roof.peak.dense.value,
            layers,
            seconds,
            roof.basis,
            kept.weights and stored.parameter_bytes > 0,
        ),
        (*workload.notes, *_remarks(stored, roof, kept)),
    )


def parts_of(workload: Workload, roof: Roof) -> tuple[Workload, list[list[Part]]]:
    """The workload as stored on the chip, and what each resource takes for each of its layers.

    Raises RidgelineError for a model that the chip's memory does not hold.
    """
    stored, timing = _prepared(workload, roof)
    return stored, [timing.parts(layer) for layer in stored.layers]


def _prepared(workload: Workload, roof: Roof) -> tuple[Workload, _Timing]:
    stored = workload.stored_as(roof.storage.weight_bits, roof.storage.activation_bits)
    _check_room(stored, roof)
    return stored, _Timing(roof, stored)


def _needed_bytes(workload: Workload, times: int = 1) -> int:
    """Of main memory, at a batch so many times as large: all weights, and one layer's operands."""
    live = max(map(passing_bytes, workload.layers), default=0)
    return workload.parameter_bytes + live * times


def _check_room(workload: Workload, roof: Roof) -> None:
    size = roof.memory.size
    if size is None:
        return
    needed = _needed_bytes(workload)
    if needed > size.value:
        raise RidgelineError(
            f"{workload.name} needs {needed / 1e9:,.4g} GB in {roof.precision} at batch"
            f" {workload.batch}, and {roof.chip.name} has {size.value / 1e9:,.4g} GB of"
            f" {roof.memory.name}",
            where="--chip",
            fix="Take a narrower precision, a smaller batch, or a chip with more memory",
        )


def _remarks(workload: Workload, roof: Roof, kept: Residence) -> tuple[str, ...]:
    found: list[str] = []
    near = roof.on_chip
    if kept.weights and workload.parameter_bytes and near not in (None, roof.memory):
        found.append(f"weights fit into {near.name} and stay there from run to run")
    if not roof.fractions.launch_seconds and roof.basis == "attained fractions":
        found.append(
            "how long such a chip takes to start a layer was not measured and is counted as"
            " nothing: small layers take longer"
        )
    if isinf(roof.near_bytes_per_s) and near not in (None, roof.memory) and kept.any:
        found.append(f"no source states the rate of {near.name}: its reads are counted as nothing")
    if roof.vector_operations_per_s is None and any(x.vector_operations for x in workload.layers):
        found.append(
            "no source states a peak for element by element work (fp32): it is counted as nothing"
            " but for what it moves"
        )
    doubt = roof.chip.doubt(roof.peak)
    if doubt:
        found.append(doubt)
    unknown = workload.unknown(lambda layer: layer.macs)
    if unknown:
        found.append(f"MACs of {len(unknown)} layers are unknown: their arithmetic is left out")
    return tuple(found)


class _Timing:
    """One workload on one chip in one precision, for every layer."""

    def __init__(self, roof: Roof, workload: Workload) -> None:
        self.roof = roof
        self.workload = workload
        self.crossing = frozenset(o.tensor for o in (*workload.inputs, *workload.outputs))
        self.kept = self._kept_at(1)
        self._later: dict[int, Residence | None] = {}
        self._known: dict[tuple[Product, ...], list[Occupied]] = {}

    def _kept_at(self, times: int) -> Residence:
        near = self.roof.on_chip
        return resident(self.workload, near.size.value if near and near.size else 0.0, times)

    def _kept_later(self, times: int) -> Residence | None:
        """At a batch so many times as large; None if main memory does not hold it."""
        if times not in self._later:
            size = self.roof.memory.size
            fits = size is None or _needed_bytes(self.workload, times) <= size.value
            self._later[times] = self._kept_at(times) if fits else None
        return self._later[times]

    def time(self, layer: Layer) -> LayerTime:
        filled = self._occupied(layer.products)
        parts = self._parts(layer, filled, self.kept)
        limit = max(parts, key=lambda part: part.seconds).resource if parts else "launch"
        likely = together(parts)
        spread = self.roof.spread(_side(limit))
        low = min(likely, max(likely * spread.low, self._least(layer, parts)))
        seconds = Interval(low, likely, likely * spread.high)
        utilisation = None
        if layer.operations and likely:
            utilisation = min(1.0, layer.operations / (likely * self.roof.peak.dense.value))
        cause = cause_of(layer, limit, filled, self.roof)
        cure = self._cure(layer) if layer.products else None
        return LayerTime(layer, seconds, limit, tuple(parts), utilisation, cause, cure)

    def parts(self, layer: Layer) -> list[Part]:
        return self._parts(layer, self._occupied(layer.products), self.kept)

    def _occupied(self, products: tuple[Product, ...]) -> list[Occupied]:
        """Models repeat their blocks, so that most products were met before."""
        found = self._known.get(products)
        if found is None:
            found = self._known[products] = occupied(products, self.roof)
        return found

    def _parts(self, layer: Layer, filled: list[Occupied], kept: Residence) -> list[Part]:
        roof = self.roof
        found: list[Part] = []
        if roof.fractions.launch_seconds:
            found.append(Part("launch", roof.fractions.launch_seconds))
        if filled:
            found.append(Part("compute", sum(one.seconds for one in filled)))
        if roof.vector_operations_per_s is not None and layer.vector_operations:
            found.append(Part("vector", layer.vector_operations / roof.vector_operations_per_s))
        main, near, link = self._bytes(layer, kept)
        if roof.on_chip is roof.memory:
            main, near = main + near, 0.0
        if near and roof.on_chip is not None:
            found.append(Part(roof.on_chip.name, near / roof.near_bytes_per_s, near))
        rate = roof.memory_bytes_per_s * roof.fractions.bandwidth
        found.append(Part(roof.memory.name, main / rate, main))
        if link and roof.link_bytes_per_s is not None:
            found.append(Part("host link", link / roof.link_bytes_per_s, link))
        return found

    def _bytes(self, layer: Layer, kept: Residence) -> tuple[float, float, float]:
        """Through main memory, through the memory on the chip, and over the host link."""
        main = near = link = 0.0
        for operand in layer.operands:
            moved = operand.bytes or 0
            if kept.holds(operand):
                near += moved
            else:
                main += moved
            if operand.tensor in self.crossing and operand.role != "weight":
                link += moved
        return main, near, link

    def _least(self, layer: Layer, parts: list[Part]) -> float:
        """No run is faster than the dense peak or the memory's full rate."""
        compute = (layer.operations or 0) / self.roof.peak.dense.value
        main = next((p.bytes for p in parts if p.resource == self.roof.memory.name), 0.0)
        return max(compute, main / self.roof.memory_bytes_per_s)

    def _cure(self, layer: Layer) -> int | None:
        """The least batch, in doublings, at which multiplying limits, with tiles and waves full.

        What stays on the chip is worked out anew for each: results that find room at a small batch
        do not at a large one.
        """
        if self._is_full(layer, self.kept):
            return None
        for times in CURES:
            kept = self._kept_later(times)
            if kept is None:
                return None
            if self._is_full(scaled(layer, times), kept):
                return times * self.workload.batch
        return None

    def _is_full(self, layer: Layer, kept: Residence) -> bool:
        filled = self._occupied(layer.products)
        parts = self._parts(layer, filled, kept)
        limit = max(parts, key=lambda part: part.seconds).resource if parts else ""
        return limit == "compute" and all(one.waves >= FULL for one in filled)


def _side(limit: str) -> str:
    """Whose spread a limit takes: launch, compute or memory."""
    return limit if limit in ("launch", "compute") else "memory"


def together(parts: list[Part]) -> float:
    """A launch, then everything at once: not in turn, and not without friction."""
    p = fitted().common.overlap
    launch = sum(part.seconds for part in parts if part.resource == "launch")
    rest = sum(part.seconds**p for part in parts if part.resource != "launch")
    return launch + rest ** (1 / p)
