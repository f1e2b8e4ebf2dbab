"""Activations that the file spells out, each as the one ONNX operator that computes it.

They are recognised by their values, not by their spelling: a part of the graph is an activation
when it has its value at every sample, up to float32's rounding. So the order of operands, constants
with or without dimensions, Div for Mul and Pow for Mul are all the same to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import erf
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
Attributes = Mapping[str, Any]

# How far from the activation's value a spelling in float32 may be, of the larger of it and one.
TOLERANCE = 3e-6

_NAMES = """
Abs Add Cast Clip Div Elu Erf Exp Greater GreaterOrEqual HardSigmoid HardSwish Identity LeakyRelu
Less LessOrEqual Log Max Min Mul Neg Not PRelu Pow Reciprocal Selu Sigmoid Sign Softplus Sqrt Sub
Tanh Where
"""
_OPERATORS = frozenset(_NAMES.split())
_FARTHEST = 1e4


def name_activations(graph: Graph) -> Graph:
    """The graph with each part that computes an activation of one float32 tensor as one node.

    Among them those with a slope for each channel, which become PRelu.
    """
    known: dict[object, _Form | None] = {}

    def stands(part: Part) -> list[Node] | None:
        curve = _Curve.of(part)
        if curve is None:
            return None
        if curve.key not in known:
            known[curve.key] = _recognised(curve, graph.opset)
        form = known[curve.key]
        return None if form is None else [_node(part, form)]

    return replace_parts(graph, _OPERATORS, stands)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """An operator, and with `slopes` [channels] a PRelu along `axis`."""

    op: str
    attrs: Attributes
    slopes: Array | None = None
    axis: int = 0


def _node(part: Part, form: _Form) -> Node:
    last = part.nodes[-1]
    inputs = [part.root]
    if form.slopes is not None:
        rank = len(part.root.type.shape)
        shape = (-1, *([1] * (rank - 1 - form.axis)))
        slopes = form.slopes.astype(np.float32).reshape(shape)
        inputs.append(Value.constant(f"{last.name}/slope", slopes))
    origin = origins(*part.nodes)
    return Node(form.op, last.name, tuple(inputs), last.outputs, form.attrs, origin)


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """A part whose every element depends on one element of its root: a function of one number,
    or with `axis` one for each of `channels`.
    """

    part: Part
    axis: int
    channels: int

    @staticmethod
    def of(part: Part) -> _Curve | None:
        root, shape = part.root, part.root.type.shape
        if root.type.dtype is not FP32 or not shape or part.output.type.dtype is not FP32:
            return None
        if all(n.op == "Clip" for n in part.nodes):
            return None  # fuse makes one of them
        if any(n.output.type.shape != shape for n in part.nodes):
            return None
        axes: dict[int, int] = {}
        for value in (v for n in part.nodes for v in n.inputs if v is not None and v.is_constant):
            dims = (1,) * (len(shape) - len(value.type.shape)) + value.type.shape
            axes |= {axis: size for axis, size in enumerate(dims) if size != 1}
        if len(axes) > 1 or 0 in axes or (axes and len(shape) < 2):
            return None
        axis, channels = next(iter(axes.items()), (0, 1))
        return _Curve(part, axis, channels)

    @property
    def key(self) -> object:
        """Equal for parts that compute the same."""
        numbers = {id(self.part.root): 0}
        described: list[object] = [len(self.part.root.type.shape), self.axis]
        for node in self.part.nodes:
            given = [
                None
                if v is None
                else (v.data.shape, v.data.tobytes())
                if v.data is not None
                else numbers[id(v)]
                for v in node.inputs
            ]
            numbers[id(node.output)] = len(numbers)
            described.append(
                (node.op, sorted(map(str, node.attrs.items())), tuple(map(str, given)))
            )
        return str(described)

    def values(self, x: Array, opset: int) -> Array | None:
        """float64 [samples, channels] at `x` [samples], in ONNX Runtime; None where it refuses."""
        shape = [len(x), *([1] * (len(self.part.root.type.shape) - 1))]
        if self.channels > 1:
            shape[self.axis] = self.channels
        tall = x.astype(np.float32).reshape(-1, *([1] * (len(shape) - 1)))
        graph = _with_shape(self.part, tuple(shape), opset)
        try:
            (y,) = GraphRunner(graph).run(
                {graph.inputs[0].name: np.ascontiguousarray(np.broadcast_to(tall, shape))}
            )
        except RidgelineError:
            return None
        return y.astype(np.float64).reshape(len(x), self.channels)

    def constants(self) -> Array:
        """Where the part may bend: its own numbers."""
        numbers = [
            v.data.reshape(-1).astype(np.float64)
            for n in self.part.nodes
            for v in n.inputs
            if v is not None and v.data is not None and v.data.size <= 1
        ]
        bounds = [v for n in self.part.nodes for v in n.attrs.values() if isinstance(v, float)]
        return np.concatenate([*numbers, np.asarray(bounds, np.float64)])


def _with_shape(part: Part, shape: tuple[int, ...], opset: int) -> Graph:
    """The part over a tensor of another shape: all of its values have the root's."""
    values: dict[int, Value] = {}

    def shaped(value: Value) -> Value:
        if value.is_constant:
            return value
        if id(value) not in values:
            name = f"v{len(values)}"
            values[id(value)] = Value(name, TensorType(shape, value.type.dtype))
        return values[id(value)]

    root = shaped(part.root)
    nodes = tuple(
        Node(
            n.op,
            f"n{index}",
            tuple(None if v is None else shaped(v) for v in n.inputs),
            tuple(map(shaped, n.outputs)),
            n.attrs,
        )
        for index, n in enumerate(part.nodes)
    )
    return Graph("curve", (root,), nodes[-1].outputs, nodes, opset)


@cache
def _samples() -> Array:
    """Both signs, dense where activations bend, and far out; special points are among them."""
    dense = np.arange(-12, 12.001, 1 / 64)
    far = np.geomspace(12, _FARTHEST, 64)
    return np.unique(np.concatenate([dense, far, -far]).astype(np.float32)).astype(np.float64)


def _recognised(curve: _Curve, opset: int) -> _Form | None:
    own = curve.constants()
    near = own[(np.abs(own) < _FARTHEST) & (own != 0)]
    around = np.concatenate([s * near * f for s in (-1, 1) for f in (0.999, 1, 1.001)])
    x = np.unique(np.concatenate([_samples(), around]).astype(np.float32)).astype(np.float64)
    y = curve.values(x, opset)
    if y is None or not np.all(np.isfinite(y)):
        return None
    if curve.channels > 1:
        return _sloped(x, y, curve.axis)
    line = y[:, 0]
    for form in _FORMS:
        found = form(x, line)
        if found is not None and _is_near(line, found[1]):
            return found[0]
    return None


def _is_near(found: Array, wanted: Array) -> bool:
    return bool(np.all(np.abs(found - wanted) <= TOLERANCE * np.maximum(1, np.abs(wanted))))


def _sloped(x: Array, y: Array, axis: int) -> _Form | None:
    slopes = -_at(x, y, -1.0)
    wanted = np.where(x[:, None] < 0, x[:, None] * slopes, x[:, None])
    return _Form("PRelu", {}, slopes, axis) if _is_near(y, wanted) else None


def _at(x: Array, y: Array, place: float) -> Any:
    return y[int(np.searchsorted(x, place))]


Found = tuple[_Form, Array] | None


def _clip(x: Array, y: Array) -> Found:
    low, high = float(y[0]), float(y[-1])
    bounds = {"min": low if low > x[0] else None, "max": high if high < x[-1] else None}
    attrs = {key: bound for key, bound in bounds.items() if bound is not None}
    if not attrs or low > high:
        return None
    return _Form("Clip", attrs), np.clip(x, bounds["min"], bounds["max"])


def _leaky(x: Array, y: Array) -> Found:
    slope = -float(_at(x, y, -1.0))
    if slope == 1:
        return None
    return _Form("LeakyRelu", {"alpha": slope}), np.where(x < 0, slope * x, x)


def _hard_sigmoid(x: Array, y: Array) -> Found:
    beta = float(_at(x, y, 0.0))
    alpha = float(_at(x, y, 0.25) - _at(x, y, -0.25)) * 2
    form = _Form("HardSigmoid", {"alpha": alpha, "beta": beta})
    return form, np.clip(alpha * x + beta, 0, 1)


def _swish(x: Array, y: Array) -> Found:
    share = float(_at(x, y, 1.0))
    if not 0 < share < 1:
        return None
    alpha = float(np.log(share / (1 - share)))
    alpha = 1.0 if abs(alpha - 1) < TOLERANCE else alpha
    return _Form("Swish", {"alpha": alpha}), x * _sigmoid(alpha * x)


def _elu(x: Array, y: Array) -> Found:
    alpha = -float(y[0])
    return _Form("Elu", {"alpha": alpha}), np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(x / 2))


def _plain(op: str, meaning: Callable[[Array], Array], **attrs: Any) -> Callable[..., Found]:
    def form(x: Array, _y: Array) -> Found:
        return _Form(op, attrs), meaning(x)

    return form


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.asarray([erf(v) for v in x / np.sqrt(2)]))


def _gelu_by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


# Each gives the operator with the attributes that fit best, and its values at x.
_FORMS: tuple[Callable[[Array, Array], Found], ...] = (
    _clip,
    _leaky,
    _plain("HardSwish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    _hard_sigmoid,
    _swish,
    _plain("Gelu", _gelu, approximate="none"),
    _plain("Gelu", _gelu_by_tanh, approximate="tanh"),
    _plain("Mish", lambda x: x * np.tanh(_softplus(x))),
    _plain("Sigmoid", _sigmoid),
    _plain("Tanh", np.tanh),
    _plain("Softplus", _softplus),
    _elu,
)
