"""What instructions with nested counts share: how many vectors, and the lines of two walks."""

from __future__ import annotations

from ridgeline.machine.instructions.state import Places, nested


class Counted:
    """An instruction whose vectors are counted on three levels."""

    __slots__ = ()
    count_0: int
    count_1: int
    count_2: int

    @property
    def counts(self) -> tuple[int, int, int]:
        return (self.count_0, self.count_1, self.count_2)

    @property
    def m(self) -> int:
        """Vectors, or accumulator entries, in all."""
        return self.count_0 * self.count_1 * self.count_2


class TwoOperands(Counted):
    """An instruction that walks over vectors a and b."""

    __slots__ = ()
    a_line: int
    a_stride_0: int
    a_stride_1: int
    a_stride_2: int
    b_line: int
    b_stride_0: int
    b_stride_1: int
    b_stride_2: int

    def a_lines(self) -> Places:
        """Line of each vector of a, in order."""
        strides = (self.a_stride_0, self.a_stride_1, self.a_stride_2)
        return nested(self.a_line, self.counts, strides)

    def b_lines(self) -> Places:
        """Line of each vector of b, in order."""
        strides = (self.b_stride_0, self.b_stride_1, self.b_stride_2)
        return nested(self.b_line, self.counts, strides)
