"""Which tensors stay on chip and where: lifetimes, first fit, and banks apart where it helps.

Everything starts resident; while the buffer is too small the tensor that occupies most lines for
the longest time is spilled, and the layers that touch it work through it in double-buffered tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ridgeline.compiler.ahead import hold_weights
from ridgeline.compiler.layout import Box, Region
from ridgeline.compiler.lines import Lines, Request
from ridgeline.compiler.plan import LayerPlan, Operand, Segment, TiledLayer, split_box
from ridgeline.compiler.strips import Run, Strips, Visit, source_box
from ridgeline.errors import RidgelineError
from ridgeline.ir import Node
from ridgeline.machine.description import Machine

TILE_SHARES = (2, 4, 8, 16, 32, 64)
"""Tried in turn: tiles of one layer may take 1 / share of the unified buffer."""

LEAST_OF_SHARE = 8
"""Tiles have a share's part in this at least: smaller ones would load weights too often."""
FOUND = 0.8
"""Of the lines that are left, how many can be expected side by side."""


class DoesNotFit(RidgelineError):
    """A layer for whose smallest tiles the unified buffer has no room."""

    def __init__(self, node: Node, need_bytes: int, machine: Machine) -> None:
        self.node = node
        most = machine.unified_buffer.bytes
        beside = ", which find no place beside each other" if need_bytes <= most else ""
        self.reason = (
            f"needs {need_bytes} bytes of unified buffer even in its smallest tiles{beside};"
            f" there are {most}"
        )
        super().__init__(
            f"layer '{node.name}' ({node.op}) {self.reason}",
            where=f"machine {machine.name}",
            fix="Use a machine with a larger unified buffer, or --set unified_buffer.bytes=...",
        )


def tile_and_allocate(
    segment: Segment,
    machine: Machine,
    *,
    spread: bool = False,
    ahead: bool = False,
    runs: Sequence[Run] = (),
) -> list[TiledLayer]:
    """Tiles and lines for every visit of a layer, one for each strip of the `runs` that it lies in.
    Raises DoesNotFit when one cannot fit at all.

    With `ahead` weights come on chip before their layer where the buffer has lines left. `spread`
    lays a region over as many banks as it may have for itself, so that a store and a reader meet
    less often in one bank, and leaves fewer banks to the others.
    """
    search = _Search(Strips(segment, runs), machine, spread)
    attempt = search.run()
    layers = attempt.tiled()
    return hold_weights(layers, machine, attempt.room, attempt.most) if ahead else layers


class _Search:
    """The fewest values spilled that leave room for the rest, found one by one."""

    def __init__(self, strips: Strips, machine: Machine, spread: bool) -> None:
        self.strips = strips
        self.machine = machine
        self.spread = spread

    def run(self) -> _Attempt:
        """Raises DoesNotFit when a layer cannot fit at all."""
        failure: DoesNotFit | None = None
        for share in TILE_SHARES:
            budget = self.machine.unified_buffer.lines // share
            spilled: set[int] = set()
            while True:
                attempt, failed = self._attempt(spilled, budget)
                if failed is None:
                    return self._brought_back(attempt, budget)
                victim = attempt.victim(failed)
                if victim is None:
                    failure = attempt.complaint(failed)
                    break
                spilled.add(victim)
        assert failure, "there is always a share to try"
        raise failure

    def _attempt(self, spilled: AbstractSet[int], budget: int) -> tuple[_Attempt, Request | None]:
        """A result in the lines of its input keeps a bank from being read while it is written, so
        it lies there only where the buffer is too small for both.
        """
        attempt = _Attempt(self.strips, self.machine, spilled, budget, self.spread, False)
        failed = attempt.run()
        if failed is not None:
            attempt = _Attempt(self.strips, self.machine, spilled, budget, self.spread, True)
            failed = attempt.run()
        return attempt, failed

    def _brought_back(self, attempt: _Attempt, budget: int) -> _Attempt:
        """The same with each spilled value on chip, largest first, for which there is room after
        all: others were spilled in vain before the one that mattered.
        """
        for root in sorted(attempt.spilled, key=lambda root: -self._bytes(root)):
            tried, failed = self._attempt(attempt.spilled - {root}, budget)
            if failed is None:
                attempt = tried
        return attempt

    def _bytes(self, root: int) -> int:
        layers = self.strips.segment.layers
        operands = (o for layer in layers for o in (*layer.inputs, layer.output))
        return next(o.layout.bytes for o in operands if id(o.root) == root)


def shared_lines(strips: Strips) -> dict[int, int]:
    """Results that may take the lines of an input, by id(root): id(root) of that input.

    They are computed line by line from an input of the same rows that nothing reads afterwards,
    and no strip but their own.
    """
    shared: dict[int, int] = {}
    for position, layer in enumerate(strips.segment.layers):
        if layer.kind != "elementwise":
            continue
        result, inside = id(layer.output.root), strips.innermost(position)
        for operand in layer.inputs:
            root = id(operand.root)
            if operand.constant or operand.layout != layer.output.layout:
                continue
            if max(strips.users[root]) != position or strips.home(root) != inside:
                continue
            visits = [visit for visit in strips.visits if visit.position == position]
            if strips.home(result) == inside and all(
                visit.box_of(operand) == visit.box_of(layer.output) for visit in visits
            ):
                shared[result] = root
                break
    return shared


class _Attempt:
    """One try: some tensors spilled, tiles within a budget of lines."""

    def __init__(
        self,
        strips: Strips,
        machine: Machine,
        spilled: AbstractSet[int],
        budget_lines: int,
        spread: bool,
        in_place: bool,
    ) -> None:
        self.strips = strips
        self.spread = spread
        self.in_place = in_place
        self.segment = strips.segment
        self.machine = machine
        self.spilled = frozenset(spilled)
        self.budget = budget_lines
        self.boxes: list[tuple[Box, ...]] = []
        """Of each visit."""
        self.placed: dict[tuple[str, int, int], int] = {}
        self.requests: list[Request] = []
        self.shared: dict[int, int] = {}
        self.pool = Lines(machine, spread)

    def run(self) -> Request | None:
        """The request that found no room, or None when all did."""
        self.requests = self._tensor_requests()
        budgets = self._budgets()
        every: dict[int, list[Box]] = {}
        for visit in self.strips.visits:
            boxes = self._choose_boxes(visit, budgets[visit.position])
            self.boxes.append(boxes)
            every.setdefault(visit.position, []).extend(boxes)
        for position, boxes in every.items():
            self.requests += self._layer_requests(position, self.segment.layers[position], boxes)
        # Largest first shares the fewest banks; where that finds no room, tiles come first at each
        # layer, because only tensors can be spilled.
        if self._place(sorted(self.requests, key=lambda r: -r.lines)) is None:
            return None
        return self._place(sorted(self.requests, key=lambda r: (r.key[0] == "tensor", -r.lines)))

    def room(self, lines: int, first: int, last: int) -> int | None:
        """The first of so many lines that are free from one layer to another; None where none."""
        return self.pool.fit(Request(("held", last, 0), lines, first, last))

    def most(self, first: int, last: int) -> int:
        """The most lines side by side that are free from one layer to another."""
        return self.pool.most(first, last)

    def _place(self, order: list[Request]) -> Request | None:
        """Places requests in this order; the first that found no room, or None."""
        pool = self.pool = Lines(self.machine, self.spread)
        self.placed = {}
        for request in order:
            line = pool.fit(request)
            if line is None:
                return request
            self.placed[request.key] = line
        return None

    def _tensor_requests(self) -> list[Request]:
        if self.in_place:
            self.shared = shared_lines(self.strips)
        lines: dict[int, int] = {}
        together: dict[int, list[int]] = {}
        for visit in self.strips.visits:
            layer = self.segment.layers[visit.position]
            for operand in (*layer.inputs, layer.output):
                root = id(operand.root)
                if operand.constant or root in self.spilled:
                    continue
                size = visit.box_of(operand).rows * operand.layout.row_lines
                lines[root] = max(lines.get(root, 0), size)
        for root in lines:
            together.setdefault(self._owner(root), []).extend(self.strips.span(root))
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

    def _budgets(self) -> list[int]:
        """Lines for the tiles of each layer: its share, and less where values leave it no room."""
        left = [self.machine.unified_buffer.lines] * len(self.segment.layers)
        for request in self.requests:
            for position in range(request.first, request.last + 1):
                left[position] -= request.lines
        least = self.budget // LEAST_OF_SHARE
        return [min(self.budget, max(least, int(FOUND * lines))) for lines in left]

    def _choose_boxes(self, visit: Visit, budget: int) -> tuple[Box, ...]:
        layer, whole = self.segment.layers[visit.position], visit.box
        needs_tiles = not self._resident(layer.output) or any(
            not o.constant and not self._resident(o) for o in layer.inputs
        )
        along_rows = layer.kind == "concat" and any(
            o.layout.box.sizes != layer.output.layout.box.sizes for o in layer.inputs
        )
        if layer.kind == "alias" or along_rows or not needs_tiles:
            return (whole,)
        rows = whole.rows
        while rows > 1:
            boxes = tuple(split_box(whole, rows))
            if 2 * max(self._tiled_lines(layer, b) for b in boxes) <= budget:
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
        return max(candidates, key=lambda r: (r.lines * (1 + r.last - r.first), -r.first)).key[1]

    def complaint(self, failed: Request) -> DoesNotFit:
        """What does not fit, and what it needs."""
        layer = self.segment.layers[failed.first]
        line_bytes = self.machine.unified_buffer.line_bytes
        alive = [r for r in self.requests if r.first <= failed.first <= r.last]
        need = sum(r.lines for r in alive) * line_bytes
        return DoesNotFit(layer.node, need, self.machine)

    def tiled(self) -> list[TiledLayer]:
        """The visits of layers with their regions."""
        seen: dict[int, int] = {}
        brought: set[tuple[int, int]] = set()
        result: list[TiledLayer] = []
        for visit, boxes in zip(self.strips.visits, self.boxes, strict=True):
            number = seen.get(visit.position, 0)
            layer = self._tiled(visit, boxes, number)
            inputs = self.segment.layers[visit.position].inputs
            of_strip = tuple(i for i, o in enumerate(inputs) if id(o.root) in visit.held)
            brings = self._brings(visit, brought)
            result.append(replace(layer, of_strip=of_strip, brings=brings))
            seen[visit.position] = number + len(boxes)
        return result

    def _brings(self, visit: Visit, brought: set[tuple[int, int]]) -> tuple[int, ...]:
        """Operands in device memory that a visit is the first in its strip to read."""
        found: list[int] = []
        for index, operand in enumerate(self.segment.layers[visit.position].inputs):
            root = id(operand.root)
            kept = visit.held.get(root)
            if kept is None or root not in self.segment.entering or root in self.spilled:
                continue
            if (root, kept.strip) not in brought:
                brought.add((root, kept.strip))
                found.append(index)
        return tuple(found)

    def _region(
        self, operand: Operand, box: Box, visit: Visit, key: tuple[str, int, int]
    ) -> Region:
        if not operand.constant and self._resident(operand):
            line = self.placed["tensor", self._owner(id(operand.root)), 0]
            return Region(operand.layout, visit.box_of(operand), line)
        return Region(operand.layout, box, self.placed[key])

    def _tiled(self, visit: Visit, boxes: tuple[Box, ...], before: int) -> TiledLayer:
        """One visit, where so many boxes of the same layer were made before."""
        position = visit.position
        layer = self.segment.layers[position]
        if layer.kind == "alias":
            return TiledLayer(layer, boxes, ((),), (), ((),), False)
        inputs: list[tuple[Region, ...]] = []
        outputs: list[Region] = []
        loads: list[tuple[bool, ...]] = []
        for number, box in enumerate(boxes):
            copy = (before + number) % 2
            regions: list[Region] = []
            for index, operand in enumerate(layer.inputs):
                source = (
                    operand.layout.box if operand.constant else (source_box(layer, operand, box))
                )
                key = (f"in{index}", position, 0 if operand.constant else copy)
                regions.append(self._region(operand, source, visit, key))
            inputs.append(tuple(regions))
            outputs.append(self._region(layer.output, box, visit, ("out", position, copy)))
            loads.append(
                tuple(number == 0 if o.constant else not self._resident(o) for o in layer.inputs)
            )
        root = id(layer.output.root)
        store = root in self.spilled or root in self.segment.leaving
        table = self.placed.get(("table", position, 0), 0)
        return TiledLayer(layer, boxes, tuple(inputs), tuple(outputs), tuple(loads), store, table)
