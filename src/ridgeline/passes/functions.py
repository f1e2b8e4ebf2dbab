"""Functions of one value, however they are spelled, as one node each: what a table can stand for.

A region is every element-by-element operator that depends on one tensor and single numbers alone:
Sigmoid, x * Sigmoid(x), x * Clip(x + 3, 0, 6) / 6, GELU with Erf or Tanh. It becomes a node
`Lookup` whose attribute `function` holds the region as a Graph, so that the float graph computes
what it did. Quantisation gives it its table; one that stays in float is spelled out again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.frontend.tabulate import tabulate
from ridgeline.ir import Graph, Node, Value
from ridgeline.numerics.formats import FP32
from ridgeline.passes.dead import remove_dead
from ridgeline.passes.edit import Uses, origins, rebuild

# What the vector unit has without a table: alone, these are no reason for one.
_PLAIN = frozenset(("Add", "Clip", "Identity", "Mul"))
_OTHERS = """
Abs Acos Acosh And Asin Asinh Atan Atanh Cast CastLike Ceil Celu Cos Cosh Div Elu Equal Erf
Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish LeakyRelu Less LessOrEqual Log Max
Min Mish Mod Neg Not Or PRelu Pow Reciprocal Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor com.microsoft::FastGelu
com.microsoft::Gelu com.microsoft::QuickGelu
"""
_ELEMENTWISE = _PLAIN | frozenset(_OTHERS.split())


def fuse_functions(graph: Graph) -> Graph:
    """Every region that the vector unit has no operation for, as one Lookup for each result."""
    regions = _Regions(graph)
    made = {id(node): fused for node in graph.nodes if (fused := regions.fused(node))}
    if not made:
        return graph
    return remove_dead(rebuild(graph, [made.get(id(n), n) for n in graph.nodes]))


def inline_functions(graph: Graph) -> Graph:
    """Every Lookup and Move that is still in float, spelled out as it was."""
    nodes: list[Node] = []
    for node in graph.nodes:
        inline = "function" in node.attrs and node.output.type.dtype.is_float
        nodes += _spelled_out(node) if inline else [node]
    return rebuild(graph, nodes)


def with_table(node: Node, x: Value, y: Value) -> Node:
    """The Lookup from stored `x` to stored `y`, both 8 bits, with ONNX Runtime's table."""
    table = Value.constant(f"{node.name}/table", tabulate(node.attrs["function"], x.type, y.type))
    return Node(node.op, node.name, (x, table), (y,), node.attrs, node.origin)


class _Regions:
    """For each value, the tensor that it is a function of."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._uses = Uses(graph)
        self._roots: dict[int, Value] = {}
        for node in graph.nodes:
            root = self._root_of(node)
            if root is not None:
                self._roots[id(node.output)] = root

    def _root(self, value: Value) -> Value:
        return self._roots.get(id(value), value)

    def _root_of(self, node: Node) -> Value | None:
        if node.op not in _ELEMENTWISE or len(node.outputs) != 1:
            return None
        given = [v for v in node.inputs if v is not None]
        roots = {id(r): r for r in (self._root(v) for v in given if not v.is_constant)}
        if len(roots) != 1 or any(v.is_constant and v.type.elements != 1 for v in given):
            return None
        (root,) = roots.values()
        if root.type.dtype is not FP32 or root.type.shape != node.output.type.shape:
            return None
        return root if root.type.shape else None

    def fused(self, node: Node) -> Node | None:
        """The Lookup in the place of the last node of a region that needs one."""
        root = self._roots.get(id(node.output))
        if root is None or node.output.type.dtype is not FP32 or not self._leaves(node, root):
            return None
        region = self._between(root, node)
        products = [n for n in region if sum(not v.is_constant for v in _given(n)) > 1]
        if (len(region) == 1 or not products) and all(n.op in _PLAIN for n in region):
            return None
        function = Graph(node.name, (root,), (node.output,), tuple(region), self._graph.opset)
        attrs = {"function": function.check()}
        return Node("Lookup", node.name, (root,), node.outputs, attrs, origins(*region))

    def _leaves(self, node: Node, root: Value) -> bool:
        """Whether anything outside of the region reads what the node makes."""
        readers = self._uses.readers(node.output)
        inside = [self._roots.get(id(r.output)) is root for r in readers]
        return self._uses.is_output(node.output) or not all(inside)

    def _between(self, root: Value, last: Node) -> list[Node]:
        """The nodes from `root` to `last`, in the graph's order."""
        wanted, waiting = {id(last)}, [last]
        while waiting:
            for value in _given(waiting.pop()):
                producer = None if value is root else self._uses.producer(value)
                if producer is not None and id(producer) not in wanted:
                    wanted.add(id(producer))
                    waiting.append(producer)
        return [n for n in self._graph.nodes if id(n) in wanted]


def _given(node: Node) -> list[Value]:
    return [v for v in node.inputs if v is not None]


def _spelled_out(node: Node) -> list[Node]:
    function: Graph = node.attrs["function"]
    values: dict[int, Value] = {
        id(function.inputs[0]): node.input(0),
        id(function.outputs[0]): node.output,
    }
    return [_renamed(inner, node.name, values) for inner in function.nodes]


def _renamed(inner: Node, prefix: str, values: dict[int, Value]) -> Node:
    """A node of a function over values of its own: several functions may share one spelling."""
    inputs = tuple(None if v is None else _known(v, values) for v in inner.inputs)
    for value in inner.outputs:
        values.setdefault(id(value), Value(f"{prefix}/{value.name}", value.type))
    outputs = tuple(_known(v, values) for v in inner.outputs)
    name = inner.name if inner.name == prefix else f"{prefix}/{inner.name}"
    return Node(inner.op, name, inputs, outputs, inner.attrs, inner.origin)


def _known(value: Value, values: Mapping[int, Value]) -> Value:
    return values.get(id(value), value)
