"""LayerNormalization, RMSNormalization and Softmax that the file spells out, as one node each.

Like activations they are recognised by what they compute: scale, shift and epsilon are measured on
chosen inputs, and the operator with them must then give the part's result on others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.frontend.graph_runner import GraphRunner
from ridgeline.ir import Graph, Node, TensorType, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.edit import origins
from ridgeline.passes.parts import Part, replace_parts

Array = npt.NDArray[Any]

_NAMES = """
Abs Add Clip Div Exp Expand Identity Max Mul Pow Reciprocal Reshape Sqrt Sub
"""
_REDUCING = """
GlobalAveragePool ReduceL2 ReduceMax ReduceMean ReduceSum ReduceSumSquare
"""
_REDUCTIONS = frozenset(_REDUCING.split())
_OPERATORS = _REDUCTIONS | frozenset(_NAMES.split())
# float32 sums of a row, and differences of squares, carry more rounding than one element does.
_TOLERANCE = 1e-5
_SPREADS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
_MOST_ELEMENTS = 1 << 22


def name_normalizations(graph: Graph) -> Graph:
    """The graph with each part that normalises one float32 tensor as one node.

    Over an axis that is not the last, between two Transposes.
    """

    def stands(part: Part) -> list[Node] | None:
        if not any(n.op in _REDUCTIONS for n in part.nodes) or not _fits(part):
            return None
        rows = _Rows.of(part)
        if rows is None:
            return None
        meaning = _Meaning(part, rows, graph.opset)
        for form in (_softmax, _layer, _root_mean_square):
            try:
                found = form(meaning)
            except RidgelineError:  # ONNX Runtime's: the host will say what it lacks
                return None
            if found is not None:
                return _nodes(part, rows, found)
        return None

    return replace_parts(graph, _OPERATORS, stands)


def _fits(part: Part) -> bool:
    x, y = part.root.type, part.output.type
    return x.dtype is FP32 and x.shape == y.shape and bool(x.shape) and 1 < x.elements <= (
        _MOST_ELEMENTS
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is normalised together: the last dimensions from `axis` on, or the one dimension."""

    shape: tuple[int, ...]
    axis: int
    whole_tail: bool

    @staticmethod
    def of(part: Part) -> _Rows | None:
        """As the first reduction says: later ones may be of what is reduced already."""
        shape = part.root.type.shape
        rank = len(shape)
        first = next(n for n in part.nodes if n.op in _REDUCTIONS)
        before, after = first.input(0).type.shape, first.output.type.shape
        if before != shape:
            return None
        axes = reduced_axes(first, rank)
        kept = [1 if a in axes else d for a, d in enumerate(shape)]
        if prod(kept) != prod(after) or not axes:
            return None
        if axes == list(range(axes[0], rank)):
            return _Rows(shape, axes[0], whole_tail=True)
        return _Rows(shape, axes[0], whole_tail=False) if len(axes) == 1 else None

    @property
    def elements(self) -> int:
        """In one row."""
        return prod(self.shape[self.axis :]) if self.whole_tail else self.shape[self.axis]

    def split(self, x: Array) -> Array:
        """As [rows, elements]."""
        moved = x if self.whole_tail else np.moveaxis(x, self.axis, -1)
        return moved.reshape(-1, self.elements)

    def joined(self, rows: Array) -> Array:
        """`split` undone."""
        if self.whole_tail:
            return rows.reshape(self.shape)
        shape = [*self.shape[: self.axis], *self.shape[self.axis + 1 :], self.elements]
        return np.ascontiguousarray(np.moveaxis(rows.reshape(shape), -1, self.axis))

    def last(self) -> tuple[int, ...]:
        """The permutation that brings the axis to the end."""
        rest = [a for a in range(len(self.shape)) if a != self.axis]
        return (*rest, self.axis)


def reduced_axes(node: Node, rank: int) -> list[int]:
    """The axes that a reduction, or a GlobalAveragePool, takes together, in order."""
    if node.op == "GlobalAveragePool":
        return list(range(2, rank))
    given = node.attrs.get("axes")
    axes = node.optional(1)
    if axes is not None and axes.data is not None:
        given = axes.data.reshape(-1)
    if given is None or not len(given):
        return [] if node.attrs.get("noop_with_empty_axes") else list(range(rank))
    return sorted(int(a) % rank for a in given)


class _Meaning:
    """What a part computes, row by row."""

    def __init__(self, part: Part, rows: _Rows, opset: int) -> None:
        self.rows = rows
        self.constants = [
            v.data for n in part.nodes for v in n.inputs if v is not None and v.data is not None
        ]
        self._name = part.root.name
        self._runner = GraphRunner(part.graph(opset))

    def __call__(self, rows: Array) -> Array:
        """float64 [rows, elements] for such rows, which are repeated to fill the tensor."""
        count = prod(self.rows.shape) // self.rows.elements
        filled = np.resize(rows.astype(np.float32), (count, self.rows.elements))
        (y,) = self._runner.run({self._name: self.rows.joined(filled)})
        return self.rows.split(y.astype(np.float64))[: min(count, len(rows))]

    def agrees(self, rows: Array, wanted: Callable[[Array], Array]) -> bool:
        """On rows one after the other, however few the tensor has at once."""
        count = max(1, prod(self.rows.shape) // self.rows.elements)
        single = rows.astype(np.float32).astype(np.float64)
        parts = [single[i : i + count] for i in range(0, len(single), count)]
        for part in parts:
            found, right = self(part), wanted(part)
            # As far as the largest of its row: a sum's rounding is that of its terms.
            scale = np.maximum(np.abs(right).max(axis=1, keepdims=True), 1e-12)
            if not np.all(np.abs(found - right) <= _TOLERANCE * scale):
                return False
        return True

    def samples(self) -> Array:
        """[rows, elements]: rows of every spread, some with a mean."""
        random = np.random.default_rng(0)
        noise = random.standard_normal((2 * len(_SPREADS), self.rows.elements))
        noise[1::2] += 0.5
        return noise * np.repeat(_SPREADS, 2)[:, None]

    def number_near(self, value: float) -> float:
        """The part's own constant that a measured one must be, or else the measured one."""
        flat = list(chain.from_iterable(c.reshape(-1)[:2] for c in self.constants if c.size == 1))
        near = [float(c) for c in flat if abs(float(c) - value) <= 1e-2 * abs(value)]
        return min(near, key=lambda c: abs(c - value), default=value)

    def row_near(self, row: Array) -> Array:
        """The same for a row of numbers."""
        for constant in self.constants:
            if constant.size == row.size and constant.dtype == np.float32:
                flat = constant.reshape(-1).astype(np.float64)
                if np.allclose(flat, row, rtol=1e-4, atol=1e-5):
                    return flat
        return row


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    op: str
    attrs: dict[str, Any]
    rows: tuple[Array, ...] = ()


def _softmax(meaning: _Meaning) -> _Form | None:
    if not any(np.all(np.isfinite(c)) for c in meaning.constants) and meaning.constants:
        return None

    def wanted(rows: Array) -> Array:
        exponential = np.exp(rows - rows.max(axis=1, keepdims=True))
        return exponential / exponential.sum(axis=1, keepdims=True)

    rows = meaning.samples()
    mild = rows[np.abs(rows).max(axis=1) < 60]
    return _Form("Softmax", {}) if meaning.agrees(mild, wanted) else None


def _layer(meaning: _Meaning) -> _Form | None:
    return _normalization(meaning, "LayerNormalization", centred=True)


def _root_mean_square(meaning: _Meaning) -> _Form | None:
    return _normalization(meaning, "RMSNormalization", centred=False)


def _normalization(meaning: _Meaning, op: str, *, centred: bool) -> _Form | None:
    count = meaning.rows.elements
    if count < 2:
        return None
    # Of mean 0 and mean square 1, so that it is its own normalised row.
    signs = np.where(np.arange(count) % 2, -1.0, 1.0)
    signs = signs * np.sqrt(count / (count - 1)) if count % 2 else signs
    signs[-1] = 0.0 if count % 2 else signs[-1]
    other = np.roll(signs, 1)
    (zero,), (large,), (turned,), (small,) = (
        meaning(row[None]) for row in (signs * 0, signs * 1e4, other * 1e4, signs * 1e-4)
    )
    if not np.all(np.isfinite([zero, large, turned, small])):
        return None
    shift = zero
    if not centred and np.any(np.abs(shift) > 1e-6):
        return None
    first, second = (np.divide(y - shift, s, out=np.zeros(count), where=s != 0)
                     for y, s in ((large, signs), (turned, other)))  # fmt: skip
    scale = np.where(signs != 0, first, second)
    if not np.any(scale):
        return None
    scale, shift = meaning.row_near(scale), meaning.row_near(shift)
    strongest = int(np.argmax(np.abs(scale * signs)))
    shrunk = (small - shift)[strongest] / (scale * signs)[strongest]
    if not 0 < shrunk < 1:
        return None
    epsilon = meaning.number_near((1e-4 / shrunk) ** 2 - 1e-8)
    if not epsilon > 0:
        return None

    def wanted(rows: Array) -> Array:
        deviations = rows - rows.mean(axis=1, keepdims=True) if centred else rows
        spread = np.square(deviations).mean(axis=1, keepdims=True)
        return deviations / np.sqrt(spread + epsilon) * scale + shift

    if not meaning.agrees(meaning.samples(), wanted):
        return None
    rows = (scale, shift) if centred and np.any(shift) else (scale,)
    return _Form(op, {"epsilon": float(epsilon)}, rows)


def _nodes(part: Part, rows: _Rows, form: _Form) -> list[Node]:
    last, origin = part.nodes[-1], origins(*part.nodes)
    inputs: list[Value] = [part.root]
    names = ("scale", "shift")
    shape = rows.shape[rows.axis :] if rows.whole_tail else (rows.elements,)
    for name, row in zip(names, form.rows, strict=False):
        data = row.astype(np.float32).reshape(shape)
        inputs.append(Value.constant(f"{last.name}/{name}", data))
    rank = len(rows.shape)
    if form.op == "Softmax" and (len(shape) == 1):
        return [Node("Softmax", last.name, (part.root,), last.outputs, {"axis": rows.axis}, origin)]
    if form.op == "Softmax":
        return _flattened_softmax(part, rows, origin)
    attrs = {**form.attrs, "axis": rows.axis if rows.whole_tail else rank - 1}
    if rows.whole_tail:
        return [Node(form.op, last.name, tuple(inputs), last.outputs, attrs, origin)]
    return _between_transposes(part, rows, inputs, Node(form.op, last.name, (), (), attrs, origin))


def _flattened_softmax(part: Part, rows: _Rows, origin: tuple[str, ...]) -> list[Node]:
    last = part.nodes[-1]
    flat = (prod(rows.shape[: rows.axis]), rows.elements)
    inside = [Value(f"{last.output.name}/{n}", TensorType(flat, FP32)) for n in ("flat", "share")]
    return [
        Node("Reshape", f"{last.name}/flat", (part.root,), (inside[0],), {"shape": flat}, origin),
        Node("Softmax", last.name, (inside[0],), (inside[1],), {"axis": 1}, origin),
        Node(
            "Reshape",
            f"{last.name}/back",
            (inside[1],),
            last.outputs,
            {"shape": rows.shape},
            origin,
        ),
    ]


def _between_transposes(part: Part, rows: _Rows, inputs: Sequence[Value], node: Node) -> list[Node]:
    last, perm = part.nodes[-1], rows.last()
    type = TensorType(tuple(rows.shape[p] for p in perm), FP32)
    moved, made = (Value(f"{last.output.name}/{n}", type) for n in ("moved", "normal"))
    back = tuple(int(p) for p in np.argsort(perm))
    name, origin = last.name, node.origin
    return [
        Node("Transpose", f"{name}/moved", (part.root,), (moved,), {"perm": perm}, origin),
        Node(node.op, name, (moved, *inputs[1:]), (made,), node.attrs, origin),
        Node("Transpose", f"{name}/back", (made,), last.outputs, {"perm": back}, origin),
    ]
