"""Which tensors stay on chip and where: lifetimes, first fit, and banks apart where it helps.

Everything starts resident; while the buffer is too small the tensor that occupies most lines for
the longest time is spilled, and the layers that touch it work through it in double-buffered tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgeline.compiler.ahead import hold_weights
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.plan import LayerPlan, Operand, TiledLayer, split_box
from ridgeline.errors import RidgelineError
from ridgeline.machine.description import Machine

TILE_SHARES = (2, 4, 8, 16, 32, 64)
"""Tried in turn: tiles of one layer may take 1 / share of the unified buffer."""


@dataclass(frozen=True, slots=True)
class Request:
    """`lines` wanted from layer `first` to layer `last`; `role` says which port streams through."""

    key: tuple[str, int, int]
    lines: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Device layers in order, with the values that come from and go to device memory."""

    layers: tuple[LayerPlan, ...]
    entering: frozenset[int]
    """id(root) of values that lie in device memory when the segment starts."""
    leaving: frozenset[int]
    """id(root) of values that must lie in device memory when it ends."""


def tile_and_allocate(
    segment: Segment, machine: Machine, *, spread: bool = False, ahead: bool = False
) -> list[TiledLayer]:
    """Tiles and lines for every layer. Raises RidgelineError when one cannot fit at all.

    With `ahead` weights come on chip before their layer where the buffer has lines left. `spread`
    lays a region over as many banks as it may have for itself, so that a store and a reader meet
    less often in one bank, and leaves fewer banks to the others.
    """
    failure = ""
    for share in TILE_SHARES:
        spilled: set[int] = set()
        while True:
            budget = machine.unified_buffer.lines // share
            failed = None
            # A result in the lines of its input keeps a bank from being read while it is written,
            # so it lies there only where the buffer is too small for both.
            for in_place in (False, True):
                attempt = _Attempt(segment, machine, spilled, budget, spread, in_place)
                failed = attempt.run()
                if failed is None:
                    layers = attempt.tiled()
                    return hold_weights(layers, machine, attempt.room) if ahead else layers
            victim = attempt.victim(failed)
            if victim is None:
                failure = attempt.complaint(failed)
                break
            spilled.add(victim)
    raise RidgelineError(
        failure,
        where=f"machine {machine.name}",
        fix="Use a machine with a larger unified buffer, or --set unified_buffer.bytes=...",
    )


def source_box(layer: LayerPlan, operand: Operand, box: Box) -> Box:
    """The rows of an operand that an output box of the layer takes."""
    if layer.kind == "concat" and operand.layout.box.sizes != layer.output.layout.box.sizes:
        return operand.layout.box
    if layer.kind in ("elementwise", "concat"):
        return operand.broadcast_box(box)
    return layer.window.input_box(box, operand.layout)


def shared_lines(segment: Segment, last_use: Mapping[int, int]) -> dict[int, int]:
    """Results that may take the lines of an input, by id(root): id(root) of that input.

    They are computed line by line from an input of the same rows that nothing reads afterwards.
    """
    shared: dict[int, int] = {}
    for position, layer in enumerate(segment.layers):
        if layer.kind != "elementwise":
            continue
        for operand in layer.inputs:
            root, alike = id(operand.root), operand.layout == layer.output.layout
            if not operand.constant and alike and last_use[root] == position:
                shared[id(layer.output.root)] = root
                break
    return shared


class _Attempt:
    """One try: some tensors spilled, tiles within a budget of lines."""

    def __init__(
        self,
        segment: Segment,
        machine: Machine,
        spilled: set[int],
        budget_lines: int,
        spread: bool,
        in_place: bool,
    ) -> None:
        self.spread = spread
        self.in_place = in_place
        self.segment = segment
        self.machine = machine
        self.spilled = spilled
        self.budget = budget_lines
        self.boxes: list[tuple[Box, ...]] = []
        self.placed: dict[tuple[str, int, int], int] = {}
        self.requests: list[Request] = []
        self.shared: dict[int, int] = {}
        self.pool = _Lines(machine, spread)

    def run(self) -> Request | None:
        """The request that found no room, or None when all did."""
        self.requests = self._tensor_requests()
        for position, layer in enumerate(self.segment.layers):
            boxes = self._choose_boxes(layer)
            self.boxes.append(boxes)
            self.requests += self._layer_requests(position, layer, boxes)
        # Largest first shares the fewest banks; where that finds no room, tiles come first at each
        # layer, because only tensors can be spilled.
        if self._place(sorted(self.requests, key=lambda r: -r.lines)) is None:
            return None
        return self._place(sorted(self.requests, key=lambda r: (r.key[0] == "tensor", -r.lines)))

    def room(self, lines: int, first: int, last: int) -> int | None:
        """The first of so many lines that are free from one layer to another; None where none."""
        return self.pool.fit(Request(("held", last, 0), lines, first, last))

    def _place(self, order: list[Request]) -> Request | None:
        """Places requests in this order; the first that found no room, or None."""
        pool = self.pool = _Lines(self.machine, self.spread)
        self.placed = {}
        for request in order:
            line = pool.fit(request)
            if line is None:
                return request
            self.placed[request.key] = line
        return None

    def _tensor_requests(self) -> list[Request]:
        spans: dict[int, list[int]] = {}
        lines: dict[int, int] = {}
        for position, layer in enumerate(self.segment.layers):
            for operand in (*layer.inputs, layer.output):
                if not operand.constant:
                    spans.setdefault(id(operand.root), []).append(position)
                    size = operand.layout.box.rows * operand.layout.row_lines
                    lines[id(operand.root)] = size
        if self.in_place:
            self.shared = shared_lines(self.segment, {r: max(span) for r, span in spans.items()})
        together: dict[int, list[int]] = {}
        for root, span in spans.items():
            if root not in self.spilled:
                together.setdefault(self._owner(root), []).extend(span)
        return [
            Request(("tensor", root, 0), lines[root], min(span), max(span))
            for root, span in together.items()
        ]

    def _owner(self, root: int) -> int:
        """The resident value in whose lines a resident value lies: its own, or its input's."""
        while root in self.shared and self.shared[root] not in self.spilled:
            root = self.shared[root]
        return root

    def _resident(self, operand: Operand) -> bool:
        return id(operand.root) not in self.spilled

    def _tiled_lines(self, layer: LayerPlan, box: Box) -> int:
        """Lines of the tiles of one box, of the operands that are not resident."""
        total = 0
        for operand in layer.inputs:
            if not operand.constant and not self._resident(operand):
                total += source_box(layer, operand, box).rows * operand.layout.row_lines
        if not self._resident(layer.output):
            total += box.rows * layer.output.layout.row_lines
        return total

    def _choose_boxes(self, layer: LayerPlan) -> tuple[Box, ...]:
        whole = layer.output.layout.box
        needs_tiles = not self._resident(layer.output) or any(
            not o.constant and not self._resident(o) for o in layer.inputs
        )
        along_rows = layer.kind == "concat" and any(
            o.layout.box.sizes != whole.sizes for o in layer.inputs
        )
        if layer.kind == "alias" or along_rows or not needs_tiles:
            return (whole,)
        rows = whole.rows
        while rows > 1:
            boxes = tuple(split_box(whole, rows))
            if 2 * max(self._tiled_lines(layer, b) for b in boxes) <= self.budget:
                return boxes
            rows = max(1, (max(b.rows for b in boxes)) // 2 if len(boxes) > 1 else rows // 2)
        return tuple(split_box(whole, 1))

    def _layer_requests(
        self, position: int, layer: LayerPlan, boxes: Sequence[Box]
    ) -> list[Request]:
        if layer.kind == "alias":
            return []
        wanted: list[Request] = []
        copies = 2 if len(boxes) > 1 else 1
        for number, operand in enumerate(layer.inputs):
            if operand.constant:
                size = operand.layout.box.rows * operand.layout.row_lines
                wanted.append(Request((f"in{number}", position, 0), size, position, position))
            elif not self._resident(operand):
                size = max(source_box(layer, operand, b).rows for b in boxes)
                for copy in range(copies):
                    key = (f"in{number}", position, copy)
                    wanted.append(Request(key, size * operand.layout.row_lines, position, position))
        if not self._resident(layer.output):
            size = max(b.rows for b in boxes) * layer.output.layout.row_lines
            wanted += [
                Request(("out", position, c), size, position, position) for c in range(copies)
            ]
        if layer.table_lines:
            wanted.append(Request(("table", position, 0), layer.table_lines, position, position))
        return wanted

    def victim(self, failed: Request) -> int | None:
        """The resident tensor to spill: alive together with the failed one, largest by far."""
        candidates = [
            r
            for r in self.requests
            if r.key[0] == "tensor" and r.first <= failed.last and failed.first <= r.last
        ]
        if not candidates:
            return None
        return max(candidates, key=lambda r: (r.lines * (1 + r.last - r.first), r.key[1])).key[1]

    def complaint(self, failed: Request) -> str:
        """What does not fit, in words."""
        layer = self.segment.layers[failed.first]
        line_bytes = self.machine.unified_buffer.line_bytes
        alive = [r for r in self.requests if r.first <= failed.first <= r.last]
        need = sum(r.lines for r in alive) * line_bytes
        return (
            f"layer '{layer.node.name}' ({layer.node.op}) needs {need} bytes of unified buffer even"
            f" in its smallest tiles; there are {self.machine.unified_buffer.bytes}"
        )

    def tiled(self) -> list[TiledLayer]:
        """The layers with their regions."""
        return [self._tiled(p, layer) for p, layer in enumerate(self.segment.layers)]

    def _region(self, operand: Operand, box: Box, key: tuple[str, int, int]) -> Region:
        if not operand.constant and self._resident(operand):
            line = self.placed["tensor", self._owner(id(operand.root)), 0]
            return Region(operand.layout, operand.layout.box, line)
        return Region(operand.layout, box, self.placed[key])

    def _tiled(self, position: int, layer: LayerPlan) -> TiledLayer:
        boxes = self.boxes[position]
        if layer.kind == "alias":
            return TiledLayer(layer, boxes, ((),), (), ((),), False)
        inputs: list[tuple[Region, ...]] = []
        outputs: list[Region] = []
        loads: list[tuple[bool, ...]] = []
        for number, box in enumerate(boxes):
            copy = number % 2
            regions: list[Region] = []
            for index, operand in enumerate(layer.inputs):
                source = (
                    operand.layout.box if operand.constant else (source_box(layer, operand, box))
                )
                key = (f"in{index}", position, 0 if operand.constant else copy)
                regions.append(self._region(operand, source, key))
            inputs.append(tuple(regions))
            outputs.append(self._region(layer.output, box, ("out", position, copy)))
            loads.append(
                tuple(number == 0 if o.constant else not self._resident(o) for o in layer.inputs)
            )
        root = id(layer.output.root)
        store = root in self.spilled or root in self.segment.leaving
        table = self.placed.get(("table", position, 0), 0)
        return TiledLayer(layer, boxes, tuple(inputs), tuple(outputs), tuple(loads), store, table)


class _Lines:
    """The unified buffer's lines over time."""

    def __init__(self, machine: Machine, spread: bool) -> None:
        self.spread = spread
        self.lines = machine.unified_buffer.lines
        self.bank_lines = machine.unified_buffer.lines_per_bank
        self.taken: list[tuple[int, int, Request]] = []

    def fit(self, request: Request) -> int | None:
        """First line of room for the request over its whole life: the place that shares fewest
        banks with what lives beside it, or a layer before or after; None when there is none.
        """
        alive = sorted(self._beside(request, 0))
        # Layers overlap in time: the next one's loads run while this one's results are written.
        # What lives at the same time counts twice, since it is near as well.
        near = self._beside(request, 1)
        best: tuple[int, int, int] | None = None
        for start in self._starts(alive, request.lines):
            end = start + request.lines
            shared = self._shared_banks(alive, start, end) + self._shared_banks(near, start, end)
            spanned = (end - 1) // self.bank_lines - start // self.bank_lines
            found = (shared, -spanned if self.spread else 0, start)
            best = min(best or found, found)
        if best is None:
            return None
        self.taken.append((best[2], best[2] + request.lines, request))
        return best[2]

    def _beside(self, request: Request, layers: int) -> list[tuple[int, int]]:
        """[start, end) of what lives together with the request, or within so many layers of it."""
        return [
            (start, end)
            for start, end, other in self.taken
            if other.first <= request.last + layers and request.first <= other.last + layers
        ]

    def _starts(self, alive: list[tuple[int, int]], lines: int) -> list[int]:
        """Beginnings of room: after each neighbour, and at bank borders within a gap."""
        starts: list[int] = []
        cursor = 0
        for start, end in [*alive, (self.lines, self.lines)]:
            if start - cursor >= lines:
                starts.append(cursor)
                border = -(-cursor // self.bank_lines) * self.bank_lines
                while border + lines <= start:
                    starts.append(border)
                    starts.append(max(cursor, border - lines // 2))
                    border += self.bank_lines
            cursor = max(cursor, end)
        return starts

    def _shared_banks(self, alive: list[tuple[int, int]], start: int, end: int) -> int:
        first, last = start // self.bank_lines, (end - 1) // self.bank_lines
        return sum(
            max(0, min(last, (e - 1) // self.bank_lines) - max(first, s // self.bank_lines) + 1)
            for s, e in alive
        )
