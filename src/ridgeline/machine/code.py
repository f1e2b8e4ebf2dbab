"""A stretch of instructions as columns: one table of operands for each kind, in program order.

Tens of thousands of instructions are analysed as arrays; instruction objects are made of them only
where someone looks at one, or carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.machine.description import Machine
from ridgeline.machine.instructions import INSTRUCTIONS, Instruction, Unit
from ridgeline.machine.walks import WIDTH, WalkTable, most_places, walk_lines

Integers = npt.NDArray[np.int64]
Row = tuple[Any, ...]
"""The operands of one instruction, in the order of its class's fields."""

_UNITS = np.full(16, -1, np.int64)
for _kind in INSTRUCTIONS.values():
    _UNITS[_kind.opcode] = _kind.unit


@cache
def operand_names(kind: type[Instruction]) -> tuple[str, ...]:
    """The operands of a kind: its fields after the waits and the layer."""
    return tuple(f.name for f in fields(kind))[2:]


@cache
def _defaults(kind: type[Instruction]) -> dict[str, Any]:
    return {f.name: f.default for f in fields(kind)[2:]}


@cache
def _float_places(kind: type[Instruction]) -> tuple[int, ...]:
    names = operand_names(kind)
    return tuple(names.index(s.name) for s in kind.layout() if s.is_float)


@cache
def _row_of(kind: type[Instruction]) -> attrgetter[Row]:
    return attrgetter(*operand_names(kind))


def row_of(instruction: Instruction) -> Row:
    """The operands of an instruction."""
    return _row_of(type(instruction))(instruction)


def columns(kind: type[Instruction], count: int, /, **operands: Any) -> Integers:
    """The operands of `count` instructions [operands of the kind, count].

    Each is given as a number or as a column; the others have their defaults.
    """
    places = _float_places(kind)
    made = np.empty((len(operand_names(kind)), count), np.int64)
    for place, (name, default) in enumerate(_defaults(kind).items()):
        value = operands.pop(name, default)
        made[place] = np.asarray(value, np.float64).view(np.int64) if place in places else value
    assert not operands, operands
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """Lines of a `WalkTable`; `spans`: by opcode the first line of row 0, and lines a row."""

    machine: Machine
    lines: Integers
    spans: dict[int, tuple[int, int]]
    most_places: int


class Operands:
    """Tables of operands by opcode [operands of the kind, rows]: floats as bits of a float64.

    Several `Code`s share them, and the walks that follow from them.
    """

    def __init__(self, tables: dict[int, Integers]) -> None:
        self.tables = tables
        self._walks: Walked | None = None

    def with_banks(self, masks: dict[int, tuple[Integers, Integers]]) -> Operands:
        """The same with masks of banks (reading, writing), by opcode, for each row."""
        tables: dict[int, Integers] = {}
        for opcode, table in self.tables.items():
            tables[opcode] = made = table.copy()
            names = operand_names(INSTRUCTIONS[opcode])
            reads, writes = masks[opcode]
            both = (("in_banks", reads), ("out_banks", writes), ("banks", reads | writes))
            for name, mask in both:
                if name in names:
                    made[names.index(name)] = mask
        result = Operands(tables)
        result._walks = self._walks  # No walk depends on the masks.
        return result

    def whole(self, kind: type[Instruction]) -> Any:
        """An instruction whose operands are columns: it stands for all rows of its kind.

        For methods that only calculate with operands, and so take arrays as they take numbers.
        """
        table = self.tables[kind.opcode]
        columns: list[Any] = list(table)
        for place in _float_places(kind):
            columns[place] = table[place].view(np.float64)
        made: Any = kind
        return made(None, None, *columns)

    def forget_walks(self) -> None:
        """Free what `walks` keeps, which is several times as large as the tables."""
        self._walks = None

    def walks(self, machine: Machine) -> Walked:
        """What each row reads and writes on this machine."""
        if self._walks is None or self._walks.machine is not machine:
            blocks, start, most = [np.zeros((0, WIDTH), np.int64)], 0, 0
            spans: dict[int, tuple[int, int]] = {}
            for opcode, table in self.tables.items():
                walks = self.whole(INSTRUCTIONS[opcode]).walks(machine)
                blocks.append(walk_lines(walks, table.shape[1]))
                spans[opcode] = (start, len(walks))
                start += len(blocks[-1])
                most = max(most, most_places(blocks[-1], len(walks)))
            self._walks = Walked(machine, np.concatenate(blocks), spans, most)
        return self._walks


@dataclass(frozen=True, eq=False)
class Code:
    """n instructions. Instruction i is of the kind `opcodes[i]`: row `rows[i]` of its operands.

    opcodes, layers, rows [n]; waits [n, units].
    """

    opcodes: Integers
    layers: Integers
    waits: Integers
    rows: Integers
    operands: Operands

    def __len__(self) -> int:
        return self.opcodes.size

    @staticmethod
    def of(instructions: Sequence[Instruction]) -> Code:
        """The columns of these instructions. Raises OverflowError for operands beyond 64 bits."""
        tables: dict[int, list[Row]] = {}
        opcodes = [i.opcode for i in instructions]
        rows: list[int] = []
        for one in instructions:
            table = tables.setdefault(one.opcode, [])
            rows.append(len(table))
            table.append(row_of(one))
        waits = chain.from_iterable(i.waits for i in instructions)
        layers = [i.layer for i in instructions]
        return Code.made(opcodes, layers, rows, tables, np.fromiter(waits, np.int64))

    @staticmethod
    def made(
        opcodes: Sequence[int],
        layers: Sequence[int],
        rows: Sequence[int],
        tables: dict[int, list[Row]],
        waits: Integers | None = None,
    ) -> Code:
        """Columns of rows of operands; without waits, none."""
        count = len(opcodes)
        given = np.zeros(count * len(Unit), np.int64) if waits is None else waits
        return Code(
            np.asarray(opcodes, np.int64),
            np.asarray(layers, np.int64),
            given.reshape(count, len(Unit)),
            np.asarray(rows, np.int64),
            Operands({opcode: _columns(INSTRUCTIONS[opcode], t) for opcode, t in tables.items()}),
        )

    @staticmethod
    def of_layer(layer: int, tables: dict[int, Integers], places: dict[int, Integers]) -> Code:
        """Instructions of one layer, without waits.

        `tables`: operands by opcode, as `columns` makes them; `places`: where among all each
        instruction stands, by opcode. Only the order of the places counts.
        """
        used = [opcode for opcode in tables if tables[opcode].shape[1]]
        order = np.argsort(np.concatenate([places[opcode] for opcode in used]), kind="stable")
        counts = [tables[opcode].shape[1] for opcode in used]
        opcodes = np.repeat(used, counts)[order]
        rows = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])[order]
        waits = np.zeros((len(order), len(Unit)), np.int64)
        operands = Operands({opcode: tables[opcode] for opcode in used})
        return Code(opcodes, np.full(len(order), layer), waits, rows, operands)

    @cached_property
    def units(self) -> Integers:
        """The unit of each instruction."""
        return _UNITS[self.opcodes]

    def kinds(self) -> Iterable[tuple[type[Instruction], Integers, Integers]]:
        """For each kind that occurs: where its instructions stand, and the row of each."""
        for opcode in self.operands.tables:
            places = np.flatnonzero(self.opcodes == opcode)
            yield INSTRUCTIONS[opcode], places, self.rows[places]

    def one(self, kind: type[Instruction], row: int) -> Instruction:
        """The instruction of a row, without its waits and layer."""
        return _instruction(
            kind, (0,) * len(Unit), -1, self.operands.tables[kind.opcode][:, row].tolist()
        )

    def banks(self) -> tuple[Integers, Integers]:
        """Masks of the unified-buffer banks that each instruction holds: (reading, writing)."""
        reads, writes = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for kind, places, rows in self.kinds():
            whole = self.operands.whole(kind)
            for masks, made in ((whole.read_banks, reads), (whole.write_banks, writes)):
                made[places] = np.broadcast_to(masks, self.operands.tables[kind.opcode].shape[1])[
                    rows
                ]
        return reads, writes

    def with_banks(self, reads: Integers, writes: Integers) -> Code:
        """The same instructions holding these banks [n]; each row must be of one instruction."""
        masks: dict[int, tuple[Integers, Integers]] = {}
        for kind, places, rows in self.kinds():
            by_row = np.zeros((2, self.operands.tables[kind.opcode].shape[1]), np.int64)
            by_row[0, rows], by_row[1, rows] = reads[places], writes[places]
            masks[kind.opcode] = (by_row[0], by_row[1])
        return replace(self, operands=self.operands.with_banks(masks))

    def walks(self, machine: Machine) -> WalkTable:
        """What every instruction reads and writes."""
        walked = self.operands.walks(machine)
        first, counts = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        for kind, places, rows in self.kinds():
            start, each = walked.spans[kind.opcode]
            first[places], counts[places] = start + rows * each, each
        return WalkTable(walked.lines, first, counts, walked.most_places)

    def instructions(self) -> tuple[Instruction, ...]:
        """Every instruction as an object."""
        waits, layers = self.waits.tolist(), self.layers.tolist()
        made: list[Any] = [None] * len(self)
        for kind, places, rows in self.kinds():
            table = self.operands.tables[kind.opcode].T.tolist()
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                made[place] = _instruction(kind, tuple(waits[place]), layers[place], table[row])
        return tuple(made)

    def ordered(self, order: Integers) -> Code:
        """The same instructions in another order."""
        return replace(
            self,
            opcodes=self.opcodes[order],
            layers=self.layers[order],
            waits=self.waits[order],
            rows=self.rows[order],
        )

    @staticmethod
    def joined(codes: Sequence[Code]) -> Code:
        """The instructions of several, one after the other."""
        tables: dict[int, list[Integers]] = {}
        rows: list[Integers] = []
        starts = np.zeros(len(_UNITS), np.int64)
        for code in codes:
            rows.append(code.rows + starts[code.opcodes])
            for opcode, table in code.operands.tables.items():
                tables.setdefault(opcode, []).append(table)
                starts[opcode] += table.shape[1]
        return Code(
            np.concatenate([c.opcodes for c in codes]),
            np.concatenate([c.layers for c in codes]),
            np.concatenate([c.waits for c in codes]),
            np.concatenate(rows),
            Operands({opcode: np.concatenate(t, axis=1) for opcode, t in tables.items()}),
        )

    def with_waits(self, waits: Integers) -> Code:
        """The same instructions with these waits [n, units]."""
        return replace(self, waits=waits)


def _columns(kind: type[Instruction], table: list[Row]) -> Integers:
    width = len(operand_names(kind))
    floats = _float_places(kind)
    if not floats:
        flat = np.fromiter(chain.from_iterable(table), np.int64, len(table) * width)
        return np.ascontiguousarray(flat.reshape(len(table), width).T)
    made = np.empty((width, len(table)), np.int64)
    for place, column in enumerate(zip(*table, strict=True)):
        if place in floats:
            made[place] = np.asarray(column, np.float64).view(np.int64)
        else:
            made[place] = column
    return made


def _instruction(
    kind: type[Instruction], waits: tuple[int, ...], layer: int, row: list[Any]
) -> Instruction:
    values = list(row)
    for place in _float_places(kind):
        values[place] = float(np.int64(row[place]).view(np.float64))
    made: Any = kind
    return made(waits, layer, *values)
