"""Frames: the lines that hold a part of a layer's output, and the step after which it is whole.

The compiler says where each box of a layer's output lies; the instructions say which of them writes
there last. So a program is looked at without trusting any instruction's meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Box, Layout, Region
from ridgeline.compiler.plan import TiledLayer
from ridgeline.divergence.walk import Step
from ridgeline.ir import Value
from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import Instruction, Load, Space
from ridgeline.machine.instructions.vector import OutputFields
from ridgeline.machine.program import HostSegment

Integers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
Write = tuple[int, Integers, slice]
"""An instruction's number, the lines that it writes and the bytes of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """`box` of a layer's output in the lines of `region`, whole after step `last`."""

    layer: TiledLayer
    region: Region
    box: Box
    first: int
    last: int
    lines: Integers | None = None
    """Where given, only what was written to these lines and `lanes` is looked at."""
    lanes: slice | None = None

    @property
    def value(self) -> Value:
        return self.layer.plan.node.output


def frames(layers: Sequence[TiledLayer], steps: Sequence[Step], machine: Machine) -> list[Frame]:
    """Every frame, in order of the step after which it is whole.

    Where other layers write to a box before its last line is made, no step leaves it whole: then
    each write to it is a frame.
    """
    writers: dict[int, list[Write]] = {}
    for step in steps:
        if isinstance(step.work, HostSegment):
            continue
        lines = buffer_writes(step.work, machine)
        if lines.size:
            lanes = written_lanes(step.work)
            writers.setdefault(step.work.layer, []).append((step.number, lines, lanes))
    found: list[Frame] = []
    visits: dict[int, list[TiledLayer]] = {}
    for layer in layers:
        if layer.plan.kind != "alias":
            visits.setdefault(layer.plan.index, []).append(layer)
    for number, visited in visits.items():
        own = writers.get(number, [])
        others = [w for index, w in writers.items() if index != number]
        for frame in _frames_of(visited, own):
            disturbed = any(_disturbs(frame, writes) for writes in others)
            found += _by_write(frame, own) if disturbed else [frame]
    return sorted(found, key=lambda frame: frame.last)


def _disturbs(frame: Frame, writes: Sequence[Write]) -> bool:
    start, end = frame.region.line, frame.region.line + frame.region.lines
    return any(
        frame.first < number < frame.last and bool(((lines >= start) & (lines < end)).any())
        for number, lines, _ in writes
    )


def _by_write(frame: Frame, own: Sequence[Write]) -> list[Frame]:
    """A frame for each instruction that writes to it, of what that writes."""
    return [
        replace(frame, first=number, last=number, lines=lines, lanes=lanes)
        for number, lines, lanes in own
        if frame.first <= number <= frame.last and _within(frame.region, lines)
    ]


def buffer_writes(instruction: Instruction, machine: Machine) -> Integers:
    """Unified-buffer lines that an instruction writes."""
    return instruction.accesses(machine).writes.get(Space.BUFFER, np.empty(0, np.int64))


def written_lanes(instruction: Instruction) -> slice:
    """Bytes of each line that an instruction writes."""
    if isinstance(instruction, OutputFields):
        return slice(instruction.out_lane, instruction.out_lane + instruction.channels)
    if isinstance(instruction, Load):
        return slice(instruction.lane, instruction.lane + instruction.element_bytes)
    return slice(0, 0)


def _frames_of(visits: Sequence[TiledLayer], writers: Sequence[Write]) -> list[Frame]:
    """Boxes in order: what is written to other lines, or again, belongs to the next one."""
    places: list[tuple[TiledLayer, Region, Box]] = []
    for layer in visits:
        for box, region in zip(layer.boxes, layer.outputs, strict=True):
            # A region that holds the whole tensor is written box by box, but each line once.
            box = region.box if region.box.rows > box.rows else box
            if not places or places[-1][1] != region:
                places.append((layer, region, box))
    found: list[Frame] = []
    current, begun, last = 0, -1, -1
    written = _Written(places[0][1])
    for number, lines, lanes in writers:
        region, following = places[current][1], current + 1
        if not _within(region, lines) or (written.again(lines, lanes) and following < len(places)):
            if following >= len(places) or not _within(places[following][1], lines):
                continue  # another operand's lines
            if last >= 0:
                found.append(Frame(*places[current], begun, last))
            current, begun, written = following, -1, _Written(places[following][1])
        written.add(lines, lanes)
        begun = number if begun < 0 else begun
        last = number
    if begun >= 0:
        found.append(Frame(*places[current], begun, last))
    return found


class _Written:
    """Which bytes of a region were written."""

    def __init__(self, region: Region) -> None:
        self.first = region.line
        self.bytes = np.zeros((region.lines, region.layout.line_bytes), np.bool_)

    def again(self, lines: Integers, lanes: slice) -> bool:
        return bool(self.bytes[lines - self.first, lanes].any())

    def add(self, lines: Integers, lanes: slice) -> None:
        self.bytes[lines - self.first, lanes] = True


def _within(region: Region, lines: Integers) -> bool:
    return bool(lines.min() >= region.line and lines.max() < region.line + region.lines)


def places(region: Region, box: Box) -> tuple[Integers, Integers]:
    """(line, lane) [n, y, x, c] of each element of `box`; of int16 that of the low byte."""
    layout = region.layout
    rows = [np.arange(low, high) for low, high in _spans(box)]
    origin = region.address(0, 0, 0)
    strides = (region.stride_n, region.stride_y, region.stride_x)
    lines = np.zeros((1, 1, 1), np.int64) + origin
    for axis, (numbers, stride) in enumerate(zip(rows, strides, strict=True)):
        shape = [1, 1, 1]
        shape[axis] = -1
        lines = lines + (numbers * stride).reshape(shape)
    block, lane = np.divmod(np.arange(layout.c), layout.line_bytes)
    full = lines[..., None] + block * layout.planes
    return full, np.broadcast_to(lane, full.shape)


def _spans(box: Box) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    return (box.n0, box.n1), (box.y0, box.y1), (box.x0, box.x1)


def stored(buffer: npt.NDArray[np.uint8], region: Region, box: Box, value: Value) -> Array:
    """What the unified buffer holds of `box` [n, y, x, c], in the value's storage format."""
    lines, lanes = places(region, box)
    low = buffer[lines, lanes]
    if region.layout.planes == 1:
        return low.view(value.type.dtype.numpy)
    return (buffer[lines + 1, lanes].astype(np.uint16) << 8 | low).view(value.type.dtype.numpy)


def looked_at(frame: Frame) -> npt.NDArray[np.bool_]:
    """Which elements of the frame's box [n, y, x, c] its step has made."""
    lines, lanes = places(frame.region, frame.box)
    if frame.lines is None or frame.lanes is None:
        return np.ones(lines.shape, np.bool_)
    # The low byte of an element lies in the first of its planes.
    start, stop, _ = frame.lanes.indices(frame.region.layout.line_bytes)
    return np.isin(lines, frame.lines) & (lanes >= start) & (lanes < stop)


def expected_rows(array: Array, layout: Layout, box: Box) -> Array:
    """`box` [n, y, x, c] of a whole tensor in ONNX's order of dimensions."""
    rows = np.moveaxis(array, layout.channel_axis, -1)
    rows = rows.reshape(layout.n, layout.h, layout.w, layout.c)
    return rows[box.n0 : box.n1, box.y0 : box.y1, box.x0 : box.x1]


def index_of(flat: int, layout: Layout, box: Box, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The element's index in ONNX's order, given its place within `box` [n, y, x, c]."""
    images, rows, columns = box.sizes
    n, y, x, c = (int(i) for i in np.unravel_index(flat, (images, rows, columns, layout.c)))
    row = ((box.n0 + n) * layout.h + box.y0 + y) * layout.w + box.x0 + x
    rest = tuple(d for i, d in enumerate(shape) if i != layout.channel_axis)
    outer = [int(i) for i in np.unravel_index(row, rest)] if rest else []
    outer.insert(layout.channel_axis, c)
    return tuple(outer)
