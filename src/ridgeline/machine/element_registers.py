"""The registers of the processing elements and of the array's edges, and what one clock does.

A clock method is given what lies on the edges in a cycle, returns what leaves the array in the same
cycle, and leaves the registers as they are in the next. Nothing here knows a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

NOTHING = -1
"""The tag of a register that holds no result, and the address of a bus that carries no word."""

VALID, FIRST, HIGH, ENDS, FINAL = 1, 2, 4, 8, 16
"""Bits of the token beside an operand of an output-stationary array: there is one; it begins a sum;
it is a high byte; it ends its row's sum; that of the tile's last row, so that the column drains."""


class Skew:
    """Delay lines, one a lane: lane i holds its values for i cycles, or lanes - 1 - i cycles."""

    def __init__(self, lanes: int, *, reverse: bool = False, fill: int = 0) -> None:
        self.delays = np.arange(lanes)[::-1] if reverse else np.arange(lanes)
        self.registers = np.full((lanes - 1, lanes), fill, np.int64)

    def clock(self, values: Integers) -> Integers:
        """What comes out in the cycle in which `values` [lanes] go in."""
        seen = np.concatenate([values[None, :], self.registers])
        self.registers = seen[:-1]
        return seen[self.delays, np.arange(seen.shape[1])]


def _rightwards(entering: Integers, registers: Integers) -> Integers:
    """What each element sees from its left: the edge [rows], then the neighbour's register."""
    return np.concatenate([entering[:, None], registers[:, :-1]], axis=1)


def _downwards(entering: Integers, registers: Integers) -> Integers:
    return np.concatenate([entering[None, :], registers[:-1]])


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """One row (or column) of a stationary tile on a loader's bus, and its place in the array."""

    place: int
    values: Integers


class StationaryRegisters:
    """Weight- or input-stationary elements: one operand stays, the other and the sums pass.

    Each element has an activation register, a weight with its shadow, a product and a partial sum.
    Operands enter at the left, skewed by row; sums leave at the foot and are deskewed by column.
    `columnwise`: words of a loader are columns of the tile and enter at the left; else rows, from
    the top. A word's place is written where its bus passes it, one cycle later a lane on.
    """

    def __init__(self, rows: int, cols: int, loaders: int, *, columnwise: bool) -> None:
        grid = (rows, cols)
        self.activation = np.zeros(grid, np.int64)
        self.swap = np.zeros(grid, np.int64)
        self.weight = np.zeros(grid, np.int64)
        self.shadow = np.zeros(grid, np.int64)
        self.product = np.zeros(grid, np.int64)
        self.partial = np.zeros(grid, np.int64)
        # The tag runs beside the data of the last row, through the same registers.
        self.tag = np.full(cols, NOTHING, np.int64)
        self.product_tag = self.tag.copy()
        self.partial_tag = self.tag.copy()
        self.activation_skew, self.swap_skew = Skew(rows), Skew(rows)
        self.tag_skew = Skew(rows, fill=NOTHING)
        self.deskew = Skew(cols, reverse=True)
        self.tag_deskew = Skew(cols, reverse=True, fill=NOTHING)
        self.columnwise = columnwise
        self.lanes = rows if columnwise else cols
        self.word_skews = [Skew(self.lanes) for _ in range(loaders)]
        self.place_skews = [Skew(self.lanes, fill=NOTHING) for _ in range(loaders)]

    def clock(
        self, operand: Integers, tag: int, swap: bool, words: list[Word | None]
    ) -> tuple[Integers, Integers]:
        """(sums [cols], their tags [cols]) that leave while `operand` [rows] enters."""
        rows = self.activation.shape[0]
        seen = _rightwards(self.activation_skew.clock(operand), self.activation)
        swaps = _rightwards(self.swap_skew.clock(np.full(rows, swap, np.int64)), self.swap)
        tags = self.tag_skew.clock(np.full(rows, tag, np.int64))[-1:]
        sums = self.deskew.clock(self.partial[-1])
        left = self.tag_deskew.clock(self.partial_tag)

        nothing_above = np.zeros(self.partial.shape[1], np.int64)
        self.partial = _downwards(nothing_above, self.partial) + self.product
        self.product = seen * self.weight
        self.weight = np.where(swaps == 1, self.shadow, self.weight)
        self.shadow = self._shifted(words)
        self.activation, self.swap = seen, swaps
        self.partial_tag = self.product_tag
        self.product_tag = np.concatenate([tags, self.tag[:-1]])
        self.tag = self.product_tag
        return sums, left

    def _shifted(self, words: list[Word | None]) -> Integers:
        """The shadow registers after the buses have passed."""
        shadow = self.shadow.copy()
        plane = shadow.T if self.columnwise else shadow
        lanes = np.arange(self.lanes)
        for word, word_skew, place_skew in zip(
            words, self.word_skews, self.place_skews, strict=True
        ):
            values = word.values if word else np.zeros(self.lanes, np.int64)
            place = word.place if word else NOTHING
            passing = word_skew.clock(values)
            places = place_skew.clock(np.full(self.lanes, place, np.int64))
            here = places != NOTHING
            plane[places[here], lanes[here]] = passing[here]
        return shadow


class Feeder:
    """The left edge of an output-stationary array: a register of one line in front of each row.

    Line r of a tile comes through the one port r cycles after line 0, which is just when row r
    needs its first element, so no skew registers are needed. Element 0 passes at once.
    """

    def __init__(self, rows: int, depth: int) -> None:
        self.elements = np.zeros((rows, depth), np.int64)
        self.tokens = np.zeros((rows, depth), np.int64)

    def take(self, row: int, elements: Integers, tokens: Integers) -> None:
        """A line of at most `depth` elements reaches its row in this cycle."""
        self.elements[row] = 0
        self.tokens[row] = 0
        self.elements[row, : elements.size] = elements
        self.tokens[row, : tokens.size] = tokens

    def clock(self) -> tuple[Integers, Integers]:
        """(operand, token) of each row in this cycle."""
        operands, tokens = self.elements[:, 0].copy(), self.tokens[:, 0].copy()
        for table in (self.elements, self.tokens):
            table[:, :-1] = table[:, 1:]
            table[:, -1] = 0
        return operands, tokens

    @property
    def empty(self) -> bool:
        """Nothing is left to enter the array after this cycle's clock."""
        return not self.tokens.any()


class OutputRegisters:
    """Output-stationary elements: activations pass to the right, weights down, sums stay.

    When the last row of a tile has its last product, its column shifts its sums down. Row i then
    shifts i + 1 times, its own sum and those above, and may begin its next sum with the last shift.
    """

    def __init__(self, rows: int, cols: int) -> None:
        grid = (rows, cols)
        self.activation = np.zeros(grid, np.int64)
        self.token = np.zeros(grid, np.int64)
        self.weight = np.zeros(grid, np.int64)
        self.product = np.zeros(grid, np.int64)
        self.product_token = np.zeros(grid, np.int64)
        self.total = np.zeros(grid, np.int64)
        self.tag = np.full(grid, NOTHING, np.int64)
        self.begin = np.zeros(cols, np.int64)
        self.draining = np.zeros(grid, np.int64)
        self.weight_skew = Skew(cols)
        self.deskew = Skew(cols, reverse=True)
        self.tag_deskew = Skew(cols, reverse=True, fill=NOTHING)

    def clock(
        self, operands: Integers, tokens: Integers, weights: Integers
    ) -> tuple[Integers, Integers]:
        """(sums [cols], their tags [cols]) that leave while operands [rows] and weights enter.

        A tag is the row of the array in which the sum was made.
        """
        rows, cols = self.total.shape
        seen = _rightwards(operands, self.activation)
        seen_tokens = _rightwards(tokens, self.token)
        seen_weights = _downwards(self.weight_skew.clock(weights), self.weight)
        draining = self.draining | self.begin[None, :]
        foot = np.where(draining[-1] == 1, self.tag[-1], NOTHING)
        sums, left = self.deskew.clock(self.total[-1]), self.tag_deskew.clock(foot)

        token = self.product_token
        valid = (token & VALID) != 0
        shift = np.where(token & HIGH, 8, 0)
        before = np.where(token & FIRST, 0, self.total)
        nothing = np.zeros(cols, np.int64)
        own = np.broadcast_to(np.arange(rows)[:, None], (rows, cols))
        passed = np.where(draining == 1, _downwards(nothing, self.total), self.total)
        passed_tag = np.where(draining == 1, _downwards(nothing + NOTHING, self.tag), self.tag)
        self.total = np.where(valid, before + (self.product << shift), passed)
        made = np.where(token & ENDS, own, NOTHING)
        self.tag = np.where(valid, made, passed_tag)
        self.begin = ((token & FINAL) != 0).any(axis=0).astype(np.int64)
        self.draining = _downwards(nothing, draining)
        self.product, self.product_token = seen * seen_weights, seen_tokens
        self.activation, self.token, self.weight = seen, seen_tokens, seen_weights
        return sums, left
