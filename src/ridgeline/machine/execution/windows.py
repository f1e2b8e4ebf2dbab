"""Windows that may leave their tensor: one view of the vectors inside, and a border without any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ridgeline.machine.execution.walks import Lines, Triple
from ridgeline.machine.instructions.array import WindowFields
from ridgeline.machine.instructions.state import Bytes

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """counts[2] x counts[1] x counts[0] vectors, of which a block along y and x lies inside."""

    counts: Triple
    width: int
    format: int
    zero_point: int
    inside: Lines | None
    """The vectors inside; None when there are none."""
    rows: slice
    columns: slice
    """Where they lie among all vectors, along y and along x."""
    full: bool
    """Whether every vector is inside."""
    number: int = 0
    """Tells the windows of a plan apart."""

    @property
    def m(self) -> int:
        return self.counts[0] * self.counts[1] * self.counts[2]

    def part(self, target: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Of an array [m, width], a vector for each of the window's: a view of those inside,
        [images, rows, columns, width].
        """
        c0, c1, c2 = self.counts
        shaped = target.reshape(c2, c1, c0, target.shape[1])
        return shaped if self.full else shaped[:, self.rows, self.columns]

    def copy_stored(self, buffer: Bytes, target: npt.NDArray[Any]) -> None:
        """Stored values into `target` [m, width]; a vector outside becomes the zero point."""
        if not self.full:
            target.fill(self.zero_point)
        if self.inside is not None:
            self.part(target)[...] = self.inside.read(buffer)


def window_of(
    one: WindowFields,
    width: int,
    buffer_shape: Shape,
    tap: tuple[int, int, int] = (0, 0, 0),
    number: int = 0,
) -> Window:
    """The window of an instruction, `width` lanes wide, moved by `tap` (lines, x, y).

    Raises LeavesMemory when a vector inside its tensor is not within the buffer.
    """
    lines, x, y = tap
    columns = _inside(one.x_origin + x, one.x_step, one.x_limit, one.count_0)
    rows = _inside(one.y_origin + y, one.y_step, one.y_limit, one.count_1)
    counts = one.counts
    within = (columns.stop - columns.start, rows.stop - rows.start, one.count_2)
    inside = None
    if min(within) > 0:
        strides = (one.stride_0, one.stride_1, one.stride_2)
        line = one.line + lines + columns.start * strides[0] + rows.start * strides[1]
        inside = Lines.checked(buffer_shape, line, within, strides, one.lane, width, one.format)
    full = within == counts
    return Window(counts, width, one.format, one.zero_point, inside, rows, columns, full, number)


def _inside(origin: int, step: int, limit: int, count: int) -> slice:
    """The indices i in [0, count) for which origin + i * step lies in [0, limit)."""
    if step == 0:
        return slice(0, count if 0 <= origin < limit else 0)
    first = max(0, -(origin // step))
    end = min(count, -((origin - limit) // step))
    return slice(first, max(first, end))
