"""Narrow first layers: windows gathered into lines, so that the array's rows have work.

A tensor of few channels fills few of the array's rows, tap after tap. When it comes from the host,
the host pads it, and the load unit brings the contiguous bytes of a window's row (or of all its
rows) to one line: the convolution becomes one with a kernel of 1 along x (or 1 x 1) and that many
times more channels. It costs more loads; the cheaper of the three is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ridgeline.compiler.layout import Gather, Layout
from ridgeline.compiler.place import Placement
from ridgeline.compiler.plan import Operand, Window
from ridgeline.ir import Node, Value
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions.memory_port import port_cycles
from ridgeline.ops.stored import scalars_of


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The operand whose rows are windows, and the window that is left to the array."""

    operand: Operand
    window: Window


def gather_windows(
    placement: Placement,
    machine: Machine,
    node: Node,
    x: Operand,
    output: Operand,
    window: Window,
) -> Gathered | None:
    """The gathered form of a convolution's input, or None where it lies better as it is.

    Sets the padding of the value's storage, which the host then adds.
    """
    layout = x.layout
    alone = window.kernel == (1, 1) or layout.planes != 1 or window.dilation[1] != 1
    if alone or int(node.attrs.get("group", 1)) != 1 or not _comes_from_host(placement, node):
        return None
    count = _pieces(machine, layout, window, output.layout)
    if not count:
        return None
    value = node.input(0)
    pads = _pads(node, whole=count == window.kernel[0])
    fill = scalars_of(value, node).zero_point
    stored = placement.storage[id(value)]
    placement.storage[id(value)] = replace(stored, pads=pads, fill=fill)
    return _gathered(x, output.layout, window, count, pads)


def _comes_from_host(placement: Placement, node: Node) -> bool:
    """Whether the input lies in host memory first and nothing else reads it on the device."""
    value = node.input(0)
    producer = placement.graph.producers().get(id(value))
    if producer is not None and placement.on_device(producer):
        return False
    users = placement.graph.users()[id(value)]
    return [u for u in users if placement.on_device(u)] == [node] and _once(node, value)


def _once(node: Node, value: Value) -> bool:
    return sum(v is value for v in node.inputs) == 1


def _pieces(machine: Machine, layout: Layout, window: Window, output: Layout) -> int:
    """Rows of a window in one line: all, 1, or 0 for no gathering; by cycles for each output row.

    The array streams a row for each column tile and weight tile along k while the port brings the
    next pieces, so that the slower of the two counts.
    """
    height, width = window.kernel
    columns = -(-output.c // machine.array.cols)
    rows = machine.array.rows
    whole = _port_cycles(machine, layout.c, layout.c, layout.w) * window.stride[0]
    costs = {0: _cost(columns * height * width * -(-layout.c // rows) * output.w, whole)}
    piece = _port_cycles(machine, width * layout.c, window.stride[1] * layout.c, output.w)
    if width * layout.c <= rows:
        costs[1] = _cost(columns * height * output.w, piece * window.stride[0])
    if height * width * layout.c <= rows:
        costs[height] = _cost(columns * output.w, piece * height)
    return min(costs, key=lambda count: (costs[count], count))


def _cost(array_cycles: int, port_cycles: int) -> tuple[int, int]:
    return max(array_cycles, port_cycles), array_cycles + port_cycles


def _port_cycles(machine: Machine, element_bytes: int, stride_bytes: int, count: int) -> int:
    per_cycle = machine.device_memory.lines_per_cycle
    return port_cycles(machine, 0, element_bytes, (count,), (stride_bytes,), per_cycle)


def _pads(node: Node, *, whole: bool) -> tuple[int, int, int, int]:
    """(above, left, below, right); with one row a line, rows outside are left to the array."""
    pads = [int(p) for p in node.attrs["pads"]]
    rank = len(pads) // 2
    left, right = pads[rank - 1], pads[-1]
    if rank == 1 or not whole:
        return (0, left, 0, right)
    return (pads[0], left, pads[2], right)


def _gathered(
    x: Operand, output: Layout, window: Window, count: int, pads: tuple[int, int, int, int]
) -> Gathered:
    layout = x.layout
    height, width = window.kernel
    whole = count == height
    row_bytes = (layout.w + pads[1] + pads[3]) * layout.c
    rows = layout.h + pads[0] + pads[2]
    gather = Gather(
        piece_bytes=width * layout.c,
        count=count,
        piece_stride_bytes=window.dilation[0] * row_bytes,
        x_bytes=window.stride[1] * layout.c,
        y_bytes=(window.stride[0] if whole else 1) * row_bytes,
        image_bytes=rows * row_bytes,
    )
    packed = replace(
        layout, h=output.h if whole else layout.h, w=output.w, c=count * width * layout.c
    )
    left = (
        Window()
        if whole
        else Window((height, 1), (window.stride[0], 1), (window.dilation[0], 1), (window.pad[0], 0))
    )
    return Gathered(replace(x, layout=packed, gather=gather), left)
