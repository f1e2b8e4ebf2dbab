"""A float graph into a quantised one: calibrated activations, integer weights, float borders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from ridgeline.errors import RidgelineError
from ridgeline.frontend.evaluate import evaluate_constant
from ridgeline.ir import Graph, Node, Quant, TensorType, Value
from ridgeline.passes.functions import fuse_functions, inline_functions, with_table
from ridgeline.passes.moves import fuse_moves
from ridgeline.passes.pipeline import FLOAT_PASSES, is_quantised, run_passes
from ridgeline.passes.precision import in_float32
from ridgeline.quant.calibrate import calibrate
from ridgeline.quant.choose import choose_observer
from ridgeline.quant.equalize import equalize_outputs
from ridgeline.quant.narrow import narrow_ranges
from ridgeline.quant.parameters import activation_quant, quantize_constant, quantize_layer
from ridgeline.quant.products import ProductInput
from ridgeline.quant.recipe import Recipe
from ridgeline.quant.select import KEEPING, PRODUCTS, Sharing, activations, select_nodes

Array = npt.NDArray[Any]

QUANTIZED_SUFFIX = "_quantized"


def quantize(
    graph: Graph,
    samples: Mapping[str, Array],
    recipe: Recipe | None = None,
    done: Callable[[int], None] | None = None,
) -> Graph:
    """Quantise a float graph as `recipe` (by default `Recipe()`) says.

    `samples` holds, by input name, arrays of [samples, ...]; `done` is called with how many more of
    them have been run. The graph is folded and fused first,
    and brought to float32 inside if it is float16, bfloat16 or float64.
    Inputs and outputs stay float: QuantizeLinear and DequantizeLinear stand at the borders, and
    around operators that stay float. Raises RidgelineError for samples that do not fit, and for a
    graph that is quantised already.
    """
    chosen_recipe = recipe or Recipe()
    if is_quantised(graph):
        raise RidgelineError(
            "the model is quantised already",
            where=f"graph '{graph.name}'",
            fix="Run it as it is, or quantise the float model.",
        )
    if chosen_recipe.observer == "chosen":
        chosen_recipe = choose_observer(graph, samples, chosen_recipe, quantize)
    fused = run_passes(in_float32(graph), FLOAT_PASSES)
    if chosen_recipe.activation_format.bits == 8:
        fused = fuse_functions(fused)
    fused = fuse_moves(fused, evaluate_constant)
    real: list[str] = []
    if chosen_recipe.per_channel:
        fused, real = equalize_outputs(fused, samples, chosen_recipe.keep_float)
    nodes = select_nodes(fused, (*chosen_recipe.keep_float, *real))
    seen = {id(n): ProductInput(n, chosen_recipe) for n in nodes if _has_weights(n)}
    watched = [(n.input(0), seen[id(n)]) for n in nodes if id(n) in seen]
    ranges = calibrate(fused, samples, _observed(nodes), chosen_recipe, watched, done)
    ranges = narrow_ranges(fused, nodes, ranges, chosen_recipe.activation_format)
    quantizer = _Quantizer(fused, nodes, Sharing(nodes, ranges), chosen_recipe, seen)
    return inline_functions(quantizer.graph())


def _observed(nodes: Sequence[Node]) -> list[Value]:
    """The values whose range decides a quantisation: all but what only keeps its input's."""
    kept = {
        id(n.output)
        for n in nodes
        if n.op in KEEPING and not n.input(0).is_constant and not n.attrs.get("fill")
    }
    values = {id(v): v for n in nodes for v in activations(n)}
    return [v for key, v in values.items() if key not in kept]


def _has_weights(node: Node) -> bool:
    """Whether it is a Conv, or a MatMul by a constant [k, n]."""
    if node.op == "Conv":
        return True
    return node.op == "MatMul" and node.input(1).is_constant and len(node.input(1).type.shape) == 2


class _Quantizer:
    """The state of one rewriting: the stored counterpart of each real value."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        sharing: Sharing,
        recipe: Recipe,
        seen: Mapping[int, ProductInput],
    ) -> None:
        self._graph = graph
        self._chosen = {id(n) for n in nodes}
        self._sharing = sharing
        self._recipe = recipe
        self._seen = seen
        self._wanted = {id(v) for n in nodes for v in activations(n)}
        self._real = {id(v) for v in graph.outputs}
        for node in graph.nodes:
            if id(node) not in self._chosen:
                self._real.update(id(v) for v in node.inputs if v is not None)
        self._stored: dict[int, Value] = {}
        self._quants: dict[int, Quant] = {}
        self._made: list[Node] = []

    def graph(self) -> Graph:
        for value in self._graph.inputs:
            self._quantize_real(value)
        for node in self._graph.nodes:
            if id(node) in self._chosen:
                self._quantize_node(node)
            else:
                self._made.append(node)
                for value in node.outputs:
                    self._quantize_real(value)
        g = self._graph
        return Graph(g.name, g.inputs, g.outputs, tuple(self._made), g.opset).check()

    def _counterpart(self, value: Value) -> Value:
        """The stored value of a real one, made once."""
        if id(value) not in self._stored:
            dtype = self._recipe.activation_format
            type = TensorType(value.type.shape, dtype, self._quant(value))
            self._stored[id(value)] = Value(f"{value.name}{QUANTIZED_SUFFIX}", type)
        return self._stored[id(value)]

    def _quant(self, value: Value) -> Quant:
        root = self._sharing.root(value)
        if root not in self._quants:
            found = self._sharing.of(value)
            dtype = self._recipe.activation_format
            self._quants[root] = activation_quant(found.low, found.high, dtype, found.clips)
        return self._quants[root]

    def _quantize_real(self, value: Value) -> None:
        """QuantizeLinear after a float value that a quantised node reads."""
        if id(value) in self._wanted:
            stored = self._counterpart(value)
            self._made.append(Node("QuantizeLinear", f"{value.name}/quantize", (value,), (stored,)))

    def _quantize_node(self, node: Node) -> None:
        """The node on integers; a DequantizeLinear where something reads its real result."""
        stored = self._counterpart(node.output)
        if node.op == "Lookup":
            self._made.append(with_table(node, self._counterpart(node.input(0)), stored))
        else:
            inputs = self._product(node) if node.op in PRODUCTS else self._operands(node)
            made = Node(node.op, node.name, inputs, (stored,), node.attrs, node.origin)
            self._made.append(made)
        if id(node.output) in self._real:
            name = f"{node.output.name}/dequantize"
            self._made.append(Node("DequantizeLinear", name, (stored,), (node.output,)))

    def _operands(self, node: Node) -> tuple[Value, ...]:
        if node.op == "PRelu":
            return (self._operand(node.input(0)), node.input(1))
        return tuple(self._operand(v) for v in node.inputs if v is not None)

    def _operand(self, value: Value) -> Value:
        if not value.is_constant:
            return self._counterpart(value)
        if id(value) not in self._stored:
            constant = quantize_constant(value, self._recipe.activation_format)
            self._stored[id(value)] = constant
        return self._stored[id(value)]

    def _product(self, node: Node) -> tuple[Value, ...]:
        x, weights, bias = self._operand(node.input(0)), node.input(1), node.optional(2)
        if not weights.is_constant:
            return (x, self._operand(weights))
        assert x.type.quant is not None
        axis = 0 if node.op == "Conv" else len(weights.type.shape) - 1
        per_channel = self._recipe.per_channel and (node.op == "Conv" or axis == 1)
        seen = self._seen.get(id(node))
        layer = quantize_layer(
            weights,
            bias,
            x.type.quant,
            axis if per_channel else None,
            self._recipe.weight_format,
            None if seen is None else seen.rounding(),
            None if seen is None else seen.shift(),
        )
        return (x, layer.weights) if layer.bias is None else (x, layer.weights, layer.bias)
