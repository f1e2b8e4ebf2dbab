"""Requants and elementwise instructions collected until something depends on what they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.machine.description import Machine
from ridgeline.machine.execution.constants import Parameters
from ridgeline.machine.execution.products import (
    Part,
    Product,
    Rounding,
    Sums,
    Weights,
    weights_of,
)
from ridgeline.machine.execution.steps import Batch, Computation, Write
from ridgeline.machine.execution.tables import Combination, Key, table_of
from ridgeline.machine.execution.walks import Lines
from ridgeline.machine.instructions import Elementwise
from ridgeline.machine.instructions.state import Bytes


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A chain and the Requant that takes it."""

    parts: tuple[Part, ...]
    parameters: Parameters
    target: Lines


Output = tuple[int, Lines, int]
"""Of one elementwise instruction: its place in the batch, what it writes, its first row."""


class Batcher:
    """Collects jobs and elementwise instructions, and makes a Batch of them.

    Jobs over the same windows become one product, their column tiles side by side.
    """

    def __init__(self, machine: Machine, constants: Bytes) -> None:
        self.machine = machine
        self.constants = constants
        self._jobs: dict[tuple[Any, ...], list[tuple[int, Job]]] = {}
        self._combinations: dict[tuple[Any, ...], tuple[Combination, list[Output]]] = {}
        self._count = 0
        self._last_combined = (-1, 0)
        """Place of the last elementwise instruction, and which outputs it was added to."""
        self._weights: dict[tuple[Any, ...], Weights] = {}
        self._tables: dict[Key, Bytes] = {}

    def add_product(
        self, parts: list[Part], parameters: Parameters, target: Lines, rounding: Rounding
    ) -> None:
        """A chain, requantised."""
        # Sums are exact in any order: chains that walk the same windows in another are the same.
        ordered = tuple(sorted(parts, key=lambda part: part[0].number))
        key = (rounding, *(window.number for window, _ in ordered))
        self._jobs.setdefault(key, []).append((self._count, Job(ordered, parameters, target)))
        self._count += 1

    def add_combination(
        self, key: Key, one: Elementwise, a: Lines, b: Lines | None, target: Lines
    ) -> None:
        """An elementwise instruction on 8-bit operands."""
        if key not in self._tables:
            self._tables[key] = table_of(one, self.machine.vector.requantize)
        found = self._combinations.get((key, one.channels))
        if found is None:
            found = (Combination(self._tables[key], one), list[Output]())
            self._combinations[key, one.channels] = found
        combination, outputs = found
        row = combination.add(a, b)
        # Of two writes with none between them, one walk may do both.
        follows = outputs and self._last_combined == (self._count - 1, id(outputs))
        longer = outputs[-1][1].followed_by(target) if follows else None
        if longer is None:
            outputs.append((self._count, target, row))
        else:
            place, _, row = outputs[-1]
            outputs[-1] = (place, longer, row)
        self._last_combined = (self._count, id(outputs))
        self._count += 1

    def take(self) -> Batch | None:
        """What has been collected since the last call, or None."""
        if not self._count:
            return None
        computations: list[Computation] = []
        writes: list[tuple[int, Write]] = []
        for key, jobs in self._jobs.items():
            writes += _writes_of(jobs, len(computations))
            computations.append(self._product(key[0], [job for _, job in jobs]))
        first = len(computations)
        computations += [combination for combination, _ in self._combinations.values()]
        for number, (_, outputs) in enumerate(self._combinations.values(), first):
            for place, target, row in outputs:
                rows, columns = slice(row, row + target.m), slice(0, target.width)
                writes.append((place, Write(target, number, rows, columns)))
        writes.sort(key=lambda pair: pair[0])
        self._jobs, self._combinations, self._count = {}, {}, 0
        self._last_combined = (-1, 0)
        return Batch(tuple(computations), tuple(write for _, write in writes))

    def _product(self, rounding: Rounding, jobs: list[Job]) -> Product:
        widths = [job.target.width for job in jobs]
        parameters = [(job.parameters, job.target.width) for job in jobs]
        sums = self.sums([job.parts for job in jobs], widths)
        return Product(sums, parameters, rounding, self.machine)

    def sums(self, chains: list[tuple[Part, ...]], widths: list[int]) -> Sums:
        """Sums of chains over the same windows, whose weights are kept for the next such."""
        windows = tuple(window for window, _ in chains[0])
        key = (
            tuple(widths),
            tuple((w.width, w.format, w.zero_point) for w in windows),
            *(tuple(tile.number for _, tile in chain) for chain in chains),
        )
        weights = self._weights.get(key)
        if weights is None:
            weights = weights_of(self.constants, chains, widths)
            self._weights[key] = weights
        return Sums(windows, weights)


def _writes_of(jobs: list[tuple[int, Job]], source: int) -> list[tuple[int, Write]]:
    column = 0
    writes: list[tuple[int, Write]] = []
    for place, job in jobs:
        columns = slice(column, column + job.target.width)
        writes.append((place, Write(job.target, source, slice(None), columns)))
        column += job.target.width
    return writes
