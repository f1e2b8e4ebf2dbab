"""Where values cross between host and device: tensors in host memory, and host segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ridgeline.compiler.layout import layout_of
from ridgeline.compiler.memory import Space
from ridgeline.compiler.place import Placement
from ridgeline.errors import RidgelineError
from ridgeline.frontend.onnx_writer import onnx_bytes
from ridgeline.ir import Graph, Node, Value
from ridgeline.machine.description import Machine
from ridgeline.machine.program import HostSegment, HostTensor, Packing
from ridgeline.ops import PRIMITIVES


class Borders:
    """The host side of a compilation: which values it holds, how packed and where."""

    def __init__(
        self, graph: Graph, placement: Placement, machine: Machine, host_link: bool
    ) -> None:
        self.graph = graph
        self.placement = placement
        self.machine = machine
        self.host_link = host_link
        self.host = Space()
        self._packed: dict[int, HostTensor] = {}
        self._plain: dict[int, HostTensor] = {}
        self._producers = graph.producers()
        self._users = graph.users()

    def made_on_device(self, value: Value) -> bool:
        """Whether a device node makes the value."""
        node = self._producers.get(id(value))
        return node is not None and self.placement.on_device(node)

    def needed_by_host(self, value: Value) -> bool:
        """Whether a host node reads the value, or the user gets it."""
        users = self._users.get(id(value), [])
        return any(not self.placement.on_device(u) for u in users) or any(
            v is value for v in self.graph.outputs
        )

    def needed_by_device(self, value: Value) -> bool:
        """Whether a device node reads the value."""
        return any(self.placement.on_device(u) for u in self._users.get(id(value), []))

    def bytes_of(self, root: Value) -> int:
        """Bytes of a value in device memory."""
        return self.packing(root).bytes(root.type.shape, root.type.dtype)

    def packing(self, value: Value) -> Packing:
        """How a value that the device knows is packed."""
        stored = self.placement.storage[id(value)]
        packing = layout_of(value.type, stored.channel_axis, self.machine).packing
        return replace(packing, pads=stored.pads, fill=stored.fill)

    def packed(self, value: Value) -> HostTensor:
        """The value in host memory as the device has it."""
        if id(value) not in self._packed:
            self._packed[id(value)] = self._tensor(value, self.packing(value))
        return self._packed[id(value)]

    def plain(self, value: Value) -> HostTensor:
        """The value in host memory in C order."""
        if id(value) not in self._plain:
            self._plain[id(value)] = self._tensor(value, Packing())
        return self._plain[id(value)]

    def _tensor(self, value: Value, packing: Packing) -> HostTensor:
        type = value.type
        address = self.host.take(packing.bytes(type.shape, type.dtype))
        return HostTensor(value.name, type.shape, type.dtype, address, packing)

    def host_tensors(
        self, entering: Sequence[Value], leaving: Sequence[Value]
    ) -> tuple[tuple[HostTensor, ...], tuple[HostTensor, ...]]:
        """(read, written) tensors of a host segment. One that both sides read is written twice."""
        reads = tuple(self.packed(v) if self.made_on_device(v) else self.plain(v) for v in entering)
        writes: list[HostTensor] = []
        for value in leaving:
            if self.needed_by_device(value):
                writes.append(self.packed(value))
            if self.needed_by_host(value):
                writes.append(self.plain(value))
        return reads, tuple(writes)

    def program_tensors(
        self, addresses: Mapping[int, int]
    ) -> tuple[tuple[HostTensor, ...], tuple[HostTensor, ...]]:
        """The program's inputs and outputs."""
        inputs: list[HostTensor] = []
        for value in self.graph.inputs:
            inputs += self._input_tensors(value, addresses)
        outputs = tuple(self._output_tensor(value, addresses) for value in self.graph.outputs)
        return tuple(inputs), outputs

    def _input_tensors(self, value: Value, addresses: Mapping[int, int]) -> list[HostTensor]:
        if not self.host_link:
            return [self._in_device(value, addresses)] if self.needed_by_device(value) else []
        tensors: list[HostTensor] = []
        if self.needed_by_device(value):
            tensors.append(self.packed(value))
        if self.needed_by_host(value) or not tensors:
            tensors.append(self.plain(value))
        return tensors

    def _output_tensor(self, value: Value, addresses: Mapping[int, int]) -> HostTensor:
        if id(value) not in self._producers:
            raise RidgelineError(
                f"output '{value.name}' is an input or a constant: nothing computes it",
                where=f"graph '{self.graph.name}'",
                fix="Remove the output from the model",
            )
        if not self.host_link:
            return self._in_device(value, addresses)
        return self.packed(value) if self.made_on_device(value) else self.plain(value)

    def _in_device(self, value: Value, addresses: Mapping[int, int]) -> HostTensor:
        root = self.placement.storage[id(value)].root
        type = value.type
        address = addresses[id(root)]
        return HostTensor(value.name, type.shape, type.dtype, address, self.packing(value))


def host_segment(
    graph: Graph,
    nodes: tuple[Node, ...],
    entering: Sequence[Value],
    leaving: Sequence[Value],
    borders: Borders,
    index: Mapping[int, int],
) -> HostSegment:
    """The host's share: its nodes as an ONNX model, its tensors, its operations."""
    part = Graph(f"{graph.name}_host", tuple(entering), tuple(leaving), nodes, graph.opset).check()
    reads, writes = borders.host_tensors(entering, leaving)
    return HostSegment(
        name=" + ".join(node.name for node in nodes[:3]) + (" + ..." if len(nodes) > 3 else ""),
        model=onnx_bytes(part),
        inputs=reads,
        outputs=writes,
        operations=sum(host_operations(node) for node in nodes),
        layers=tuple(index[id(node)] for node in nodes),
    )


def host_operations(node: Node) -> int:
    """Operations of a node on the host: 2 x MACs and one for each element made besides."""
    elements = sum(v.type.elements for v in node.outputs)
    if node.op not in PRIMITIVES:
        return elements
    cost = PRIMITIVES[node.op].cost(node)
    return 2 * cost.macs + max(cost.vector_operations, elements)
