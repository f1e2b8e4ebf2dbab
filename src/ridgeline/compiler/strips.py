"""Runs of layers made strip by strip, so that what lies between them is small enough to stay.

A run's results are divided into strips: some images, or some rows of one. For each strip its layers
are visited in order, and each makes what the strip takes of it: a few rows more than the strip has
where windows reach over its border, which are made again for the next one. What layers outside the
run read is made once, and kept whole. Runs may lie in runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.compiler.layout import Box, Layout
from ridgeline.compiler.moves import split_places
from ridgeline.compiler.plan import LayerPlan, Operand, Segment

Integers = npt.NDArray[np.int64]

_NONE = 1 << 40
"""Above every number of a row."""


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Layers [first, last) of a segment, in `count` strips."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Kept:
    """The box of a value that lies on chip for one strip, numbered, of its run."""

    box: Box
    strip: int


@dataclass(frozen=True, slots=True)
class Visit:
    """A layer that makes `box`; `held` is what lies on chip meanwhile, by id(root), of each value
    that does not lie there whole. Where the strips of other images are left out, since they are
    like it, it stands for `times` visits.
    """

    position: int
    box: Box
    held: Mapping[int, Kept]
    times: int = 1

    def box_of(self, operand: Operand) -> Box:
        """The rows of an operand that are on chip if it does not lie in device memory."""
        kept = self.held.get(id(operand.root))
        return operand.layout.box if kept is None else kept.box


def source_box(layer: LayerPlan, operand: Operand, box: Box) -> Box:
    """The rows of an operand that an output box of the layer takes."""
    if layer.kind == "concat" and operand.layout.box.sizes != layer.output.layout.box.sizes:
        return operand.layout.box
    if layer.kind in ("elementwise", "concat"):
        return operand.broadcast_box(box)
    return layer.window.input_box(box, operand.layout)


def may_be_stripped(layer: LayerPlan, images: int) -> bool:
    """Whether the layer may lie in a run: it makes rows of so many images from rows on chip."""
    if layer.kind == "alias":
        return False
    operands = [operand for operand in layer.inputs if not operand.constant]
    if any(operand.layout.n not in (1, images) for operand in operands):
        return False
    alike = all(o.layout.box.sizes == layer.output.layout.box.sizes for o in operands)
    return layer.output.layout.n == images and (alike or layer.kind != "concat")


class Reach:
    """The rows of each value that a rearrangement reads for the rows that it makes."""

    def __init__(self, layer: LayerPlan, layouts: Mapping[int, Layout]) -> None:
        assert layer.rearrangement is not None
        move, output = layer.rearrangement, layer.output.layout
        number, offset = split_places(move.placed)
        self.rows = output.h
        self.first: dict[int, Integers] = {}
        self.last: dict[int, Integers] = {}
        self.layouts = layouts
        for source, value in enumerate(move.sources):
            if isinstance(value, int) or id(value) not in layouts:
                continue
            layout = layouts[id(value)]
            # Rows of an image, counted through all images, that each row of the output takes.
            row = offset // (layout.row_bytes * layout.w)
            read = number == source
            around = (0, 3, 4)
            self.first[id(value)] = row.min(around, initial=_NONE, where=read).reshape(-1)
            self.last[id(value)] = row.max(around, initial=-1, where=read).reshape(-1)

    def boxes(self, box: Box) -> Iterator[tuple[int, Box]]:
        """(id(value), the rows of it that a box of the output takes)."""
        for root, firsts in self.first.items():
            layout, lasts = self.layouts[root], self.last[root]
            rows = [
                slice(n * self.rows + box.y0, n * self.rows + box.y1) for n in range(box.n0, box.n1)
            ]
            first = min(int(firsts[span].min()) for span in rows)
            last = max(int(lasts[span].max()) for span in rows)
            if last < first:
                continue
            (n0, y0), (n1, y1) = divmod(first, layout.h), divmod(last, layout.h)
            y0, y1 = (y0, y1 + 1) if n0 == n1 else (0, layout.h)
            yield root, Box(n0, n1 + 1, y0, y1, 0, layout.w)


class Strips:
    """A segment whose runs are made in strips; with none, every layer is visited once.

    With `one_image` the visits of a run's first images stand for those of the others. `reaches`
    keeps what was worked out of a segment's rearrangements.
    """

    def __init__(
        self,
        segment: Segment,
        runs: Sequence[Run] = (),
        *,
        one_image: bool = False,
        reaches: dict[int, Reach] | None = None,
    ) -> None:
        self.segment = segment
        self.one_image = one_image
        self.reaches = {} if reaches is None else reaches
        self.runs = sorted(runs, key=lambda run: (run.first, -run.last))
        self.number = 0
        self.users: dict[int, list[int]] = {}
        for position, layer in enumerate(segment.layers):
            for operand in (*layer.inputs, layer.output):
                if not operand.constant:
                    self.users.setdefault(id(operand.root), []).append(position)
        whole = [layer.output.layout.box for layer in segment.layers]
        everything = Run(0, len(segment.layers), 1)
        self.ends = {root: (min(users), max(users)) for root, users in self.users.items()}
        self.visits = tuple(self._scope(everything, dict(enumerate(whole)), {}, 1))

    def home(self, root: int) -> Run | None:
        """The innermost run that has all layers which make or read a value."""
        first, last = self.ends[root]
        around = [run for run in self.runs if run.first <= first and last < run.last]
        return around[-1] if around else None

    def innermost(self, position: int) -> Run | None:
        """The innermost run that a layer lies in."""
        around = [run for run in self.runs if run.first <= position < run.last]
        return around[-1] if around else None

    def span(self, root: int) -> tuple[int, int]:
        """The first and the last layer during which a value's lines are its own.

        What a run takes from outside, or leaves there, is there for all of its strips.
        """
        first, last = self.ends[root]
        home = self.home(root)
        for position in self.users[root]:
            for run in self.runs:
                if run.first <= position < run.last and _within(run, home):
                    first, last = min(first, run.first), max(last, run.last - 1)
        return first, last

    def _inner(self, outer: Run) -> list[Run]:
        """The runs directly in a run."""
        inside = [run for run in self.runs if _within(run, outer)]
        return [run for run in inside if not any(_within(run, other) for other in inside)]

    def _scope(
        self, scope: Run, boxes: Mapping[int, Box], held: Mapping[int, Kept], times: int
    ) -> Iterator[Visit]:
        """Visits of one strip of a run, in which each layer makes its one of `boxes`."""
        inner = {run.first: run for run in self._inner(scope)}
        position = scope.first
        while position < scope.last:
            run = inner.get(position)
            if run is None:
                if position in boxes:
                    yield Visit(position, boxes[position], held, times)
                position += 1
                continue
            made: dict[int, Box] = {}
            count, alike = self._counted(run, boxes)
            for number in range(count):
                own, kept = self._strip(run, number, boxes, made)
                yield from self._scope(run, own, {**held, **kept}, times * alike)
            position = run.last

    def _counted(self, run: Run, boxes: Mapping[int, Box]) -> tuple[int, int]:
        """(strips that are visited, how many each stands for)."""
        if not self.one_image:
            return run.count, 1
        images = max(
            (boxes[p].sizes[0] for p in range(run.first, run.last) if p in boxes), default=1
        )
        parts = max(1, run.count // images)
        return parts, run.count // parts

    def _strip(
        self, run: Run, number: int, boxes: Mapping[int, Box], made: dict[int, Box]
    ) -> tuple[dict[int, Box], dict[int, Kept]]:
        """What each layer makes for one strip, and what is kept of values that only the run has.

        `boxes`: what all strips together make; `made`: what was made last of what others read.
        """
        needed: dict[int, Box] = {}
        own: dict[int, Box] = {}
        for position in reversed(range(run.first, run.last)):
            if position not in boxes:
                continue
            root = id(self.segment.layers[position].output.root)
            box = needed.get(root)
            if self._leaves(root, run):
                share = _share(boxes[position], number, run.count)
                box = box if share is None else _union(box, share)
            if box is not None and self._read_outside(root, run):
                box = _rest(box, boxes[position], made.get(root))
                if box is not None:
                    made[root] = box
            if box is None:
                continue
            own[position] = box
            if not self._read_outside(root, run):
                needed[root] = box
            for source, part in self._taken(position, box):
                needed[source] = _union(needed.get(source), part)
        self.number += 1
        kept = {
            root: Kept(box, self.number)
            for root, box in needed.items()
            if not self._read_outside(root, run)
        }
        return own, kept

    def _taken(self, position: int, box: Box) -> Iterator[tuple[int, Box]]:
        """(id(root), its rows) of each value that a layer reads, on chip or not, to make a box."""
        layer = self.segment.layers[position]
        for operand in layer.inputs:
            if not operand.constant:
                yield id(operand.root), source_box(layer, operand, box)
        if layer.kind == "move":
            yield from self._reach(position).boxes(box)

    def _reach(self, position: int) -> Reach:
        """What a rearrangement reads of what the segment makes."""
        if position not in self.reaches:
            layers = self.segment.layers
            layouts: dict[int, Layout] = {}
            for before in layers[:position]:
                layouts.setdefault(id(before.output.root), before.output.layout)
            self.reaches[position] = Reach(layers[position], layouts)
        return self.reaches[position]

    def _read_outside(self, root: int, run: Run) -> bool:
        first, last = self.ends[root]
        return first < run.first or last >= run.last

    def _leaves(self, root: int, run: Run) -> bool:
        return root in self.segment.leaving or self._read_outside(root, run)


def _within(run: Run, outer: Run | None) -> bool:
    """Whether a run lies in another, and is not it; all lie in None."""
    return outer is None or (run != outer and outer.first <= run.first and run.last <= outer.last)


def _union(one: Box | None, other: Box) -> Box:
    if one is None:
        return other
    return Box(
        min(one.n0, other.n0),
        max(one.n1, other.n1),
        min(one.y0, other.y0),
        max(one.y1, other.y1),
        min(one.x0, other.x0),
        max(one.x1, other.x1),
    )


def _share(box: Box, number: int, count: int) -> Box | None:
    """Strip `number` of `count`: whole images where there are as many, else rows of one image."""
    images, rows, _ = box.sizes
    pieces = max(1, count // images)
    if pieces == 1:
        first, last = images * number // count, images * (number + 1) // count
        part = Box(box.n0 + first, box.n0 + last, box.y0, box.y1, box.x0, box.x1)
    else:
        image, piece = divmod(number, pieces)
        first, last = rows * piece // pieces, rows * (piece + 1) // pieces
        image += box.n0
        part = Box(image, image + 1, box.y0 + first, box.y0 + last, box.x0, box.x1)
    return part if part.rows else None


def _rest(box: Box, whole: Box, made: Box | None) -> Box | None:
    """What of a box belongs to `whole` and was not made before."""
    y0, y1 = max(box.y0, whole.y0), min(box.y1, whole.y1)
    if made is not None and (made.n0, made.n1) == (box.n0, box.n1):
        y0 = max(y0, made.y1)
    return Box(box.n0, box.n1, y0, y1, box.x0, box.x1) if y0 < y1 else None
