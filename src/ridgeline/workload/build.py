"""From a graph to its workload: fused groups become layers, their values numbered operands."""

from __future__ import annotations

from collections.abc import Iterable

from ridgeline.ir import Graph, Node, Value
from ridgeline.workload.caches import caches, reads_past
from ridgeline.workload.control import body_layers, is_control_flow
from ridgeline.workload.costs import Work
from ridgeline.workload.fusion import Group, fuse
from ridgeline.workload.layer import Kind, Layer, Operand, Role, Workload, total
from ridgeline.workload.operators import count, plain_op
from ridgeline.workload.parameters import parameters_of
from ridgeline.workload.sources import Sources

# Of these operators' first inputs only what comes out is read.
_PARTIAL = frozenset(
    ["Gather", "GatherElements", "GatherND", "Slice", "Split", "Compress", "CenterCropPad"]
)
# These change a tensor in place: what is written is the last input, not the whole.
_SCATTERED = {"ScatterND": 2, "ScatterElements": 2, "TensorScatter": 1}
KEYS = "channels"
"""The axis of a product of queries and keys over which attention then sums."""


def workload_of(graph: Graph, batch: int | None = None, *, fused: bool = True) -> Workload:
    """What a graph has to do, from the shapes of its values alone.

    Works on a graph as it was read or after any pass. `batch` is the first dimension of the first
    input unless told. Without `fused` every node is a layer.
    """
    return _Builder(graph, fused).build(batch)


def samples(graph: Graph) -> int:
    """The first dimension of the first input, or the second if the first are steps of a cell."""
    dims = graph.inputs[0].type.shape if graph.inputs else ()
    axis = 0 if stepped(graph) is None else 1
    return dims[axis] if len(dims) > axis and dims[axis] else 1


def stepped(graph: Graph) -> Node | None:
    """The recurrent cell that walks along the first dimension of the first input, if one does."""
    for node in graph.nodes:
        first = node.optional(0) is graph.inputs[0] if graph.inputs else False
        if first and count(node).kind == "recurrent" and not int(node.attrs.get("layout", 0)):
            return node
    return None


class _Builder:
    """The state of one building: tensors by number, parameters met so far."""

    def __init__(self, graph: Graph, fused: bool) -> None:
        self.graph = graph
        self.fused = fused
        self.sources = Sources(graph)
        self.numbers: dict[int, int] = {}
        self.counted: set[int] = set()
        self.notes: dict[str, None] = {}
        self.packed: dict[int, int] = {}

    def build(self, batch: int | None) -> Workload:
        groups = fuse(self.graph, self.sources, self.fused)
        read = self._read_elsewhere(groups)
        kept = caches(self.graph, {id(a): a for g in groups if (a := g.attention)}.values())
        if kept:
            self.notes["keys and values that come in or go out stay in the chip's memory"] = None
        inputs = {id(v): self._border(v, "input") for v in self.graph.inputs}
        layers = tuple(self._layer(group, read) for group in groups)
        outputs = {id(v): self._border(v, "output") for v in self.graph.outputs}
        return Workload(
            self.graph.name,
            layers,
            batch or samples(self.graph),
            tuple(o for v, o in inputs.items() if v not in kept),
            tuple(o for v, o in outputs.items() if v not in kept),
            tuple(self.notes),
            tuple(o for v, o in (inputs | outputs).items() if v in kept),
            0 if stepped(self.graph) is None else 1,
        )

    def _read_elsewhere(self, groups: list[Group]) -> dict[int, set[int]]:
        """Which groups read the bytes of each value, by id; -1 is the model's user."""
        readers: dict[int, set[int]] = {}
        for group in groups:
            for node in group.nodes:
                for value in node.inputs:
                    if value is not None:
                        stored = self.sources.of(value).value
                        readers.setdefault(id(stored), set()).add(group.number)
        for value in self.graph.outputs:
            readers.setdefault(id(self.sources.of(value).value), set()).add(-1)
        return readers

    def _layer(self, group: Group, read: dict[int, set[int]]) -> Layer:
        operands: dict[tuple[int, Role], Operand] = {}
        made = {id(v) for node in group.nodes for v in node.outputs}
        for node in group.nodes:
            for place, value in enumerate(node.inputs):
                if value is None or id(self.sources.of(value).value) in made:
                    continue
                operand = self._operand(node, place, value, self._role(group, value))
                key = (operand.tensor, operand.role)
                operands[key] = _larger(operands.get(key), operand)
            for output in node.outputs:
                if read.get(id(output), set()) - {group.number}:
                    operand = self._written(node, output)
                    operands[operand.tensor, "output"] = operand
        anchor = group.nodes[group.anchor]
        work = _joined(group)
        inner = body_layers(anchor, workload_of) if is_control_flow(anchor) else None
        if inner is not None:
            work, notes, weights = inner
            self.notes.update(dict.fromkeys(notes))
            for value in weights:
                operand = self._constant(value)
                operands[operand.tensor, "weight"] = operand
        new, logical = self._parameters(group, inner[2] if inner else ())
        return Layer(
            *(anchor.name, _op(anchor, group), work.kind, work.macs, work.vector_operations),
            *(tuple(operands.values()), work.products, work.independent, new, logical),
            tuple(dict.fromkeys(o for n in group.nodes for o in (n.origin or (n.name,)))),
        )

    def _parameters(self, group: Group, inner: Iterable[Value]) -> tuple[int, int]:
        """Elements of parameters that no layer before has, and of all that this one uses."""
        used = {
            id(value): value
            for node in group.nodes
            for value in parameters_of(node, self.sources, group.attention is not None)
        }
        used |= {id(v): v for v in (self.sources.of(v).value for v in inner)}
        places = [self._number(value) for value in used.values()]
        sizes = [self._elements(value) for value in used.values()]
        new = sum(
            size for place, size in zip(places, sizes, strict=True) if place not in self.counted
        )
        self.counted.update(places)
        return new, sum(sizes)

    def _elements(self, stored: Value) -> int:
        """Of several numbers packed into one byte as many as there are."""
        return self.packed.get(id(stored), stored.type.elements)

    def _role(self, group: Group, value: Value) -> Role:
        if self.sources.is_constant(value):
            return "weight"
        attention = group.attention
        if attention is not None:
            read = (attention.keys, attention.values)
            stored = self.sources.of(value).value
            if any(stored is self.sources.of(v).value for v in read):
                return "kv"
        return "input"

    def _operand(self, node: Node, place: int, value: Value, role: Role) -> Operand:
        op = plain_op(node)
        source = self.sources.of(value)
        touched: int | None = source.elements
        if op in _PARTIAL and place == 0:
            touched = min(source.elements, sum(o.type.elements for o in node.outputs))
        if op in _SCATTERED and place == 0:
            touched = 0
        if role == "input" and reads_past(op, place):
            role = "kv"
        bits = source.value.type.dtype.bits
        stored = source.value.type.elements
        if op == "com.microsoft::MatMulNBits" and place == 1:
            bits = int(node.attrs.get("bits", 4))
            touched = stored = int(node.attrs["K"]) * int(node.attrs["N"])
            self.packed[id(source.value)] = stored
        return self._made(source.value, role, touched, stored, bits)

    def _written(self, node: Node, output: Value) -> Operand:
        elements = output.type.elements
        place = _SCATTERED.get(plain_op(node))
        if place is not None:
            elements = node.input(place).type.elements
        stored = output.type
        return self._made(output, "output", elements, stored.elements, stored.dtype.bits)

    def _constant(self, value: Value) -> Operand:
        stored = self.sources.of(value).value
        elements = stored.type.elements
        return self._made(stored, "weight", elements, elements, stored.type.dtype.bits)

    def _border(self, value: Value, role: Role) -> Operand:
        source = self.sources.of(value)
        elements, bits = value.type.elements, source.value.type.dtype.bits
        return self._made(source.value, role, elements, elements, bits)

    def _made(
        self, value: Value, role: Role, touched: int | None, stored: int, bits: int
    ) -> Operand:
        movable = value.type.dtype.is_float
        return Operand(value.name, self._number(value), role, touched, stored, bits, movable)

    def _number(self, value: Value) -> int:
        return self.numbers.setdefault(id(value), len(self.numbers))


def _larger(one: Operand | None, other: Operand) -> Operand:
    """Of two uses of one tensor by one layer: it is read once."""
    if one is None or (other.elements or 0) > (one.elements or 0):
        return other
    return one


def _op(anchor: Node, group: Group) -> str:
    return "Attention" if group.attention is not None else plain_op(anchor)


def _joined(group: Group) -> Work:
    """The work of all nodes of a group, whose kind is the anchor's."""
    works = group.works
    vector = [w.vector_operations for w in works]
    for i, node in enumerate(group.nodes):
        # A runtime folds it into the weights before it.
        if plain_op(node) == "BatchNormalization" and i and works[0].kind == "product":
            vector[i] = 0
    attends = group.attention is not None
    kind: Kind = "attention" if attends else works[group.anchor].kind
    axes = works[group.anchor].independent
    return Work(
        kind,
        total(w.macs for w in works),
        total(vector),
        tuple(p for w in works for p in w.products),
        tuple(axis for axis in axes if not (attends and axis[0] == KEYS)),
    )
