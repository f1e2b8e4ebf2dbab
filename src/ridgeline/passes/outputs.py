"""What the compiler may rely on in a finished graph: outputs are computed, constants stand last.

Both hold for the float graph only where they change no number.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeline.ir import Graph, Node, Value
from ridgeline.passes.edit import rebuild

_COMMUTATIVE = ("Add", "Mul")


def compute_outputs(graph: Graph) -> Graph:
    """An output that is a constant, an input, or given twice is made by an Identity of its own.

    A name means one value, so that the output which repeats "x" is called "x/output".
    """
    made = {id(v) for node in graph.nodes for v in node.outputs}
    seen: set[int] = set()
    outputs: list[Value] = []
    nodes = list(graph.nodes)
    for value in graph.outputs:
        if id(value) in made and id(value) not in seen:
            seen.add(id(value))
            outputs.append(value)
            continue
        name, source = f"{value.name}/output", value
        if value.is_constant and id(value) not in seen:
            name, source = value.name, replace(value, name=f"{value.name}/source")
        seen.add(id(value))
        output = Value(name, value.type)
        nodes.append(Node("Identity", f"{value.name}/output", (source,), (output,)))
        outputs.append(output)
    return rebuild(replace(graph, outputs=tuple(outputs)), nodes)


def constants_last(graph: Graph) -> Graph:
    """Add and Mul with the constant as second operand. For real numbers order means nothing."""
    nodes = [_constant_last(node) for node in graph.nodes]
    return rebuild(graph, nodes)


def _constant_last(node: Node) -> Node:
    if node.op not in _COMMUTATIVE or len(node.inputs) != 2:
        return node
    first, second = node.input(0), node.input(1)
    return replace(node, inputs=(second, first)) if first.is_constant else node
