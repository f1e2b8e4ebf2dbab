"""Layers for the report, and the text of every stage for --dump-stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from ridgeline.compiler.place import Placement
from ridgeline.compiler.plan import LayerPlan, TiledLayer
from ridgeline.compiler.support import uses_array
from ridgeline.ir import Graph, Node
from ridgeline.machine.description import Machine
from ridgeline.machine.program import DeviceSegment, Layer, Program
from ridgeline.ops import PRIMITIVES
from ridgeline.ops.primitive import cost_of

Placed = Literal["array", "vector", "move", "host"]


def describe_layers(
    graph: Graph, placement: Placement, machine: Machine, tiled: Iterable[TiledLayer]
) -> tuple[Layer, ...]:
    """One line of the report for every node, in order."""
    visits = Counter(layer.plan.index for layer in tiled)
    return tuple(
        _layer(node, placement, machine, max(1, visits[number]))
        for number, node in enumerate(graph.nodes)
    )


def _layer(node: Node, placement: Placement, machine: Machine, visits: int) -> Layer:
    primitive = PRIMITIVES.get(node.op)
    cost = primitive.cost(node) if primitive else cost_of(node)
    return Layer(
        name=node.name,
        op=_operator(node),
        placed=_placed(node, placement, machine),
        macs=cost.macs,
        vector_operations=cost.vector_operations,
        weight_bytes=cost.weight_bytes,
        input_bytes=cost.input_bytes,
        output_bytes=cost.output_bytes,
        shape=node.output.type.shape,
        reason=placement.reasons[id(node)] or "",
        origin=node.origin,
        visits=visits,
    )


def _operator(node: Node) -> str:
    """A table goes by the name of its function where that is one operator."""
    if node.op not in ("Lookup", "Move"):
        return node.op
    function: Graph = node.attrs["function"]
    return function.nodes[0].op if len(function.nodes) == 1 else node.op


def _placed(node: Node, placement: Placement, machine: Machine) -> Placed:
    if not placement.on_device(node):
        return "host"
    if uses_array(node, machine):
        return "array"
    moved = placement.storage[id(node.output)].moved
    return "move" if moved or node.op in ("Reshape", "Transpose") else "vector"


def dump_plan(plans: Mapping[int, list[LayerPlan]]) -> str:
    """Every layer plan: geometry and tiles."""
    lines: list[str] = []
    for segment, layers in plans.items():
        lines.append(f"segment {segment}")
        for plan in layers:
            tiles = sum(len(c.tiles) for c in plan.columns)
            layouts = " ".join(_layout_text(o.layout) for o in plan.inputs)
            lines.append(
                f"  {plan.node.name}: {plan.kind} {layouts} -> {_layout_text(plan.output.layout)}"
                + (
                    f" kernel={plan.window.kernel} stride={plan.window.stride}"
                    f" dilation={plan.window.dilation} pad={plan.window.pad}"
                    if plan.kind in ("matmul", "window")
                    else ""
                )
                + (f" column tiles={len(plan.columns)} weight tiles={tiles}" if tiles else "")
            )
    return "\n".join(lines) + "\n"


def _layout_text(layout: object) -> str:
    from ridgeline.compiler.layout import Layout

    assert isinstance(layout, Layout)
    return f"{layout.format}[n={layout.n} h={layout.h} w={layout.w} c={layout.c}]"


def dump_tiles(tiled: Mapping[int, Sequence[TiledLayer]]) -> str:
    """Every layer's boxes and unified-buffer lines."""
    lines: list[str] = []
    for segment, layers in tiled.items():
        lines.append(f"segment {segment}")
        for layer in layers:
            if layer.plan.kind == "alias":
                lines.append(f"  {layer.plan.node.name}: shares its input's lines")
                continue
            first = layer.inputs[0]
            ins = ", ".join(f"lines {r.line}..{r.line + r.lines - 1}" for r in first)
            out = layer.outputs[0]
            stored = ", stored" if layer.store else ""
            stored += f"; {layer.rows} rows a MatMul" if layer.rows else ""
            lines.append(
                f"  {layer.plan.node.name}: {len(layer.boxes)} boxes of at most"
                f" {max(b.rows for b in layer.boxes)} rows; reads {ins}; writes lines"
                f" {out.line}..{out.line + out.lines - 1}{stored}"
            )
    return "\n".join(lines) + "\n"


def dump_program(program: Program) -> str:
    """Every instruction, numbered, by segment: the disassembly."""
    lines: list[str] = []
    for number, segment in enumerate(program.segments):
        if isinstance(segment, DeviceSegment):
            lines.append(f"segment {number}: device, {len(segment.instructions)} instructions")
            for index, instruction in enumerate(segment.instructions):
                name = program.layers[instruction.layer].name if instruction.layer >= 0 else ""
                lines.append(f"  {index:5} {instruction}" + (f"  ; {name}" if name else ""))
            lines.append("        Halt")
        else:
            lines.append(f"segment {number}: host, {segment.operations} operations: {segment.name}")
    return "\n".join(lines) + "\n"
