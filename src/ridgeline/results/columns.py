"""The table of columns: one line here adds a column to text, Markdown, CSV and JSON alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ridgeline.errors import RidgelineError, did_you_mean
from ridgeline.results.energy import ARRAY_MACS, COUNTS, LEVELS
from ridgeline.results.rows import LayerRow, Report

Cell = str | int | float | tuple[int, ...] | None
Kind = Literal["text", "whole", "number", "share", "micro"]


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a layer.

    `heading` stands above it in a table, `unit` beside it where there is room. `width` is the
    narrowest terminal, in characters, that shows it unasked; 0 means only when asked for. `share`
    cells are fractions of 1, printed in per cent; `micro` cells are printed in millionths, and
    `raw_unit` is what they are in.
    """

    key: str
    heading: str
    unit: str
    doc: str
    kind: Kind
    width: int
    get: Callable[[LayerRow, Report], Cell]

    @property
    def raw_unit(self) -> str:
        """The unit of what `get` returns, and JSON and CSV hold."""
        return {"share": "fraction of 1", "micro": self.unit.lstrip("µ")}.get(self.kind, self.unit)

    def text(self, row: LayerRow, report: Report) -> str:
        """The cell as a table prints it; "-" where nothing is known or nothing applies."""
        return format_cell(self.kind, self.get(row, report))


def format_cell(kind: Kind, cell: Cell) -> str:
    """A cell for people: thousands with commas, shares in per cent."""
    if cell is None or cell in ("", ()):
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return "x".join(str(n) for n in cell)
    if kind == "share":
        return f"{100 * cell:.1f}"
    if kind == "whole":
        return f"{round(cell):,}"
    if kind == "micro":
        return f"{1e6 * cell:,.2f}"
    return f"{cell:,.1f}"


def _share_of_time(row: LayerRow, report: Report) -> float:
    return row.cycles / report.cycles if report.cycles else 0.0


def _loss(row: LayerRow, report: Report) -> str:
    name, cycles = row.largest_loss()
    return f"{name} {100 * cycles / row.cycles:.0f}%" if name and row.cycles else ""


def _entry(name: str) -> Callable[[LayerRow, Report], Cell]:
    def get(row: LayerRow, report: Report) -> Cell:
        return row.ledger.get(name, 0.0) / row.cycles if row.cycles else 0.0

    return get


def _count(name: str) -> Callable[[LayerRow, Report], Cell]:
    def get(row: LayerRow, report: Report) -> Cell:
        return row.counts.get(name, 0)

    return get


def _level(name: str) -> Callable[[LayerRow, Report], Cell]:
    def get(row: LayerRow, report: Report) -> Cell:
        return None if row.joules is None else row.joules.get(name, 0.0)

    return get


def _key(prefix: str, name: str) -> str:
    return prefix + name.replace(" ", "_").replace("-", "_")


LEDGER_ENTRIES: dict[str, str] = {
    "useful": "multiply-accumulates that the model needs",
    "again": "rows that two strips of a layer share, multiplied once more",
    "unused": "array elements without work: tiles that do not fill it",
    "weight stall": "the array waits for weights from memory",
    "weight shift": "the array waits while weights shift into it",
    "vector": "the vector unit works and the array has nothing to do",
    "read-after-write": "a result that the next step needs is still on its way",
    "input": "activations are being loaded",
    "store": "results are being stored",
    "link": "data cross the link to or from the host",
    "host": "the host computes",
    "issue": "the next instruction has not been issued",
    "drain": "pipelines empty at the end",
}
"""Where cycles go, in order of priority; the same names as in `machine.ledger`."""

COLUMNS: tuple[Column, ...] = (
    Column("layer", "layer", "", "node after fusion", "text", 1, lambda r, _: r.name),
    Column("op", "op", "", "operator", "text", 100, lambda r, _: r.op),
    Column("placed", "on", "", "unit that computes it", "text", 90, lambda r, _: r.placed),
    Column("shape", "output", "", "shape of its output", "text", 120, lambda r, _: r.shape),
    Column("macs", "MACs", "", "multiply-accumulates", "whole", 70, lambda r, _: r.macs),
    Column("operations", "operations", "", "2 x MACs", "whole", 0, lambda r, _: r.operations),
    Column(
        "vector_operations",
        "vector ops",
        "",
        "elementwise and window operations",
        "whole",
        0,
        lambda r, _: r.vector_operations,
    ),
    Column(
        "weight_bytes",
        "weights",
        "B",
        "bytes of its weights",
        "whole",
        140,
        lambda r, _: r.weight_bytes,
    ),
    Column(
        "input_bytes", "input", "B", "bytes of its inputs", "whole", 0, lambda r, _: r.input_bytes
    ),
    Column(
        "output_bytes",
        "output",
        "B",
        "bytes of its output",
        "whole",
        0,
        lambda r, _: r.output_bytes,
    ),
    Column(
        "device_memory_bytes",
        "moved",
        "B",
        "bytes through the device-memory port",
        "whole",
        110,
        lambda r, _: r.device_memory_bytes,
    ),
    Column(
        "intensity",
        "intensity",
        "MAC/B",
        "MACs for each byte through the device-memory port",
        "number",
        0,
        lambda r, _: r.intensity_macs_per_byte,
    ),
    Column(
        "balance",
        "balance",
        "MAC/B",
        "intensity from which the array, not the memory, is the limit",
        "number",
        0,
        lambda _, report: report.machine.balance_macs_per_byte,
    ),
    Column("cycles", "cycles", "", "its part of the run", "whole", 1, lambda r, _: r.cycles),
    Column("time", "time", "%", "its share of the run", "share", 84, _share_of_time),
    Column(
        "ideal_array_cycles",
        "ideal array",
        "cycles",
        "array work over the array's peak",
        "whole",
        130,
        lambda r, _: r.ideal_array_cycles,
    ),
    Column(
        "ideal_memory_cycles",
        "ideal memory",
        "cycles",
        "bytes moved over the memory's rate",
        "whole",
        130,
        lambda r, _: r.ideal_memory_cycles,
    ),
    Column(
        "utilisation", "use", "%", "of the array's peak", "share", 1, lambda r, _: r.utilisation
    ),
    Column("bound", "limit", "", "what bounds it", "text", 1, lambda r, _: r.bound),
    Column(
        "bound_cycles",
        "at least",
        "cycles",
        "cycles that this limit allows",
        "whole",
        124,
        lambda r, _: r.bound_cycles,
    ),
    Column("loss", "largest loss", "", "where most of the rest went", "text", 60, _loss),
    Column(
        "energy_joules",
        "energy",
        "µJ",
        "over all levels, idle power included",
        "micro",
        96,
        lambda r, _: r.energy_joules,
    ),
    Column(
        "sqnr_db",
        "SQNR",
        "dB",
        "output against the float model",
        "number",
        90,
        lambda r, _: r.sqnr_db,
    ),
    Column(
        "performed_macs",
        "performed MACs",
        "",
        "multiply-accumulates that the array performs, those with padding included",
        "whole",
        0,
        lambda r, _: sum(n for name, n in r.counts.items() if name.startswith(ARRAY_MACS)),
    ),
    *(
        Column(key, key.replace("_", " "), "", doc, "whole", 0, _count(key))
        for key, doc in COUNTS.items()
    ),
    *(
        Column(_key("ledger_", name), name, "%", doc, "share", 0, _entry(name))
        for name, doc in LEDGER_ENTRIES.items()
    ),
    *(
        Column(_key("joules_", name), f"{name} energy", "µJ", doc, "micro", 0, _level(name))
        for name, doc in LEVELS.items()
    ),
    Column(
        "reason",
        "why on the host",
        "",
        "why the accelerator does not compute it",
        "text",
        0,
        lambda r, _: r.reason,
    ),
)

_BY_KEY = {column.key: column for column in COLUMNS}


def default_columns(width: int, report: Report | None = None) -> tuple[Column, ...]:
    """The columns that a table of `width` characters shows unasked.

    A column with nothing to say in any row of `report` is left out.
    """
    chosen = [c for c in COLUMNS if 0 < c.width <= width]
    if report is not None and report.rows:
        chosen = [c for c in chosen if _says_something(c, report)]
    return tuple(chosen)


def _says_something(column: Column, report: Report) -> bool:
    return any(column.get(row, report) not in (None, "", ()) for row in report.rows)


def choose_columns(keys: Sequence[str]) -> tuple[Column, ...]:
    """The columns of these keys, in this order; "all" means every one.

    Raises RidgelineError for an unknown key, with the keys near to it.
    """
    chosen: list[Column] = []
    for key in keys:
        if key == "all":
            chosen += COLUMNS
        elif key in _BY_KEY:
            chosen.append(_BY_KEY[key])
        else:
            raise RidgelineError(
                f"there is no column '{key}'", where="--columns", fix=did_you_mean(key, _BY_KEY)
            )
    return tuple(chosen)
