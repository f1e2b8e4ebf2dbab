"""Tiled layers to instructions: loads, the layer's template, stores, box by box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgeline.compiler.builder import Builder, State
from ridgeline.compiler.held import ahead_of, with_held
from ridgeline.compiler.layout import Box, Region, gathered, transfer
from ridgeline.compiler.lower_matmul import lower_matmul
from ridgeline.compiler.lower_move import lower_move
from ridgeline.compiler.lower_vector import (
    REAL_OPERATIONS,
    lower_concat,
    lower_elementwise,
    lower_lookup,
    lower_real,
    lower_window,
)
from ridgeline.compiler.plan import Operand, Segment, TiledLayer, split_box
from ridgeline.compiler.schedule import Ahead
from ridgeline.compiler.strips import source_box
from ridgeline.machine.code import Code
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Load, Store


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """A layer's instructions, and what it left behind: residents on chip, the builder's state."""

    layer: TiledLayer
    code: Code
    on_chip: frozenset[int]
    state: State


Known = dict[tuple[int, frozenset[int], State], Emitted]
"""By the layer's id and what it found. Emitters of one segment may share them."""


class Emitter:
    """Emits the layers of one device segment."""

    def __init__(
        self,
        machine: Machine,
        segment: Segment,
        addresses: Mapping[int, int],
        known: Known | None = None,
    ) -> None:
        self.builder = Builder(machine)
        self.segment = segment
        self.addresses = addresses
        self.on_chip: frozenset[int] = frozenset()
        self.ahead: list[Ahead] = []
        """The Loads among what is emitted that come ahead of their layer."""
        self.known: Known = {} if known is None else known

    def emit(self, layers: Sequence[TiledLayer]) -> Code:
        """The segment's instructions in program order, without waits."""
        start = 0
        codes: list[Code] = []
        for layer in layers:
            if layer.plan.kind != "alias":
                codes.append(self._emitted(layer))
                self.ahead += ahead_of(codes[-1], layer.held, start)
                start += len(codes[-1])
        for code in codes:
            self.builder.add_block(code)
        return self.builder.code()

    def _emitted(self, layer: TiledLayer) -> Code:
        """A layer's instructions, made once for each state in which it finds the builder."""
        key = (id(layer), self.on_chip, self.builder.state)
        made = self.known.get(key)
        if made is None:
            self._load_residents(layer)
            self._load_table(layer)
            for number in range(len(layer.boxes)):
                self.emit_box(layer, number)
            code = with_held(self.builder.taken(), layer.held)
            made = self.known[key] = Emitted(layer, code, self.on_chip, self.builder.state)
        self.on_chip = made.on_chip
        self.builder.restore(made.state)
        return made.code

    def _load_residents(self, layer: TiledLayer) -> None:
        """Bring operands on chip that stay there and still lie in device memory."""
        for index, (operand, region, loaded) in enumerate(
            zip(layer.plan.inputs, layer.inputs[0], layer.loads[0], strict=True)
        ):
            root = id(operand.root)
            if loaded or root not in self.segment.entering:
                continue
            if index in layer.of_strip:
                if index not in layer.brings:
                    continue
                box = region.box
            elif root in self.on_chip:
                continue
            else:
                self.on_chip |= {root}
                box = self._needed(operand)
            for part in split_box(box, max(box.x1 - box.x0, -(-box.rows // layer.load_parts))):
                self._load_box(operand, region, part, self.addresses[root], layer.plan.index)

    def _needed(self, operand: Operand) -> Box:
        """The rows of a tensor that any layer of the segment takes."""
        boxes = [
            source_box(layer, other, layer.output.layout.box)
            for layer in self.segment.layers
            for other in layer.inputs
            if other.root is operand.root and layer.kind != "alias"
        ]
        return Box(
            min(b.n0 for b in boxes),
            max(b.n1 for b in boxes),
            min(b.y0 for b in boxes),
            max(b.y1 for b in boxes),
            min(b.x0 for b in boxes),
            max(b.x1 for b in boxes),
        )

    def _load_table(self, layer: TiledLayer) -> None:
        """Bring a depthwise layer's weights on chip, as contiguous lines."""
        plan = layer.plan
        if not plan.table_lines:
            return
        line_bytes = plan.inputs[0].layout.line_bytes
        self.builder.add(
            Load(
                layer=plan.index,
                device_address=plan.table_address,
                line=layer.table_line,
                element_bytes=line_bytes,
                count_0=plan.table_lines,
                device_stride_0=line_bytes,
                line_stride_0=1,
            )
        )

    def emit_box(self, layer: TiledLayer, number: int) -> None:
        """Emit one output box: what it loads, its computation, what it stores."""
        plan = layer.plan
        for operand, region, loaded in zip(
            plan.inputs, layer.inputs[number], layer.loads[number], strict=True
        ):
            if loaded:
                self._load(operand, region, plan.index, layer.parts)
        box = layer.boxes[number]
        for part in split_box(box, -(-box.rows // layer.parts)):
            self._compute(layer, number, part)
            self._store(layer, number, part)

    def _store(self, layer: TiledLayer, number: int, box: Box) -> None:
        if not layer.store:
            return
        region, address = layer.outputs[number], self.addresses[id(layer.plan.output.root)]
        # In parts where it is made at once: the first leave while the last are made.
        count = layer.store_parts if len(layer.boxes) * layer.parts == 1 else 1
        for part in split_box(box, max(box.x1 - box.x0, -(-box.rows // count))):
            for one in transfer(Store, region, part, address, layer.plan.index):
                self.builder.add(one)

    def _load(self, operand: Operand, region: Region, index: int, parts: int) -> None:
        address = operand.address if operand.constant else self.addresses[id(operand.root)]
        box = region.box
        for part in split_box(box, max(box.x1 - box.x0, -(-box.rows // parts))):
            self._load_box(operand, region, part, address, index)

    def _load_box(
        self, operand: Operand, region: Region, box: Box, address: int, index: int
    ) -> None:
        if operand.gather is not None:
            loads = gathered(operand.gather, region, box, address, index)
        else:
            loads = transfer(Load, region, box, address, index)
        for one in loads:
            self.builder.add(one)

    def _compute(self, layer: TiledLayer, number: int, box: Box) -> None:
        plan, target = layer.plan, layer.outputs[number]
        sources = layer.inputs[number]
        if plan.kind == "move":
            lower_move(self.builder, plan, box, target, self.addresses)
        elif plan.kind == "matmul":
            lower_matmul(self.builder, plan, box, sources[0], target, layer.rows)
        elif plan.kind == "window":
            lower_window(self.builder, plan, box, sources[0], target, layer.table_line)
        elif plan.node.op == "Lookup":
            lower_lookup(self.builder, plan, box, sources[0], target, layer.table_line)
        elif plan.kind == "elementwise":
            first = layer.inputs[0]
            # A constant is loaded once, with the first box.
            sources = tuple(
                first[i] if plan.inputs[i].constant else r for i, r in enumerate(sources)
            )
            lower = lower_real if plan.node.op in REAL_OPERATIONS else lower_elementwise
            lower(self.builder, plan, box, sources, target)
        else:
            lower_concat(self.builder, plan, box, sources, target)
