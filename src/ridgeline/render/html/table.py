"""The layers as a table whose headings sort it, and the machine's figures with their sources."""

from __future__ import annotations

from math import prod

from ridgeline.machine.description import Machine
from ridgeline.render.html.elements import Markup, element, join
from ridgeline.render.machine import figures
from ridgeline.render.plain import shorten
from ridgeline.results.columns import COLUMNS, Cell, Column
from ridgeline.results.energy import COUNTS
from ridgeline.results.rows import LayerRow, Report

LONGEST_NAME = 44
FIRST = (
    "layer", "op", "placed", "cycles", "time", "utilisation", "bound", "bound_cycles", "loss",
    "energy_joules", "sqnr_db", "shape",
)  # fmt: skip


def columns(report: Report) -> tuple[Column, ...]:
    """Every column that says something of some layer, what limits it first.

    The ledger is left out: it has its chart. So are counts that are 0 in every layer.
    """
    found = [
        column
        for column in COLUMNS
        if not column.key.startswith(("ledger_", "joules_"))
        and any(_says_something(column, row, report) for row in report.rows)
    ]
    return tuple(sorted(found, key=lambda c: FIRST.index(c.key) if c.key in FIRST else len(FIRST)))


def _says_something(column: Column, row: LayerRow, report: Report) -> bool:
    cell = column.get(row, report)
    return cell not in (None, "", ()) and not (
        cell == 0 and column.key in (*COUNTS, "performed_macs")
    )


def layers(report: Report) -> Markup:
    """A row for each layer, and their sum at the end."""
    chosen = columns(report)
    rows = [_row(index, row, report, chosen) for index, row in enumerate(report.rows)]
    head = element("thead", {}, element("tr", {}, *(_heading(c) for c in chosen)))
    total = report.total
    sums = [_cell(column, total, report) for column in chosen]
    table = element(
        "table",
        {"id": "layers"},
        element(
            "caption", {}, "Choose a heading to sort by it; choose it again to turn the order."
        ),
        head,
        element("tbody", {}, *rows),
        element("tfoot", {}, element("tr", {}, *sums)),
    )
    region = {"class": "region", "tabindex": 0, "role": "group", "aria-label": "Table of layers"}
    hint = "Choose a heading to sort by it; choose it again to turn the order."
    return join(
        [element("p", {"class": "hint", "id": "sorting"}, hint), element("div", region, table)]
    )


def _heading(column: Column) -> Markup:
    unit = element("small", {}, f" {column.unit}") if column.unit else Markup("")
    button = element("button", {"type": "button", "title": column.doc}, column.heading, unit)
    kind = "text" if column.kind == "text" else "number"
    return element("th", {"scope": "col", "aria-sort": "none", "class": kind}, button)


def _row(index: int, row: LayerRow, report: Report, chosen: tuple[Column, ...]) -> Markup:
    cells = [_cell(column, row, report) for column in chosen]
    return element("tr", {"data-layer": index, "id": f"layer-{index}"}, *cells)


def _cell(column: Column, row: LayerRow, report: Report) -> Markup:
    """Shown as in every table; `data-v` is what the page's script sorts by, if not by the text."""
    if column.key == "layer":
        name = {"scope": "row", "data-v": row.name, "title": row.name}
        return element("th", name, shorten(row.name, LONGEST_NAME))
    text = column.text(row, report)
    value = sort_key(column.get(row, report))
    attributes = {"class": "text"} if column.kind == "text" else {}
    # Energies sort as they are shown: two decimals of a microjoule.
    if value != shown_key(text) and column.kind != "micro":
        attributes["data-v"] = value
    return element("td", attributes, text)


def shown_key(text: str) -> str:
    """What the page's script sorts a cell by that says nothing else."""
    return "" if text == "-" else text.replace(",", "")


def sort_key(cell: Cell) -> str:
    """What a cell is sorted by: the number itself, a shape's elements; "" sorts last."""
    if isinstance(cell, tuple):
        return str(prod(cell)) if cell else ""
    if isinstance(cell, float):
        return f"{cell:.9g}"
    return "" if cell is None else str(cell)


def machine_figures(machine: Machine) -> Markup:
    """Every figure of the machine, its value and where it comes from."""
    heads = [element("th", {"scope": "col"}, text) for text in ("figure", "value", "source")]
    rows = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, key),
            element("td", {}, value),
            element("td", {}, source),
        )
        for key, value, source in figures(machine)
    ]
    table = element(
        "table",
        {"class": "figures"},
        element("thead", {}, element("tr", {}, *heads)),
        element("tbody", {}, *rows),
    )
    region = {"class": "region", "tabindex": 0, "role": "group", "aria-label": "Machine figures"}
    return element("div", region, table)
