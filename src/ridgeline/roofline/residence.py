"""What stays on the chip: weights from run to run, and results until they are read."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.workload.layer import Layer, Operand, Workload


@dataclass(frozen=True, slots=True)
class Residence:
    """`weights` stay from run to run; `tensors` are results that never leave the chip."""

    weights: bool
    tensors: frozenset[int]

    @property
    def any(self) -> bool:
        return self.weights or bool(self.tensors)

    def holds(self, operand: Operand) -> bool:
        """Whether an operand is read from the chip, or stays there."""
        return self.weights if operand.role == "weight" else operand.tensor in self.tensors


def resident(workload: Workload, capacity_bytes: float, times: int = 1) -> Residence:
    """What fits at a batch so many times as large: all weights or none, then results, those that
    live shortest first.

    Weights stay only beside the largest layer's operands, so that these do not drive them out.
    """
    largest = max((passing_bytes(layer) for layer in workload.layers), default=0)
    stored = workload.parameter_bytes
    weights = stored + largest * times <= capacity_bytes
    room = capacity_bytes - (stored if weights else 0)
    # All that weights do not take grows with the batch: as if there were so much less room.
    return Residence(weights, _results_on_chip(workload, room / times, weights, times))


def passing_bytes(layer: Layer) -> int:
    """Of all operands that are no weights."""
    return sum(o.bytes or 0 for o in layer.operands if o.role != "weight")


def _results_on_chip(
    workload: Workload, room_bytes: float, weights: bool, times: int
) -> frozenset[int]:
    made: dict[int, int] = {}
    read: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for place, layer in enumerate(workload.layers):
        for operand in layer.operands:
            if operand.role == "output":
                made.setdefault(operand.tensor, place)
                sizes[operand.tensor] = operand.stored_bytes
            elif operand.tensor in made:
                read[operand.tensor] = place
    leaving = workload.lasting
    used = [0 if weights else layer.weight_bytes or 0 for layer in workload.layers]
    # A weight streams through, so that it takes no more room than it needs to be in flight.
    used = [min(one / times, room_bytes / 4) for one in used]
    lives = sorted((read[t] - made[t], sizes[t], t) for t in read if t not in leaving)
    kept: set[int] = set()
    for _, size, tensor in lives:
        span = range(made[tensor], read[tensor] + 1)
        if all(used[place] + size <= room_bytes for place in span):
            for place in span:
                used[place] += size
            kept.add(tensor)
    return frozenset(kept)
