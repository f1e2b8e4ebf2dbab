"""ConvTranspose as a Conv whose channels are the phases of the stride, interleaved afterwards.

With o' = o + pad = q * stride + r, output o takes x[q - j] * w[j * stride + r]: for each r a
convolution over q. The kernel is filled up with zeros to a multiple of the stride. Where the phases
can be DepthToSpace's, all channels of one lie together. A Relu or Clip behind goes in front of the
interleaving, where the convolution takes it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import Uses, rebuild


def lower_transposed(graph: Graph) -> Graph:
    """Every ConvTranspose with constant float32 weights and no dilation, as Conv and moves."""
    uses = Uses(graph)
    nodes: list[Node] = []
    taken: set[int] = set()
    for node in graph.nodes:
        if id(node) in taken:
            continue
        follower = _activation(node, uses)
        made = _lowered(node, follower)
        if made is not None and follower is not None:
            taken.add(id(follower))
        nodes += made or [node]
    return rebuild(graph, nodes)


def _activation(node: Node, uses: Uses) -> Node | None:
    """The Relu or Clip with constant limits that alone reads the node's output."""
    reader = uses.sole_reader(node.outputs[0]) if len(node.outputs) == 1 else None
    if reader is None or reader.op not in ("Relu", "Clip"):
        return None
    limits = [v for v in reader.inputs[1:] if v is not None]
    return reader if all(v.is_constant for v in limits) else None


def transposed_pads(node: Node) -> tuple[int, ...]:
    """Padding at the beginning of each spatial dimension (ONNX ConvTranspose, "output_shape")."""
    given = tuple(node.attrs.get("pads") or ())
    mode = node.attrs.get("auto_pad", "NOTSET")
    spatial = node.input(0).type.shape[2:]
    rank = len(spatial)
    if mode == "VALID":
        return (0,) * rank
    if mode == "NOTSET" and "output_shape" not in node.attrs:
        return given[:rank] or (0,) * rank
    strides = node.attrs.get("strides") or [1] * rank
    extra = node.attrs.get("output_padding") or [0] * rank
    kernel = node.input(1).type.shape[2:]
    begins: list[int] = []
    for axis, size in enumerate(spatial):
        reach = (size - 1) * strides[axis] + extra[axis] + kernel[axis]
        total = max(reach - node.output.type.shape[2 + axis], 0)
        begins.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
    return tuple(begins)


def _lowered(node: Node, activation: Node | None) -> list[Node] | None:
    if node.op != "ConvTranspose" or not node.input(1).is_constant:
        return None
    rank = len(node.input(1).type.shape) - 2
    bias = node.optional(2)
    dilated = any(d != 1 for d in node.attrs.get("dilations") or [1])
    if node.input(1).type.dtype is not FP32 or dilated:
        return None
    if bias is not None and bias.data is None:
        return None
    strides = tuple(int(s) for s in node.attrs.get("strides") or [1] * rank)
    return _Lowering(node, activation, strides, transposed_pads(node)).nodes()


class _Lowering:
    """One ConvTranspose under way; `blocks` is how many kernel blocks of one stride there are."""

    def __init__(
        self,
        node: Node,
        activation: Node | None,
        strides: tuple[int, ...],
        pads: tuple[int, ...],
    ) -> None:
        self.node = node
        self.activation = activation
        self.strides = strides
        self.group = int(node.attrs.get("group", 1))
        self.phases_first = self.group == 1 and len(strides) == 2 and strides[0] == strides[1]
        kernel = node.input(1).type.shape[2:]
        self.blocks = tuple(-(-k // s) for k, s in zip(kernel, strides, strict=True))
        batch, self.channels, *sizes = node.output.type.shape
        self.batch, self.sizes = batch, tuple(sizes)
        # Whole strides of padding are never computed; what is left of it is cut off at the end.
        self.skipped = tuple(
            min(p // s, b - 1) for p, s, b in zip(pads, strides, self.blocks, strict=True)
        )
        skips = zip(pads, strides, self.skipped, strict=True)
        self.cut = tuple(p - s * skip for p, s, skip in skips)
        needed = [-(-(c + o) // s) for c, o, s in zip(self.cut, sizes, strides, strict=True)]
        spatial = node.input(0).type.shape[2:]
        ends = zip(needed, spatial, self.skipped, strict=True)
        self.ends = tuple(max(n - size + skip, 0) for n, size, skip in ends)
        coarse = zip(spatial, self.ends, self.skipped, strict=True)
        self.coarse = tuple(size + end - skip for size, end, skip in coarse)

    def nodes(self) -> list[Node]:
        made: list[Node] = []
        x, phases = self.node.input(0), prod(self.strides)
        coarse = (self.batch, self.channels * phases, *self.coarse)
        value = self._add(made, "Conv", (x, *self._parameters(phases)), coarse, self._window())
        if self.activation is not None:
            inputs = (value, *self.activation.inputs[1:])
            attrs = dict(self.activation.attrs)
            value = self._add(made, self.activation.op, inputs, coarse, attrs)
        if phases > 1:
            value = self._interleaved(made, value)
        rank = len(self.strides)
        if value.type.shape != self.node.output.type.shape:
            ends = [p + o for p, o in zip(self.cut, self.sizes, strict=True)]
            bounds = [self._bounds("starts", self.cut), self._bounds("ends", ends)]
            axes = self._bounds("axes", range(2, 2 + rank))
            self._add(made, "Slice", (value, *bounds, axes), self.node.output.type.shape, {})
        return self._ending_in_output(made)

    def _interleaved(self, made: list[Node], value: Value) -> Value:
        """The phases side by side along the spatial dimensions."""
        rank = len(self.strides)
        fine = tuple(q * s for q, s in zip(self.coarse, self.strides, strict=True))
        whole = (self.batch, self.channels, *fine)
        if self.phases_first:
            attrs: dict[str, object] = {"blocksize": self.strides[0]}
            return self._add(made, "DepthToSpace", (value,), whole, attrs)
        split = (self.batch, self.channels, *self.strides, *self.coarse)
        value = self._add(made, "Reshape", (value,), split, {"shape": split})
        perm = (0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i)))
        mixed = tuple(split[p] for p in perm)
        value = self._add(made, "Transpose", (value,), mixed, {"perm": perm})
        return self._add(made, "Reshape", (value,), whole, {"shape": whole})

    def _window(self) -> dict[str, object]:
        begins = tuple(b - 1 - s for b, s in zip(self.blocks, self.skipped, strict=True))
        ones = (1,) * len(self.strides)
        return {
            "kernel_shape": self.blocks,
            "strides": ones,
            "dilations": ones,
            "pads": (*begins, *self.ends),
            "group": self.group,
        }

    def _parameters(self, phases: int) -> list[Value]:
        """Weights [C, O/g, k…] as [O * phases, C/g, blocks…], and the bias of each phase."""
        weights, rank = self.node.input(1), len(self.strides)
        assert weights.data is not None
        missing = [
            (0, b * s - k)
            for b, s, k in zip(self.blocks, self.strides, weights.type.shape[2:], strict=True)
        ]
        filled = np.pad(weights.data, [(0, 0), (0, 0), *missing])
        inputs, outputs = weights.type.shape[:2]
        pairs = [n for b, s in zip(self.blocks, self.strides, strict=True) for n in (b, s)]
        split = filled.reshape(self.group, inputs // self.group, outputs, *pairs)
        blocks = [3 + 2 * i for i in range(rank)]
        strides = [b + 1 for b in blocks]
        outer = (*strides, 2) if self.phases_first else (2, *strides)
        phased = split.transpose(0, *outer, 1, *blocks)
        flipped = np.flip(phased, axis=tuple(range(-rank, 0)))
        shape = (self.channels * phases, inputs // self.group, *self.blocks)
        values = [Value.constant(weights.name, np.ascontiguousarray(flipped.reshape(shape)))]
        bias = self.node.optional(2)
        if bias is not None and bias.data is not None:
            spread = np.tile if self.phases_first else np.repeat
            values.append(Value.constant(bias.name, spread(bias.data, phases)))
        return values

    def _bounds(self, kind: str, values: Sequence[int]) -> Value:
        return Value.constant(f"{self.node.name}/{kind}", np.asarray(values, np.int64))

    def _add(
        self,
        made: list[Node],
        op: str,
        inputs: tuple[Value | None, ...],
        shape: tuple[int, ...],
        attrs: dict[str, object],
    ) -> Value:
        name = f"{self.node.name}/{op.lower()}{len(made)}" if made else self.node.name
        output = Value(f"{name}/output", TensorType(shape, self.node.output.type.dtype))
        origin = self.node.origin or (self.node.name,)
        made.append(Node(op, name, inputs, (output,), attrs, origin))
        return output

    def _ending_in_output(self, made: list[Node]) -> list[Node]:
        last, end = made[-1], self.activation or self.node
        ended = Node(last.op, last.name, last.inputs, end.outputs, last.attrs, last.origin)
        return [*made[:-1], ended]
